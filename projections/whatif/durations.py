"""How long a run takes and how it ends, where nobody saw this very run."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from events import facts as f
from events.reasons import RunResult
from projections.whatif.record import Answer, Attempt, Record


class Source(StrEnum):
    """What a run's length is known from, the surest first."""

    ATTEMPT = "attempt"  # this attempt of the operation ended by itself in the record
    OPERATION = "operation"  # another attempt of the operation did
    EXPECTED = "expected"  # its producer said how long it expects it to take
    KIND = "kind"  # the median of its kind
    ANY = "any"  # the median of everything that ran
    UNKNOWN = "unknown"  # nothing ever ended: it runs on


class Course(NamedTuple):
    """How a run goes: microseconds from its dispatch, and the fact it ends with (None: exit code 0).

    `accept_us` None: nobody accepts it. `run_us` None: it does not end. The offsets are those of the recorded facts it follows, for
    their order within a moment; -1: none.
    """

    accept_us: int | None
    run_us: int | None
    end: f.DispatchDeclined | f.ActionFinished | None
    source: Source
    accept_offset: int = -1
    end_offset: int = -1


class Courses:
    """How runs go, from a record.

    The nth attempt of an operation goes as its nth attempt went: it takes as long, wherever it runs, and ends in the same way. What the
    record saw only in part (killed, lost, still running at its end) takes at least as long as it was seen.

    Args:
        exchanged: every run that ended takes as long as the next one of its kind did, instead of its own time. That keeps how long runs
            take as a whole and forgets which took how long: what changes by it is owed to chance.
    """

    def __init__(self, record: Record, *, exchanged: bool = False) -> None:
        self._record = record
        self._by_kind: dict[str, list[int]] = {}
        accepts, stops = [], []
        whole: list[tuple[Attempt, int]] = []
        for attempts in record.attempts.values():
            for attempt in attempts:
                accepted, end, stopped = attempt.accepted(), attempt.end(), attempt.stopped()
                if accepted is not None:
                    accepts.append(accepted.at_us - attempt.dispatched_at_us)
                if stopped is not None:
                    stops.append(stopped.at_us - attempt.killed_at_us)
                if end is not None and _exited(end):
                    whole.append((attempt, end.at_us - attempt.dispatched_at_us))
                    self._by_kind.setdefault(attempt.kind, []).append(whole[-1][1])
        # What ran already as the window began is given, like the state it began in.
        begun = [(attempt, run_us) for attempt, run_us in whole if attempt.dispatch_id > record.base.seq]
        self._exchanged = _exchange(begun) if exchanged else {}
        self._any_us = _median(run_us for runs in self._by_kind.values() for run_us in runs)
        self._median_us: dict[str, int | None] = {}
        self._accept_us = _median(accepts) or 0
        self.stop_us = _median(stops) or 0
        self.lookup_us = _median(record.cache_answers_us.values()) or 0

    def of(self, operation_id: int, number: int, kind: str, expected_us: int) -> Course:
        """The course of attempt `number` (from 0) of an operation; `expected_us` 0: its producer does not say."""
        attempts = self._record.attempts.get(operation_id, [])
        own = attempts[number] if number < len(attempts) else None
        accept_us, accept_offset, seen_us = self._accept_us, -1, 0
        if own is not None:
            accepted, end = own.accepted(), own.end()
            if accepted is not None:
                accept_us, accept_offset = accepted.at_us - own.dispatched_at_us, accepted.offset
            if end is not None:
                run_us = self._run_us(own, end)
                first_us = min(accept_us, run_us)
                accepts = accepted is not None or type(end.fact) is f.ActionFinished
                return Course(
                    first_us if accepts else None, run_us, _ending(end), Source.ATTEMPT, accept_offset, end.offset
                )
            if own.unanswered:
                return Course(None, None, None, Source.ATTEMPT)
            seen_us = self._seen_us(own)
        ended = ((each, end) for each in attempts if (end := each.end()) is not None and _exited(end))
        other = next(ended, None)
        if other is not None:
            found, fact, source = self._run_us(*other), _ending(other[1]), Source.OPERATION
        else:
            guess, source = self._guessed(kind, expected_us)
            if guess is None:
                return Course(accept_us, None, None, source, accept_offset)
            found, fact = guess, None
        found = max(found, seen_us)
        return Course(min(accept_us, found), found, fact, source, accept_offset)

    def _run_us(self, attempt: Attempt, end: Answer) -> int:
        """How long an attempt took that ended by itself, or the one whose time it has been given."""
        return self._exchanged.get(attempt.dispatch_id, end.at_us - attempt.dispatched_at_us)

    def _guessed(self, kind: str, expected_us: int) -> tuple[int | None, Source]:
        if expected_us:
            return expected_us, Source.EXPECTED
        if kind not in self._median_us:
            self._median_us[kind] = _median(self._by_kind.get(kind, ()))
        median_us = self._median_us[kind]
        if median_us is not None:
            return median_us, Source.KIND
        return self._any_us, Source.UNKNOWN if self._any_us is None else Source.ANY

    def _seen_us(self, attempt: Attempt) -> int:
        """What an attempt takes at least that was not seen to end by itself."""
        until_us = attempt.lost_at_us or self._record.last_at_us
        if attempt.killed_at_us:
            until_us = min(until_us, attempt.killed_at_us)
        return max(until_us - attempt.dispatched_at_us, 0) + 1


def _exited(answer: Answer) -> bool:
    return type(answer.fact) is f.ActionFinished and answer.fact.result == RunResult.EXITED


def _ending(answer: Answer) -> f.DispatchDeclined | f.ActionFinished:
    assert not isinstance(answer.fact, f.DispatchAccepted), "an acceptance ends nothing"
    return answer.fact


def _median(values: Iterable[int]) -> int | None:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _exchange(whole: list[tuple[Attempt, int]]) -> dict[int, int]:
    """By dispatch_id how long the next run of its kind took, in the order they were dispatched; after the last comes the first."""
    by_kind: dict[str, list[tuple[int, int]]] = {}
    for attempt, run_us in whole:
        by_kind.setdefault(attempt.kind, []).append((attempt.dispatch_id, run_us))
    taken: dict[int, int] = {}
    for runs in by_kind.values():
        runs.sort()
        for (dispatch_id, _), (_, run_us) in zip(runs, (*runs[1:], runs[0]), strict=True):
            taken[dispatch_id] = run_us
    return taken
