"""Takes records of the event log into a table, each exactly once and in order, or says why not.

The one gate in front of `fold`: offset, leader epoch, `seq` and chain are checked here, for every reader (agent, direct reader,
replay) alike. A record that does not follow from the one before it never reaches the rows.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from hashlib import blake2b
from typing import Protocol

from google.protobuf.message import DecodeError

from events.codec import GENESIS_CHAIN, check_chain, decode_event, envelope_of
from events.codec.chain import CHAIN_BYTES, CHAIN_TAG, SUFFIX_BYTES
from events.errors import ChainBroken, SequenceBroken
from events.events import Event, LeaderElected
from projections.fold import fold
from projections.folding.hot import HotFolds
from projections.table import Table
from proto.gen.headway.v1 import events_pb2


class Taken(Enum):
    """What became of a record."""

    FOLDED = auto()
    KNOWN = auto()  # it lies before the table's position: folded earlier
    STALE = auto()  # written by a decider of an older leader epoch: left out and counted
    GAP = auto()  # events before it are missing: nothing was changed


FOLDED, KNOWN = Taken.FOLDED, Taken.KNOWN  # looking a member up takes longer than what is done with it


def take(table: Table, offset: int, value: bytes, before: Callable[[Table, Event], None] | None = None) -> Taken:
    """Fold the record at `offset` of the shard's event partition, unless it is known, stale or beyond a gap.

    The change stands in the table; `Table.flush` writes it. An event that will be folded is first shown to `before`, while the rows are
    still as it found them.

    Raises:
        SequenceBroken: its `seq` was folded before, at an earlier offset.
        ChainBroken: its chain digest does not follow from the record before it.
        UnknownEvent: this build cannot read it.
        MissingRow: it speaks of something the table does not hold.
    """
    shard = table.shard
    if offset < shard.next_offset:
        return KNOWN
    event = decode_event(value)
    if event.seq == shard.seq + 1:
        try:
            chain = check_chain(value, shard.chain or GENESIS_CHAIN)
        except ChainBroken:
            if not _is_stale(table, value):
                raise
            return _left_out(table, offset)
        if type(event) is LeaderElected and event.leader_epoch <= shard.leader_epoch:
            raise SequenceBroken(
                f"leader epoch {event.leader_epoch} follows {shard.leader_epoch}, but epochs only rise"
            )
        if before is not None:
            before(table, event)
        fold(table, event)
        shard.chain = chain
        shard.next_offset = offset + 1
        return FOLDED
    if _is_stale(table, value):
        return _left_out(table, offset)
    if event.seq > shard.seq:
        return Taken.GAP
    raise SequenceBroken(
        f"event {event.seq} stands again at offset {offset} of shard {table.number}, after event {shard.seq}: "
        "two deciders wrote with one leader epoch, or the log was restored from a copy. "
        "Run `headway replay` to locate the first one"
    )


class Record(Protocol):
    """What is needed of a record of the event log."""

    @property
    def offset(self) -> int:
        """Its offset."""
        ...

    @property
    def value(self) -> bytes:
        """The event's bytes."""
        ...


class BatchTaker:
    """Takes records into one table, as `take` does one by one, at less than half the cost. For one batch: nothing else folds meanwhile.

    What `projections.folding.hot` knows is folded here; every other record, and every one that does not follow, goes to `take`.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._hot = HotFolds(table)

    def take(self, records: Sequence[Record], begin: int, end: int) -> tuple[int, Taken | None]:
        """Take `records[begin:end]` in order, up to the first that had to go to `take`: whoever calls may look at the clock then.

        Returns how many were folded before that one, and what became of it; None where there was none. Raises as `take`; the table
        then holds half an event, see `Table.discard`.
        """
        table, folds = self._table, self._hot.folds
        shard = table.shard
        chain, next_offset = shard.chain or GENESIS_CHAIN, shard.next_offset
        begun_seq = seq = shard.seq
        at_us, cause_offset = shard.now_us, shard.facts_position
        for index in range(begin, end):
            record = records[index]
            offset, value = record.offset, record.value
            if offset < next_offset:
                break
            try:
                message = events_pb2.Event.FromString(value)
            except DecodeError:
                break
            if message.seq != seq + 1:
                break
            due = blake2b(chain + value[:-SUFFIX_BYTES], digest_size=CHAIN_BYTES).digest()
            if value[-SUFFIX_BYTES:] != CHAIN_TAG + due:
                break
            fold = folds.get(message.WhichOneof("kind"))
            if fold is None or not fold(message):
                break
            seq += 1
            chain, next_offset = due, offset + 1
            at_us, cause_offset = message.at_us, message.cause_offset
        folded = seq - begun_seq
        if folded:
            shard.seq, shard.chain, shard.next_offset = seq, chain, next_offset
            shard.now_us, shard.facts_position = at_us, cause_offset
            shard.events += folded
        at = begin + folded
        if at == end:
            return folded, None
        self._hot.settle()
        return folded, take(table, records[at].offset, records[at].value)

    def settle(self) -> None:
        """Bring all rows up to the last record taken: before anybody else reads or flushes the table."""
        self._hot.settle()


def _is_stale(table: Table, value: bytes) -> bool:
    """Asked only of records that do not follow: one that does was written by who had read the record before it."""
    return envelope_of(value).leader_epoch < table.shard.leader_epoch


def _left_out(table: Table, offset: int) -> Taken:
    table.shard.stale_events += 1
    table.shard.next_offset = offset + 1
    return Taken.STALE
