"""Takes records of the event log into a table, each exactly once and in order, or says why not.

The one gate in front of `fold`: offset, leader epoch, `seq` and chain are checked here, for every reader (agent, direct reader,
replay) alike. A record that does not follow from the one before it never reaches the rows.
"""

from collections.abc import Callable
from enum import Enum, auto

from events.codec import GENESIS_CHAIN, check_chain, decode_event, envelope_of
from events.errors import ChainBroken, SequenceBroken
from events.events import Event, LeaderElected
from projections.fold import fold
from projections.table import Table


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


def _is_stale(table: Table, value: bytes) -> bool:
    """Asked only of records that do not follow: one that does was written by who had read the record before it."""
    return envelope_of(value).leader_epoch < table.shard.leader_epoch


def _left_out(table: Table, offset: int) -> Taken:
    table.shard.stale_events += 1
    table.shard.next_offset = offset + 1
    return Taken.STALE
