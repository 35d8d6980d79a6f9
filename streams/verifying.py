"""Verifies a shard: the audit of projections/verify over its log, and each fact decided again by this build (projections/redeciding.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from events.codec import decode_event, decode_fact, encode_fact
from events.codec.facts import is_json
from events.facts import Unreadable
from projections.redeciding import CannotFollow, Divergence, Judged, Redeciding
from projections.verify.auditor import WHOLE, Audit, Auditor, FactRecord, Range, Refusal
from projections.verify.case import Finding
from projections.verify.catalogue import ORDER
from projections.verify.passing import OF_EACH_DISPATCH
from projections.verify.turning import cut
from streams.errors import LogUnavailable
from streams.export import ExportLog, NotExported
from streams.log import Follower, Log, Partition, Record
from streams.recovery import without_collection
from streams.topics import EVENTS, FACTS

BATCH_RECORDS: Final = 5_000
PATIENCE_S: Final = 30.0
KEPT: Final = 1_000
"""Divergences that are kept; more are counted."""

Progress = Callable[[int], None]
"""Called with the number of events judged since the last call."""


@dataclass(slots=True)
class Redecided:
    """What deciding again gave: counts, the first divergences, and where the record could not be followed any more."""

    judged: Judged
    divergences: list[Divergence] = field(default_factory=list)
    broken: str = ""


@dataclass(slots=True)
class Verified:
    """What verifying one shard gave.

    `seconds` are those of the audit alone, without reading the log and without deciding again. `facts_kept` is whether the log has facts
    of the shard at all, `damaged_files` what an exported directory has that is not what its manifest says.
    """

    shard: int
    audit: Audit
    seconds: float = 0.0
    facts_kept: bool = True
    redecided: Redecided | None = None
    damaged_files: list[str] = field(default_factory=list)
    waiting_facts: int = 0

    @property
    def events_per_s(self) -> int:
        """How fast the audit went."""
        return round(self.audit.events / self.seconds) if self.seconds else 0

    @property
    def findings(self) -> list[Finding]:
        """What does not follow, in the order in which it was found."""
        return self.audit.findings

    @property
    def sound(self) -> bool:
        """Whether everything follows, and this build decides the same."""
        redecided = self.redecided
        diverges = redecided is not None and (redecided.judged.divergences > 0 or bool(redecided.broken))
        return not self.audit.findings and not diverges and not self.damaged_files

    def judged(self) -> list[int]:
        """How many decisions each rule of the catalogue judged."""
        counts = list(self.audit.judged)
        for rule in OF_EACH_DISPATCH:
            counts[rule] += counts[ORDER]
        return counts


def read_fact(record: FactRecord) -> bytes | Refusal:
    """A fact by the rules of a single fact: as protobuf, or why it is refused (the edge of the audit)."""
    headers = (("content-type", b"application/json"),) if record.json else ()
    fact = decode_fact(record.value, headers)
    return refusal_of(fact) if isinstance(fact, Unreadable) else encode_fact(fact)


def refusal_of(fact: Unreadable) -> Refusal:
    """What the audit is told of a record that is no valid fact."""
    return Refusal(fact.fact_kind, int(fact.reason), fact.field, cut(fact.value), fact.instance, fact.key)


async def verify(
    log: Log,
    shard: int,
    *,
    facts: bool = True,
    redecide: bool = True,
    judged: Range = WHOLE,
    progress: Progress = lambda count: None,
) -> Verified:
    """Verify the log of a shard up to its last stable offset of now.

    What is wrong does not raise: it is what verifying is there to find.

    Raises:
        LogUnavailable: the log does not answer, or stopped bringing records before its end.
        NoSuchTopic, NoSuchPartition, NotExported: there is no such shard.
    """
    auditor = Auditor(read_fact, facts=facts, judged=judged)
    found = Verified(shard, auditor.audit)
    events = _Reading(log, (EVENTS, shard), await log.follow({(EVENTS, shard): None}))
    try:
        given = await _facts_of(log, shard) if facts else None
        found.facts_kept = given is not None
        try:
            again = None
            if redecide and given is not None:
                again = Redeciding(facts_from=await given.begin(), judge_from=judged.from_seq or 0)
                found.redecided = Redecided(again.judged)
            with without_collection():
                await _read(events, given, auditor, again, found, progress)
        finally:
            if given is not None:
                await given.close()
    finally:
        await events.close()
    found.waiting_facts = auditor.waiting_facts
    if isinstance(log, ExportLog):
        found.damaged_files = [error.message for error in log.damage if error.partition[1] == shard]
    return found


async def _facts_of(log: Log, shard: int) -> _Reading | None:
    """The facts that are still there; None: there are none, or none were exported."""
    partition = (FACTS, shard)
    try:
        reading = _Reading(log, partition, await log.follow({partition: None}))
    except NotExported:
        return None
    if await reading.begin() < await reading.end():
        return reading
    await reading.close()
    return None


async def _read(
    events: _Reading,
    given: _Reading | None,
    auditor: Auditor,
    again: Redeciding | None,
    found: Verified,
    progress: Progress,
) -> None:
    while not auditor.done and (records := await events.next()):
        # A fact yields at least one event, so as many facts as events reach far enough.
        while given is not None and auditor.waiting_facts < len(records):
            facts = await given.next()
            if not facts:
                break
            auditor.take_facts([_as_fact(record) for record in facts])
            if again is not None:
                again.add_facts(facts, through=facts[-1].offset + 1)
        if again is not None and given is not None and given.ended:
            again.add_facts((), through=1 << 62)
        before = auditor.audit.events
        begun_s = time.perf_counter()
        taken = [record for record in records if auditor.take(record.offset, record.value)]
        found.seconds += time.perf_counter() - begun_s
        if again is not None and found.redecided is not None:
            _decide_again(again, taken, found.redecided)
        progress(auditor.audit.events - before)
    begun_s = time.perf_counter()
    auditor.close()
    found.seconds += time.perf_counter() - begun_s
    # What damage cut short is not decided again either: its events are not all there.
    if again is not None and found.redecided is not None and again.broken is None and auditor.audit.damage is None:
        _keep(found.redecided, again.finish())
        found.redecided.broken = str(again.broken or "")


def _decide_again(again: Redeciding, records: list[Record], redecided: Redecided) -> None:
    if again.broken is not None:
        return
    try:
        for record in records:
            _keep(redecided, again.add_event(record.offset, decode_event(record.value)))
    except CannotFollow as error:
        redecided.broken = str(error)


def _keep(redecided: Redecided, divergences: list[Divergence]) -> None:
    redecided.divergences += divergences[: max(0, KEPT - len(redecided.divergences))]


def _as_fact(record: Record) -> FactRecord:
    key = "" if record.key is None else record.key.decode(errors="replace")
    return FactRecord(record.offset, record.at_us, key, record.value, bool(record.headers) and is_json(record.headers))


class _Reading:
    """One partition from its beginning to the last stable offset it had when this began."""

    def __init__(self, log: Log, partition: Partition, follower: Follower) -> None:
        self._partition = partition
        self._follower = follower
        self._end: int | None = None
        self.ended = False

    async def begin(self) -> int:
        """The first offset there is."""
        return await self._follower.beginning_offset(self._partition)

    async def end(self) -> int:
        """The last stable offset, as it was when this was first asked."""
        if self._end is None:
            self._end = await self._follower.end_offset(self._partition)
        return self._end

    async def next(self) -> list[Record]:
        """The next records; none at the end. Raises LogUnavailable."""
        end = await self.end()
        heard_s = time.monotonic()
        while await self._follower.position(self._partition) < end:
            records = (await self._follower.read(max_records=BATCH_RECORDS, timeout_ms=200)).get(self._partition)
            if records:
                return [record for record in records if record.offset < end]
            if time.monotonic() - heard_s > PATIENCE_S:
                raise LogUnavailable(
                    f"verifying {self._partition[0]}[{self._partition[1]}] up to offset {end}",
                    address=f"offset {await self._follower.position(self._partition)}",
                    waited_ms=round(PATIENCE_S * 1000),
                )
        self.ended = True
        return []

    async def close(self) -> None:
        """Stop reading."""
        await self._follower.close()
