"""Answers of edges, which do what needs I/O: the action cache, resource hints, another scheduler (design: the core is pure)."""

from events import events as e
from events import facts as f
from events.config import UpstreamScheduler
from events.deciding.endings import INTERNAL_ERROR_EXIT_CODE, stop
from events.deciding.step import Step
from events.reasons import CacheAnswer, IgnoreReason, Outcome, UpstreamState
from events.state import Operation, Stage


def answer_cache(step: Step, fact: f.CacheAnswered) -> None:
    """A hit ends the operation, a miss puts it into the queue at its old place, a failure ends it for everybody who waits (D1)."""
    operation = _awaiting(step, fact, Stage.CACHE_CHECK)
    if operation is None:
        return
    step.emit(e.CacheAnswered, fact.instance, fact.operation_id, fact.answer, fact.exit_code, fact.message)
    if fact.answer is CacheAnswer.HIT:
        stop(step, operation, Outcome.COMPLETED_FROM_CACHE, exit_code=fact.exit_code, message=fact.message)
    elif fact.answer is CacheAnswer.FAILED:
        message = fact.message or "the action cache could not be asked"
        stop(step, operation, Outcome.CACHE_LOOKUP_FAILED, exit_code=INTERNAL_ERROR_EXIT_CODE, message=message)
    elif fact.answer is CacheAnswer.MISS:
        hand_upstream(step, operation)


def hand_upstream(step: Step, operation: Operation) -> None:
    """Give the operation to the other scheduler, where the configuration says so; an edge publishes it there."""
    upstream = step.shard.instances[operation.instance].upstream
    if upstream is not None:
        step.emit(e.OperationForwarded, operation.operation_id, name_of(upstream))


def name_of(upstream: UpstreamScheduler) -> str:
    """What events call the other scheduler: the instance, and its cluster where that is another one."""
    return upstream.instance + (f"@{upstream.bootstrap_servers}" if upstream.bootstrap_servers else "")


def report_upstream(step: Step, fact: f.UpstreamReported) -> None:
    """What became of it there; its end there is its end here."""
    operation = _awaiting(step, fact, Stage.FORWARDED)
    if operation is None:
        return
    step.emit(
        e.UpstreamReported,
        fact.instance,
        fact.operation_id,
        fact.state,
        fact.outcome,
        fact.exit_code,
        fact.message,
    )
    if fact.state is UpstreamState.FINISHED:
        stop(step, operation, fact.outcome or Outcome.COMPLETED, exit_code=fact.exit_code, message=fact.message)
    elif fact.state is UpstreamState.REFUSED:
        message = fact.message or "the upstream scheduler refused it"
        stop(step, operation, Outcome.UPSTREAM_FAILED, exit_code=INTERNAL_ERROR_EXIT_CODE, message=message)


def load_hints(step: Step, fact: f.HintsLoaded) -> None:
    """Replace the resource hints; they count for what is queued from now on (D3)."""
    instance = step.instance_of(fact.instance, "")
    if instance is None:
        return
    loaded = {(hint.target_id, hint.mnemonic): (hint.cpu_millis, hint.memory_kib) for hint in fact.hints}
    if loaded == instance.hints:
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance)
    else:
        step.emit(e.HintsLoaded, fact.instance, fact.hints)


def _awaiting(step: Step, fact: f.CacheAnswered | f.UpstreamReported, stage: Stage) -> Operation | None:
    """The operation that waits for this answer; None after the fact was ignored or rejected."""
    operation = step.operation_of(fact.instance, fact.operation_id, "")
    if operation is None:
        return None
    if operation.stage is not stage:
        finished = operation.stage is Stage.FINISHED
        reason = IgnoreReason.OPERATION_FINISHED if finished else IgnoreReason.NOT_ASKED
        step.ignore(reason, fact.instance, operation.client_operation_id)
        return None
    return operation
