"""State from the log: folds the records of one shard's events and checks that nothing is missing, changed or doubled.

Of each record the chain digest is checked against the record before it, and `evolve` checks `seq`. A record that does not
follow is one of two things: written by a leader that had already been replaced (its leader epoch is lower than that of the last
`LeaderElected`), which every reader ignores and counts; or damage, at which a reader stops with the position and never folds past.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from events.codec import GENESIS_CHAIN, check_chain, decode_event, envelope_of
from events.errors import ChainBroken, HeadwayError, SequenceBroken, UnknownEvent
from events.events import LeaderElected
from events.evolve import evolve
from events.replaying import fold_values
from events.state import Shard
from streams.errors import LogUnavailable
from streams.log import Follower, Partition, Record
from streams.log_lines import say
from streams.topics import EVENTS

BATCH_RECORDS: Final = 5_000
PROGRESS_US: Final = 5_000_000
MANY_OBJECTS: Final = 50_000
END_POLL_MS: Final = 5
"""How long a read towards an end waits for records. What stands before the end may be none, but what is left of an aborted transaction: the
position moves behind it without any, and a takeover must not wait for records that never come."""

PATIENCE_US: Final = 30_000_000  # how long a read that must bring something may bring nothing

_log = logging.getLogger("headway.recovery")


class DamagedLog(HeadwayError):
    """A record of the event log does not follow from the one before it, or cannot be read."""

    code = "HW-204"

    def __init__(self, partition: Partition, offset: int, seq: int, because: Exception) -> None:
        self.partition, self.offset, self.seq, self.because = partition, offset, seq, because
        code = because.code if isinstance(because, HeadwayError) else type(because).__name__
        said = str(because).removeprefix(f"{code}: ")
        super().__init__(f"{partition[0]}[{partition[1]}] offset {offset}, after event {seq}: {said} ({code})")


class OtherLog(HeadwayError):
    """The events were written on another cluster or for other topics than the ones found here."""

    code = "HW-205"

    def __init__(self, what: str, recorded: str, found: str) -> None:
        self.what, self.recorded, self.found = what, recorded, found
        super().__init__(
            f"the event log records {what} {recorded!r}, but here it is {found!r}: offsets in the events would point at other "
            "facts. Connect to the cluster the log was written on, or begin a new generation of it here: `headway import DIR` makes one of "
            "an export, and finishes one that was interrupted. Without an export, begin a new log: another cluster, or another "
            "HEADWAY_TOPIC_PREFIX"
        )


class Fold:
    """The state of one shard as a fold of its event records, from the first one on.

    `shard` is the state, `chain` the digest of the last record, `next_offset` where the next record is expected at the earliest.
    `shard.live` is False until indexes are built by who is to decide on it; what is folded from then on keeps them up.

    Args:
        number: of the shard.
        fused: fold what is frequent by the fused folds of `events.replaying` while it is not live, in two thirds of the time. Who
            checks what another fold made does without: it should share no more with it than it must.
    """

    def __init__(self, number: int, *, fused: bool = True) -> None:
        self.number = number
        self.partition: Partition = (EVENTS, number)
        self.shard = Shard()
        self.chain = GENESIS_CHAIN
        self.next_offset = 0
        self.events = 0
        self.stale = 0
        self._fused = fused

    def apply(self, records: Iterable[Record]) -> int:
        """Fold `records` in order; returns how many were folded (the rest was of a stale leader epoch).

        Raises:
            DamagedLog: one does not follow from those before it. The state is that after the last one that did.
        """
        taken = records if isinstance(records, list) else list(records)
        if not taken:
            return 0
        before = self.shard.seq

        def fold_plainly(number: int, chain: bytes) -> bytes:
            self.chain = chain
            if number:
                self.next_offset = taken[number - 1].offset + 1
            self._fold(taken[number])
            return self.chain

        if self._fused and not self.shard.live:
            self.chain = fold_values(self.shard, [record.value for record in taken], self.chain, fold_plainly)
        else:
            for number in range(len(taken)):
                fold_plainly(number, self.chain)
        self.next_offset = taken[-1].offset + 1
        folded = self.shard.seq - before  # each event takes the next one
        self.events += folded
        return folded

    def _fold(self, record: Record) -> None:
        """Fold a record, or count it as stale. Raises DamagedLog."""
        shard, value = self.shard, record.value
        try:
            chain = check_chain(value, self.chain)
            event = decode_event(value)
            if type(event) is LeaderElected and event.leader_epoch <= shard.leader_epoch:
                raise SequenceBroken(
                    f"leader epoch {event.leader_epoch} follows {shard.leader_epoch}, but epochs only rise"
                )
            evolve(shard, event)
        except (ChainBroken, SequenceBroken, UnknownEvent) as error:
            if not is_stale(value, shard.leader_epoch):
                raise DamagedLog(self.partition, record.offset, shard.seq, error) from error
            self.stale += 1
        except Exception as error:
            # Its chain holds, so a decider wrote it, and still the state has no place for it.
            raise DamagedLog(self.partition, record.offset, shard.seq, error) from error
        else:
            self.chain = chain


def is_stale(value: bytes, leader_epoch: int) -> bool:
    """Whether a record that does not follow is of a leader that had been replaced when it was written.

    Asked only of those: one that does follow was written by who had read the record before it, the LeaderElected
    of the present epoch included, so its epoch needs no look.
    """
    try:
        return 0 < envelope_of(value).leader_epoch < leader_epoch
    except HeadwayError:
        return False


def check_identity(shard: Shard, *, cluster_id: str, facts_topic_id: str, events_topic_id: str) -> None:
    """Compare the ids that the last LeaderElected recorded with those found; a log that never had a leader has none.

    Raises:
        OtherLog: one differs.
    """
    if not shard.leader_epoch:
        return
    for what, recorded, found in (
        ("cluster id", shard.cluster_id, cluster_id),
        ("facts topic id", shard.facts_topic_id, facts_topic_id),
        ("events topic id", shard.events_topic_id, events_topic_id),
    ):
        if recorded != found:
            raise OtherLog(what, recorded, found)


async def fold_to_end(fold: Fold, follower: Follower, *, monotonic_us: Callable[[], int]) -> int:
    """Fold up to what is the last stable offset now; returns how many events that were.

    Raises:
        DamagedLog: see `Fold.apply`.
        LogUnavailable: the log did not answer, or stopped bringing records before its end.
    """
    end = await follower.end_offset(fold.partition)
    return await _fold_while(fold, follower, lambda position: position < end, f"offset {end}", monotonic_us)


async def fold_to_seq(fold: Fold, follower: Follower, seq: int, *, monotonic_us: Callable[[], int]) -> int:
    """Fold until event `seq`, which is known to be in the log; what comes in one read behind it is folded too.

    The last stable offset would not do here: a transaction's end reaches the partitions a moment after its commit was answered.

    Raises:
        DamagedLog, LogUnavailable: as `fold_to_end`.
    """
    return await _fold_while(fold, follower, lambda position: fold.shard.seq < seq, f"event {seq}", monotonic_us)


async def _fold_while(
    fold: Fold, follower: Follower, going: Callable[[int], bool], goal: str, monotonic_us: Callable[[], int]
) -> int:
    partition = fold.partition
    began_us = said_us = heard_us = monotonic_us()
    folded = 0
    while going(await follower.position(partition)):
        records = (await follower.read(max_records=BATCH_RECORDS, timeout_ms=END_POLL_MS)).get(partition)
        now_us = monotonic_us()
        if records:
            folded += fold.apply(records)
            heard_us = now_us
        elif now_us - heard_us > PATIENCE_US:
            waited_ms = (now_us - heard_us) // 1000
            raise LogUnavailable(
                f"reading {partition[0]}[{partition[1]}] up to {goal}",
                address=f"event {fold.shard.seq}",
                waited_ms=waited_ms,
            )
        if now_us - said_us > PROGRESS_US:
            say(_log, logging.INFO, "folding", shard=fold.number, events=folded, seq=fold.shard.seq, goal=goal)
            said_us = now_us
    took_us = monotonic_us() - began_us
    if took_us > PROGRESS_US:
        say(_log, logging.INFO, "folded", shard=fold.number, events=folded, took_ms=took_us // 1000)
    return folded


@contextmanager
def without_collection() -> Iterator[None]:
    """Replay with the cycle collector off; when that made many objects, they are then moved out of its sight (`gc.freeze`).

    A million rows make every full collection take a second, and none of them is garbage: they are not looked at even once. Only where an
    earlier replay froze some is everything, so that a state which was dropped since is freed.
    """
    enabled = gc.isenabled()
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
    finally:
        if enabled:
            # What was made before does not count: a takeover folds little, and must not wait for a look at every row.
            if gc.get_count()[0] - before > MANY_OBJECTS:
                if gc.get_freeze_count():
                    gc.unfreeze()
                    gc.collect()
                gc.freeze()
            gc.enable()
