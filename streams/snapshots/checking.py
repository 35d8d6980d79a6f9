"""The state at every checkpoint that a log records, folded anew from the first event: is each the one that was agreed on?

Two readings of the log: one for the checkpoints, which name events before them, and one that folds, event by event.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from events.codec import event_of_kinds
from events.errors import HeadwayError
from events.events import Checkpointed
from events.snapshot import FORMAT, state_digest
from streams.log import Log, Partition, records_between
from streams.recovery import Fold, without_collection
from streams.topics import EVENTS


@dataclass(frozen=True, slots=True)
class CheckpointHeld:
    """A recorded checkpoint, and what the fold has there.

    Args:
        seq: of the last event of the state.
        recorded: the digest that two followers agreed on.
        found: the one of this fold; None where the checkpoint is of another format, whose digests say nothing here.
    """

    seq: int
    recorded: bytes
    found: bytes | None

    @property
    def differs(self) -> bool:
        """Whether this fold has another state."""
        return self.found is not None and self.found != self.recorded


async def checkpoints_held(log: Log, shard: int, end: int) -> list[CheckpointHeld]:
    """Every checkpoint recorded below offset `end` of a shard's events, in the order of the states, each against a plain fold.

    Raises:
        DamagedLog: the events below `end` do not follow from one another.
        LogUnavailable, OffsetTrimmed: as everywhere.
    """
    at: Partition = (EVENTS, shard)
    recorded = await _recorded(log, at, end)
    wanted = sorted(recorded)
    held: list[CheckpointHeld] = []
    fold = Fold(shard, fused=False)
    with without_collection():
        async with aclosing(records_between(log, at, None, end)) as batches:
            async for records in batches:
                left = records
                while left and wanted:
                    # At most to the next state that is wanted; of replaced leaders there may be records in between.
                    some, left = left[: wanted[0] - fold.shard.seq], left[wanted[0] - fold.shard.seq :]
                    fold.apply(some)
                    if fold.shard.seq == wanted[0]:
                        seq = wanted.pop(0)
                        digest, written = recorded[seq]
                        held.append(
                            CheckpointHeld(seq, digest, state_digest(fold.shard) if written == FORMAT else None)
                        )
                if not wanted:
                    break
    return held


async def _recorded(log: Log, at: Partition, end: int) -> dict[int, tuple[bytes, int]]:
    """Digest and format of each checkpoint, by the seq of its state."""
    found: dict[int, tuple[bytes, int]] = {}
    async with aclosing(records_between(log, at, None, end)) as batches:
        async for records in batches:
            for record in records:
                try:
                    _, event = event_of_kinds(record.value, (Checkpointed,))
                except HeadwayError:
                    continue  # whoever folds says what is wrong with it
                if isinstance(event, Checkpointed):
                    found[event.through_seq] = event.state_digest, event.format
    return found
