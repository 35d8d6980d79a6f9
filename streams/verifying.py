"""Verifies a shard: the audit of projections/verify over its log, and each fact decided again by this build (projections/redeciding.py)."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from events.codec import decode_event, decode_fact, encode_fact, key_text
from events.codec.facts import is_json
from events.facts import Unreadable
from projections.redeciding import CannotFollow, Divergence, Judged, Redeciding
from projections.verify.auditor import WHOLE, Audit, Auditor, FactRecord, Range, Refusal
from projections.verify.case import Finding
from projections.verify.catalogue import ORDER
from projections.verify.passing import OF_EACH_DISPATCH
from projections.verify.turning import cut
from streams.export import ExportLog, NotExported
from streams.log import Log, Record, bounds, records_between
from streams.recovery import without_collection
from streams.topics import EVENTS, FACTS

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
    at = (EVENTS, shard)
    _, end = await bounds(log, at)  # before that of the facts: each event below it has its fact in the log by then
    given = await _facts_of(log, shard) if facts else None
    found.facts_kept = given is not None
    again = None
    if redecide and given is not None:
        again = Redeciding(facts_from=given.begin, judge_from=judged.from_seq or 0)
        found.redecided = Redecided(again.judged)
    try:
        async with aclosing(records_between(log, at, None, end)) as events:
            with without_collection():
                await _read(events, given, auditor, again, found, progress)
    finally:
        if given is not None:
            await given.batches.aclose()
    found.waiting_facts = auditor.waiting_facts
    if isinstance(log, ExportLog):
        found.damaged_files = [error.message for error in log.damage if error.partition[1] == shard]
    return found


@dataclass(slots=True)
class _Facts:
    """The facts that are still there, from offset `begin` on; read as far as they are asked for."""

    begin: int
    batches: AsyncGenerator[list[Record], None]
    ended: bool = False

    async def next(self) -> list[Record]:
        """The next records; none at the end. Raises LogUnavailable."""
        records: list[Record] = await anext(self.batches, [])
        self.ended = not records
        return records


async def _facts_of(log: Log, shard: int) -> _Facts | None:
    """None: there are none, or none were exported."""
    at = (FACTS, shard)
    try:
        begin, end = await bounds(log, at)
    except NotExported:
        return None
    return _Facts(begin, records_between(log, at, None, end)) if begin < end else None


async def _read(
    events: AsyncGenerator[list[Record], None],
    given: _Facts | None,
    auditor: Auditor,
    again: Redeciding | None,
    found: Verified,
    progress: Progress,
) -> None:
    async for records in events:
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
        if auditor.done:
            break
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
    json = bool(record.headers) and is_json(record.headers)
    return FactRecord(record.offset, record.at_us, key_text(record.key), record.value, json)
