"""What an auditor waits for on a long history: the index of the past, explanations from it, verifying; from files, with no broker.

A farm of 64 workers of 16 cores, full most of the time, is simulated through the core until its log has about as many events as asked
for, and written as an exported directory. Then the index is built from it, one explanation is given by a process that is started for it,
many are given by this one, of subjects drawn evenly over the history and of the operations that were held for, the whole is verified with
its facts and without them, and its beginning is decided again without a hold. All is processor time, reading included: on a shared
machine anything else measures the neighbours.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from events import events as e
from projections import answers
from projections.explain import explain_operation
from projections.story.hold import hold_made_at, story_of_hold
from projections.story.operation import story_of_operation
from projections.story.worker import story_of_worker
from projections.whatif.comparing import compare
from projections.whatif.reading import Window
from projections.whatif.setting import parse_setting
from streams.bench._rows import BenchFailed, Row, at_least, at_most, percentile, reference
from streams.export import ExportLog
from streams.recovery import without_collection
from streams.settings import load_settings
from streams.simulate.made import farm
from streams.simulate.policies import Policy, configuration
from streams.simulate.recording import Recording
from streams.simulate.world import INSTANCE, World
from streams.timeline import Timeline
from streams.timeline.place import timeline_place
from streams.verifying import verify
from streams.what_if.reading import read_record

WORKERS: Final = 64
LOAD: Final = 0.985
"""Of all cores: high enough that hundreds wait at times, and never a thousand."""

EVENTS_PER_S: Final = 200
"""What such a farm writes a second of its time: its span follows from the events that are wanted."""

TICK_US: Final = 500_000
EXPLAIN_MS: Final = 1_000.0
VERIFY_PER_S: Final = 50_000
SAMPLE: Final = 30
WORKERS_EXPLAINED: Final = 10
WHAT_IF_EVENTS: Final = 100_000
DEADLINE_S: Final = 60.0

Progress = Callable[[str], Any]


def run(events: int = 1_000_000, progress: Progress = lambda case: None) -> list[Row]:
    """Make a history of about so many events and measure what an auditor does with it. 250 bytes of disk an event meanwhile.

    Raises:
        BenchFailed: the history is not sound, or a process that explains failed; its own words are in it.
    """
    with tempfile.TemporaryDirectory(prefix="headway-bench-audit-") as directory:
        return asyncio.run(_measured(Path(directory), events, progress))


async def _measured(directory: Path, events: int, progress: Progress) -> list[Row]:
    exported, home = directory / "export", directory / "home"
    progress(f"making about {events:,} events")
    begun_s = time.perf_counter()
    _make(exported, events)
    made_s = time.perf_counter() - begun_s
    log = ExportLog(exported)
    try:
        progress("building the index")
        timeline, rows = await _indexed(log, home)
        progress("explaining")
        try:
            rng = random.Random("audit")
            operations = _operations(timeline, rng)
            explained = _explained(timeline, operations, rng)
        finally:
            timeline.close()
        rows += [*_cold(exported, home, operations[len(operations) // 2]), *explained]
        for name, facts in (("with its facts", True), ("without facts", False)):
            progress(f"verifying {name}")
            rows.append(await _verified(log, name, facts=facts))
        progress("deciding again without a hold")
        rows.append(await _decided_again(log))
    finally:
        await log.close()
    return [*rows, reference("the history was made in", made_s, "s")]


def _make(directory: Path, events: int) -> None:
    workload = farm(1, workers=WORKERS, span_s=max(60, events // EVENTS_PER_S), load=LOAD)
    recording = Recording(directory, INSTANCE)
    World(workload, configuration(Policy.HOLD), recording=recording, tick_us=TICK_US).run()
    recording.finish()


async def _opened(log: ExportLog, home: Path) -> Timeline:
    place = await timeline_place(load_settings(home=home), log, 0)
    return await Timeline.open(log, 0, place.directory, log_state=place.log_state)


async def _indexed(log: ExportLog, home: Path) -> tuple[Timeline, list[Row]]:
    """The index, built and opened once more, and what that took."""
    begun_s = time.thread_time()
    timeline = await _opened(log, home)
    took_s = time.thread_time() - begun_s
    if timeline.damage is not None:
        raise BenchFailed(f"the history that was made is not sound: {timeline.damage}")
    timeline.close()
    size = _size_bytes(home)
    begun_s = time.thread_time()
    timeline = await _opened(log, home)
    opened_s = time.thread_time() - begun_s
    events = timeline.last_seq
    return timeline, [
        reference("events", events, "events"),
        reference("the most that was queued, of 100 moments", _most_queued(timeline), "operations"),
        reference("index built from the log", events / took_s, "events/s"),
        reference("index on the disk", size / events, "bytes/event"),
        reference("index opened and found to be up to date", opened_s * 1e3, "ms"),
    ]


def _size_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _most_queued(timeline: Timeline) -> int:
    seqs = range(1, timeline.last_seq, max(1, timeline.last_seq // 100))
    return max(int(answers.state(timeline.table_at(seq))["queued"]) for seq in seqs)


def _cold(exported: Path, home: Path, operation_id: int) -> list[Row]:
    """One operation explained by the command, in a process that is started for it: its processor time, and the wall clock's."""
    command = [sys.executable, "-m", "streams.cli.main", "explain", "operation", str(operation_id)]
    command += ["--file", str(exported), "-o", "json"]
    environment = {**os.environ, "HEADWAY_HOME": str(home)}
    begun_s, used_s = time.perf_counter(), _children_s()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    took_s, used_s = time.perf_counter() - begun_s, _children_s() - used_s
    if done.returncode or str(operation_id) not in done.stdout:
        raise BenchFailed(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
    what = "explain operation, a process started for it"
    return [
        at_most(f"{what}, its processor time", used_s * 1e3, "ms", EXPLAIN_MS),
        reference(f"{what}, by the clock", took_s * 1e3, "ms"),
    ]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _operations(timeline: Timeline, rng: random.Random) -> list[int]:
    """Operations drawn evenly over the history, and those that a worker was held for."""
    drawn: list[int] = []
    for _ in range(SAMPLE):
        seq = rng.randrange(1, timeline.last_seq)
        told = timeline.events_between(seq, seq + 50)
        drawn += [each.event.operation_id for each in told if isinstance(each.event, e.OperationQueued)][:1]
    held = [told.event.operation_id for told in timeline.holds(INSTANCE) if isinstance(told.event, e.HoldMade)]
    return [*drawn, *rng.sample(held, min(SAMPLE, len(held)))]


def _explained(timeline: Timeline, operations: Sequence[int], rng: random.Random) -> list[Row]:
    last = timeline.last_seq
    made = [told.event.seq for told in timeline.holds(INSTANCE) if isinstance(told.event, e.HoldMade)]

    def operation(identity: int) -> object:
        row = answers.find(timeline.table_at(last), identity)
        return row and explain_operation(timeline.table_at(last), row), story_of_operation(timeline, identity)

    def hold(seq: int) -> object:
        life = hold_made_at(timeline, seq, last)
        return life and story_of_hold(timeline, life, last)

    def worker(number: int) -> object:
        return story_of_worker(timeline, INSTANCE, f"worker-{number}")

    return [
        *_timed("operation", operations, operation),
        *_timed("hold", rng.sample(made, min(SAMPLE, len(made))), hold),
        *_timed("worker", rng.sample(range(WORKERS), WORKERS_EXPLAINED), worker),
    ]


def _timed(what: str, subjects: Sequence[int], explain: Callable[[int], object]) -> list[Row]:
    taken_ns = []
    for subject in subjects:
        begun_ns = time.thread_time_ns()
        if not explain(subject):
            raise BenchFailed(f"there is nothing to be told of {what} {subject}")
        taken_ns.append(time.thread_time_ns() - begun_ns)
    if not taken_ns:
        return [reference(f"explain {what}: the history has none", 0, "ms")]
    taken_ns.sort()
    return [
        at_most(f"explain {what}, p50 of {len(taken_ns)}", percentile(taken_ns, 0.5) / 1e6, "ms", EXPLAIN_MS),
        at_most(f"explain {what}, max", taken_ns[-1] / 1e6, "ms", EXPLAIN_MS),
    ]


async def _verified(log: ExportLog, name: str, *, facts: bool) -> Row:
    begun_s = time.thread_time()
    found = await verify(log, 0, facts=facts, redecide=False)
    took_s = time.thread_time() - begun_s
    if not found.sound:
        raise BenchFailed(f"the history that was made is not sound: {found.findings[:1]}")
    return at_least(f"verify {name}", found.audit.events / took_s, "events/s", VERIFY_PER_S)


async def _decided_again(log: ExportLog) -> Row:
    """What-if over the first stretch: the record's policy twice, as a check of the model, and once without a hold."""
    recording = await read_record(log, 0, INSTANCE, Window(to_seq=WHAT_IF_EVENTS))
    begun_s = time.thread_time()
    with without_collection():
        compared = compare(recording.record, recording.meter, [(parse_setting("hold=off"),)])
    took_s = time.thread_time() - begun_s
    facts = len(recording.record.givens) * (2 + len(compared.changed))
    return reference(f"what-if over {recording.record.events:,} events, three histories", facts / took_s, "facts/s")
