"""Who holds the inputs of an action: the decider's own fold of what endpoints say, asked in the middle of a fact.

The rows are those of the state table (projections/locality_fold.py), folded apart and from nothing but locality events. What is asked
sees every event before it, those of the same fact and of the same transaction included; what is kept holds committed events only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from typing import Final

from events.codec import GENESIS_CHAIN, chain_of, check_chain, decode_event, envelope_of
from events.errors import ChainBroken
from events.events import Event
from events.payloads import command_of
from events.state import Operation, Shard
from events.values import Digest, Holding
from projections import locality
from projections.locality_fold import LOCALITY_FOLDS
from projections.rows import Rows
from projections.table import Table
from streams.log import Record
from streams.uncommitted import UncommittedRows

MOST_UNWRITTEN_EVENTS: Final = 10_000
"""A position alone is written only so often: until then a restart reads these events once more, which change nothing."""

MOST_REMEMBERED: Final = 256
"""Actions with unlike inputs whose answers are remembered."""


class Diverged(Exception):
    """The rows are not those of this log: they have to be made again. `reason` is one word for the counter."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def prefers(shard: Shard) -> bool:
    """Whether some instance's configuration asks for holders."""
    return any(instance.config.locality.prefer_from_bytes is not None for instance in shard.instances.values())


_SETS: Final = re.compile(r'"prefer_from_bytes"\s*:\s*[0-9]')


def sets_preference(config_json: str) -> bool:
    """Whether a configuration that has yet to be validated may ask for holders: told by its text, so that nothing is parsed twice."""
    return _SETS.search(config_json) is not None


class FoldedHolders:
    """`Holders` over rows of its own: for one shard, folded from the events it sees.

    Changes are kept apart until `commit`, which writes rows and position in one step; `discard` goes back to the last commit. The row of
    the shard holds `seq` and chain of the last event, and as `next_offset` an offset at or before that event's: to go on from the log,
    records are read from there.

    Not guarded: what goes wrong with the rows is raised, and who decides with them must not let it stop a decision.
    """

    def __init__(self, rows: Rows, shard: int) -> None:
        self._rows = UncommittedRows(rows)
        self.table = Table(self._rows, shard)
        self._committed = copy(self.table.shard)
        self._written_seq = self.seq
        self.met = self.seq == 0
        """Whether the record of the last event was found in the log."""
        self._found: dict[tuple[str, tuple[Digest, ...]], tuple[Holding, ...]] = {}  # by instance and inputs
        self._last_asked: tuple[bytes, tuple[Digest, ...]] = (b"", ())

    @property
    def seq(self) -> int:
        """Of the last event it saw."""
        return self.table.shard.seq

    @property
    def chain(self) -> bytes:
        """Digest of the last event that is committed."""
        return self._committed.chain or GENESIS_CHAIN

    @property
    def read_from(self) -> int:
        """The offset in the events topic to go on from: that of the last event, or one before it."""
        return self._committed.next_offset

    def see(self, events: Sequence[Event]) -> None:
        """See `Holders.see`.

        Raises:
            Diverged: an event does not follow the last one.
            MissingRow, StoreDamaged: it does not fit the rows, or they cannot be read.
        """
        for event in events:
            self._fold(event)

    def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
        """See `Holders.most_bytes`. Raises StoreDamaged.

        Actions with the same inputs are answered from one reading, until an event changes who holds what.
        """
        inputs = self._inputs_of(operation)
        if not inputs:
            return ()
        found = self._found.get((operation.instance, inputs))
        if found is None:
            self._flush()
            found = locality.most_bytes(self._rows, self.table.number, operation.instance, inputs)
            if len(self._found) >= MOST_REMEMBERED:
                self._found.clear()
            self._found[operation.instance, inputs] = found
        return found

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        """See `Holders.bytes_at`. Raises StoreDamaged."""
        inputs = self._inputs_of(operation)
        if not inputs:
            return 0
        self._flush()
        return locality.bytes_at(self._rows, self.table.number, operation.instance, endpoint, inputs)

    def commit(self, chain: bytes, events: int) -> None:
        """What it saw, so many events since the last commit, is in the log now, and `chain` is the digest of the last one.

        Raises StoreDamaged.
        """
        shard = self.table.shard
        shard.chain = chain
        # Each of them takes an offset, and so does whatever stands between: the last one's is this or a higher one.
        shard.next_offset += events
        self._settle()

    def take(self, record: Record) -> bool:
        """Fold a committed record of the log where it is the next one; whether it was. `write` keeps it.

        Raises:
            Diverged: the log goes on in another way than these rows.
            UnknownEvent, MissingRow, StoreDamaged: it cannot be read or folded.
        """
        value, shard = record.value, self.table.shard
        envelope = envelope_of(value)
        if envelope.leader_epoch < shard.leader_epoch:
            return False  # of a leader that had been replaced, or long before
        if envelope.seq == shard.seq + 1:
            try:
                chain = check_chain(value, shard.chain or GENESIS_CHAIN)
            except ChainBroken as error:
                raise Diverged("other_chain", f"event {envelope.seq} does not follow: {error}") from error
            self._fold(decode_event(value))
            shard.chain, shard.next_offset = chain, record.offset
            self.met = True
            return True
        if envelope.seq > shard.seq:
            raise Diverged("gap", f"event {envelope.seq} at offset {record.offset} follows event {shard.seq}")
        if envelope.seq == shard.seq and envelope.leader_epoch == shard.leader_epoch:
            if chain_of(value) != shard.chain:
                raise Diverged(
                    "other_chain", f"event {shard.seq} of the log is not the one these rows were folded from"
                )
            self.met = True
        return False

    def write(self) -> None:
        """Keep what was taken. Raises StoreDamaged."""
        self._settle()

    def discard(self) -> None:
        """Go back to the last commit. Raises StoreDamaged."""
        self._found.clear()
        self._rows.discard()
        self.table.discard()
        self.table.shard = copy(self._committed)

    def _fold(self, event: Event) -> None:
        shard = self.table.shard
        if event.seq != shard.seq + 1:
            raise Diverged("gap", f"event {event.seq} was seen after event {shard.seq}")
        fold = LOCALITY_FOLDS.get(type(event))
        if fold is not None:
            self._found.clear()
            fold(self.table, event)
        shard.seq = event.seq
        shard.now_us = event.at_us

    def _inputs_of(self, operation: Operation) -> tuple[Digest, ...]:
        command, inputs = self._last_asked
        if command != operation.command:
            inputs = locality.largest(command_of(operation.command).inputs)
            self._last_asked = operation.command, inputs
        return inputs

    def _flush(self) -> None:
        """To the uncommitted rows, which answers are read from."""
        if self.table.changed:
            self.table.flush()

    def _settle(self) -> None:
        table = self.table
        if table.changed or len(self._rows) or self.seq - self._written_seq >= MOST_UNWRITTEN_EVENTS:
            table.flush()
            self._rows.commit()
            self._written_seq = self.seq
        self._committed = copy(table.shard)
