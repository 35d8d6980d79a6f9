"""Decisions of the recorded run that say something else than the core decided, each plausible by itself and rightly chained.

Every one is a single field or two of one event, what somebody would change who wants the log to tell another story.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from events import events as e
from events.reasons import DisconnectReason, HoldEnd, HoldMove, Outcome, RequeueCause
from tests.recorded.run import Kind, RecordedRun
from tests.recorded.truths import Cause, Truth


@dataclass(frozen=True, slots=True)
class Forgery:
    """What is forged.

    Args:
        what: in words, as the name of a test.
        find: the event of the run.
        change: the fields that it gets.
    """

    what: str
    find: Callable[[RecordedRun], e.Event]
    change: Callable[[RecordedRun, e.Event], Mapping[str, object]]


def truth_of(run: RecordedRun, cause: Cause) -> Truth:
    """The first hold that ended so."""
    return next(truth for truth in run.held if truth.cause is cause)


def _of_hold(kind: type[Kind], cause: Cause) -> Callable[[RecordedRun], Kind]:
    return lambda run: run.first(kind, truth_of(run, cause).operation_id)


def _first(kind: type[Kind]) -> Callable[[RecordedRun], Kind]:
    return lambda run: run.first(kind)


def _says(**changed: object) -> Callable[[RecordedRun, e.Event], Mapping[str, object]]:
    return lambda run, event: changed


def _overtaker(run: RecordedRun) -> e.OperationDispatched:
    """The dispatch of the small one that overtook the big one of the first hold."""
    made = run.first(e.HoldMade)
    return next(
        each
        for each in run.events
        if isinstance(each, e.OperationDispatched) and each.operation_id == made.overtaken_by
    )


def _another_candidate(run: RecordedRun, made: e.HoldMade) -> Mapping[str, object]:
    """The second closest stands first."""
    first, second, *rest = made.candidates
    return {"endpoint": second.endpoint, "candidates": (second, first, *rest)}


def _closer(run: RecordedRun, made: e.HoldMade) -> Mapping[str, object]:
    """The held worker was said to lack less than it did."""
    first, *rest = made.candidates
    return {"candidates": (first._replace(shortfall_milli=first.shortfall_milli - 100), *rest)}


FORGERIES = (
    Forgery("another worker than the closest is held", _first(e.HoldMade), _another_candidate),
    Forgery("the held worker lacked less", _first(e.HoldMade), _closer),
    Forgery("it had waited for longer", _first(e.HoldMade), _says(waited_us=60_000_000)),
    Forgery(
        "another one overtook it",
        _first(e.HoldMade),
        lambda run, made: {"overtaken_by": truth_of(run, Cause.CANCELLED).operation_id},
    ),
    Forgery("more were left out", _of_hold(e.HoldNoCandidate, Cause.DRAINED), _says(excluded=())),
    Forgery("a lost worker was drained", _of_hold(e.HoldReleased, Cause.LEFT), _says(reason=HoldEnd.UNFIT)),
    Forgery(
        "a cancelled action's hold expired", _of_hold(e.HoldReleased, Cause.CANCELLED), _says(reason=HoldEnd.EXPIRED)
    ),
    Forgery("a hold stood for longer", _of_hold(e.HoldReleased, Cause.OUT_OF_TIME), _says(held_us=30_000_000)),
    Forgery("a drained worker left", _first(e.HoldMoved), _says(cause=HoldMove.PAUSED)),
    Forgery("nobody was overtaken", _overtaker, _says(overtook=None)),
    Forgery(
        "a silent worker was removed",
        lambda run: next(
            each
            for each in run.events
            if isinstance(each, e.WorkerDisconnected) and each.reason is DisconnectReason.TIMEOUT
        ),
        _says(reason=DisconnectReason.REMOVED),
    ),
    Forgery(
        "a cancelled action was abandoned",
        _of_hold(e.OperationFinished, Cause.CANCELLED),
        _says(outcome=Outcome.ABANDONED),
    ),
    Forgery("a run ended with another exit code", _first(e.OperationFinished), _says(exit_code=1)),
    Forgery(
        "a lost run was declined",
        _first(e.OperationRequeued),
        lambda run, event: {
            "cause": RequeueCause.DECLINED,
            "worker_losses": event.worker_losses - 1,
            "free_requeues": 1,
        },
    ),
)
