"""The story of a worker: its connections, drains, pauses and holds, how long it was in each state, what it ran, and why it got nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from events import events as e
from events.reasons import WorkerStanding, sentence
from projections.explaining.standings import Standings
from projections.fleet import Ledger, instance_rows
from projections.row_access import find_worker, named_values, queued_rows
from projections.story.causes import cause_of_hold
from projections.story.history import History, RunTold, Told
from projections.story.links import link, reason_of, who

AWAY, DRAINING, PAUSED, HELD, WORKING, IDLE = "away", "draining", "paused", "held", "working", "idle"
STATES = (AWAY, DRAINING, PAUSED, HELD, WORKING, IDLE)
"""Of these the first that holds: a worker that drains and is held drains."""

IDLE_TOLD: Final = 3
"""Idle times that are told, the longest; the rest is part of the sum."""

WAITING_LOOKED_AT: Final = 200
"""Operations that waited meanwhile which are looked at, in queue order."""


@dataclass(slots=True)
class Span:
    """Some time in one state."""

    state: str
    from_us: int
    until_us: int


@dataclass(slots=True)
class _State:
    connected: bool = False
    draining: bool = False
    paused: bool = False
    held: set[int] = field(default_factory=set)  # operations

    def named(self, running: int) -> str:
        if not self.connected:
            return AWAY
        if self.draining:
            return DRAINING
        if self.paused:
            return PAUSED
        if self.held:
            return HELD
        return WORKING if running else IDLE


def story_of_worker(
    history: History, instance: str, endpoint: str, seq: int | None = None, from_seq: int | None = None
) -> dict[str, Any] | None:
    """The story of a worker from event `from_seq` (None: from its first) up to event `seq` (None: to the end of the history).

    None when it never connected until then. `states` sum to `span_us`; with each, how much of each pool its runs took of what it had
    (`used`, in hundredths of a percent). `ran` counts what it was given in between, by how it ended; `idle` are its longest idle times
    in which it took work, each with what waited then and why none of it came here.
    """
    last_seq = history.last_seq if seq is None else min(seq, history.last_seq)
    told = [each for each in history.events_of_worker(instance, endpoint) if each.event.seq <= last_seq]
    if not any(isinstance(each.event, e.WorkerAdmitted) for each in told):
        return None
    now_us = history.table_at(last_seq).shard.now_us
    if from_seq is None:
        begin_seq, from_us = told[0].event.seq, told[0].event.at_us
    else:
        begin_seq, from_us = from_seq, history.table_at(max(1, from_seq)).shard.now_us
    runs = [
        run
        if run.until_seq is None or run.until_seq <= last_seq
        else replace(run, until_us=None, until_seq=None, ended="")
        for run in history.runs_of_worker(instance, endpoint, from_us, now_us)
        if run.dispatch_id <= last_seq
    ]
    spans = list(_spans(told, runs, from_us, now_us, begin_seq, endpoint))
    table = history.table_at(last_seq)
    row = next(instance_rows(table, instance), None)
    ledger = Ledger(table, row) if row is not None else None
    charges = {run.requirement_id: ledger.charged(run.requirement_id) for run in runs} if ledger is not None else {}
    totals = _totals(history, instance, endpoint, last_seq, told)
    admitted = [each.event for each in told if isinstance(each.event, e.WorkerAdmitted)]
    return {
        "subject": "worker",
        "instance": instance,
        "endpoint": endpoint,
        "connected": spans[-1].state != AWAY if spans else False,
        "state": spans[-1].state if spans else AWAY,
        "boot_epoch": admitted[-1].boot_epoch,
        "boot_epochs": len({event.boot_epoch for event in admitted}),
        "connections": len(admitted),
        "properties": named_values(admitted[-1].properties),
        "from_us": from_us,
        "until_us": now_us,
        "span_us": now_us - from_us,
        "states": _states(spans, runs, charges, totals),
        "chapters": [
            chapter
            for each in told
            if each.event.seq >= begin_seq
            for chapter in _chapters(history, each, endpoint, from_us)
        ],
        "ran": _ran(runs, from_us),
        "idle": [
            _idle(history, instance, endpoint, span, from_us)
            for span in sorted(
                (span for span in spans if span.state == IDLE),
                key=lambda span: (span.from_us - span.until_us, span.from_us),
            )[:IDLE_TOLD]
            if span.until_us > span.from_us
        ],
        "idle_times": sum(span.state == IDLE and span.until_us > span.from_us for span in spans),
        "as_of": {"seq": last_seq, "at_us": now_us, "shard": history.shard},
    }


def _spans(
    told: Sequence[Told], runs: Sequence[RunTold], from_us: int, until_us: int, begin_seq: int, endpoint: str
) -> Iterator[Span]:
    """The states in turn, without gap or overlap."""
    changes: list[tuple[int, int, e.Event | int]] = [(each.event.at_us, each.event.seq, each.event) for each in told]
    for run in runs:
        changes.append((run.since_us, run.dispatch_id, 1))
        if run.until_us is not None and run.until_seq is not None:
            changes.append((run.until_us, run.until_seq, -1))
    changes.sort(key=lambda change: change[1])
    state, running = _State(), 0
    at_us, name = from_us, AWAY
    for when_us, _, change in changes:
        if isinstance(change, int):
            running += change
        else:
            _change(state, change, endpoint)
        now = state.named(running)
        when_us = min(max(when_us, from_us), until_us)
        if now != name:
            if when_us > at_us:
                yield Span(name, at_us, when_us)
                at_us = when_us
            name = now
    yield Span(name, at_us, until_us)


def _change(state: _State, event: e.Event, endpoint: str) -> None:
    match event:
        case e.WorkerAdmitted():
            state.connected, state.paused, state.draining = True, False, state.draining and event.reconnected
        case e.WorkerDisconnected():
            state.connected = state.paused = state.draining = False
        case e.WorkerDrained():
            state.draining = True
        case e.WorkerUndrained():
            state.draining = False
        case e.OperationRequeued() | e.OperationFinished():
            state.paused = True
        case e.WorkerReported():
            state.paused = False
        case e.HoldMade():
            state.held.add(event.operation_id)
        case e.HoldMoved():
            if event.to_endpoint == endpoint:
                state.held.add(event.operation_id)
            else:
                state.held.discard(event.operation_id)
        case e.HoldReleased():
            state.held.discard(event.operation_id)


def _totals(history: History, instance: str, endpoint: str, last_seq: int, told: Sequence[Told]) -> dict[str, int]:
    """What it registered last, by pool."""
    admitted_seq = max(each.event.seq for each in told if isinstance(each.event, e.WorkerAdmitted))
    table = history.table_at(admitted_seq)
    row = next(instance_rows(table, instance), None)
    worker = find_worker(table, instance, endpoint)
    return {} if row is None or worker is None else Ledger(table, row).totals(worker)


def _states(
    spans: Sequence[Span], runs: Sequence[RunTold], charges: Mapping[int, Mapping[str, int]], totals: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Time in each state, and how much of each pool was taken meanwhile."""
    taken: dict[str, Counter[str]] = {state: Counter() for state in STATES}
    at = 0
    ordered = sorted(runs, key=lambda run: run.since_us)
    for run in ordered:
        amounts = charges.get(run.requirement_id, {})
        while at < len(spans) - 1 and spans[at].until_us <= run.since_us:
            at += 1
        for span in islice(spans, at, None):
            if run.until_us is not None and span.from_us >= run.until_us:
                break
            until_us = span.until_us if run.until_us is None else min(span.until_us, run.until_us)
            shared_us = until_us - max(span.from_us, run.since_us)
            if shared_us > 0:
                for name, amount in amounts.items():
                    taken[span.state][name] += amount * shared_us
    found = []
    for state in STATES:
        for_us = sum(span.until_us - span.from_us for span in spans if span.state == state)
        if not for_us:
            continue
        found.append(
            {
                "state": state,
                "for_us": for_us,
                "used": [
                    {"name": name, "percent_hundredths": taken[state][name] * 10_000 // (total * for_us)}
                    for name, total in totals.items()
                    if total and state != AWAY
                ],
            }
        )
    return found


def _ran(runs: Sequence[RunTold], from_us: int) -> dict[str, Any]:
    begun = [run for run in runs if run.since_us >= from_us]
    ended = Counter(run.ended for run in runs if run.ended)
    ran_us = [run.until_us - run.since_us for run in begun if run.until_us is not None]
    return {
        "given": len(begun),
        "ended": [
            {"how": how, "runs": count} for how, count in sorted(ended.items(), key=lambda item: (-item[1], item[0]))
        ],
        "still_running": sum(run.until_us is None for run in runs),
        "longest_us": max(ran_us, default=None),
        "mean_us": sum(ran_us) // len(ran_us) if ran_us else None,
    }


def _chapters(history: History, each: Told, endpoint: str, from_us: int) -> Iterator[dict[str, Any]]:
    event = each.event
    figures: dict[str, Any]
    match event:
        case e.WorkerAdmitted():
            figures = {
                "boot_epoch": event.boot_epoch,
                "reconnected": event.reconnected,
                "kept": len(event.kept),
                "properties": named_values(event.properties),
                "max_inflight": event.max_inflight or None,
            }
        case e.WorkerDisconnected():
            figures = {"reason": reason_of(event.reason), "silent_us": event.silent_us or None}
        case e.WorkerDrained() | e.WorkerUndrained():
            figures = {}
        case e.WorkerIdleCapped():
            figures = {"idle_free_kib": event.idle_free_kib}
        case e.WorkerReported():
            figures = {"free_memory_kib": event.free_memory_kib}
        case e.OperationRequeued():
            figures = {
                "operation": _who(history, event.seq, event.operation_id),
                "cause": reason_of(event.cause),
                "declined": reason_of(event.decline_reason) if event.decline_reason else None,
                "needed_kib": event.needed_kib or None,
            }
        case e.OperationFinished():
            figures = {
                "operation": _who(history, event.seq, event.operation_id),
                "cause": reason_of(event.outcome),
                "declined": None,
                "needed_kib": None,
            }
        case e.HoldMade():
            figures = {"hold": f"hold-{event.seq}", "operation": _who(history, event.seq, event.operation_id)}
        case e.HoldMoved():
            figures = {
                "operation": _who(history, event.seq, event.operation_id),
                "from_endpoint": event.from_endpoint,
                "endpoint": event.to_endpoint,
                "cause": reason_of(event.cause),
            }
        case e.HoldReleased():
            figures = {
                "operation": _who(history, event.seq, event.operation_id),
                "reason": reason_of(event.reason),
                "held_us": event.held_us,
                "because": cause_of_hold(history, each),
            }
        case e.KillRequested():
            operation = _who(history, event.seq, event.operation_id) if event.operation_id else None
            figures = {"operation": operation, "dispatch_id": event.dispatch_id, "cause": reason_of(event.cause)}
        case _:
            return
    yield {**link(each), "after_us": event.at_us - from_us, **figures}


def _who(history: History, seq: int, operation_id: int) -> dict[str, Any]:
    return who(history, history.table_at(seq), operation_id)


def _idle(history: History, instance: str, endpoint: str, span: Span, from_us: int) -> dict[str, Any]:
    """An idle time, and in its middle: what waited, and what kept each of that from this worker."""
    seq = history.seq_at(span.from_us + (span.until_us - span.from_us) // 2)
    table = history.table_at(seq)
    row = next(instance_rows(table, instance), None)
    worker = find_worker(table, instance, endpoint)
    counts: Counter[WorkerStanding] = Counter()
    if row is not None and worker is not None:
        judged: dict[int, WorkerStanding] = {}
        for operation in islice(queued_rows(table, instance), WAITING_LOOKED_AT):
            standing = judged.get(operation.requirement_id)
            if standing is None:
                standing = judged[operation.requirement_id] = Standings(table, row, operation).assess(worker).standing
            counts[standing] += 1
    return {
        "from_us": span.from_us,
        "after_us": span.from_us - from_us,
        "for_us": span.until_us - span.from_us,
        "as_of_seq": seq,
        "waiting": row.queued if row is not None else 0,
        "looked_at": counts.total(),
        "paused": row.paused if row is not None else False,
        "standings": [
            {"standing": standing.name.lower(), "operations": count, "sentence": sentence(standing)}
            for standing, count in sorted(counts.items())
        ],
    }
