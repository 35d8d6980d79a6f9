"""Time: outages of the log, and the timers that are due. The only clock is the facts' append time."""

from heapq import heappop, heappush

from events import events as e
from events.config import SECOND_US
from events.deciding.clients import leave
from events.deciding.endings import fail_job, revoke
from events.deciding.fleet import disconnect
from events.deciding.holding import expire
from events.deciding.locality import sweep
from events.deciding.step import Step
from events.deciding.unsatisfiable import fail_overdue, most_at_once
from events.indexing import (
    ACTION_OVERDUE,
    CLIENT_SILENT,
    ENDPOINT_UNHEARD,
    EXECUTING_OVERDUE,
    HOLD_EXPIRED,
    KILL_OVERDUE,
    UNSATISFIABLE_DUE,
    WORKER_SILENT,
    Timer,
    deadline_us,
)
from events.reasons import ClientLeaving, DisconnectReason, KillCause, RequeueCause
from events.state import Dispatch, Instance

SILENCE_US = 3_000_000
"""A longer gap between two facts means that nobody could write: the tickers of live deciders leave none."""


def note_silence(step: Step) -> None:
    """Move every liveness deadline by an outage, before any timer fires: an outage of the log evicts nobody."""
    gap_us = step.append_us - step.shard.now_us
    if gap_us > SILENCE_US and step.shard.now_us:
        step.emit(e.LogSilent, gap_us)


def fire_due(step: Step) -> None:
    """Fire every timer whose deadline has come, in the order (deadline, kind, id), each as the events it causes.

    Failures of what nobody could run are cut up, since a whole queue may be due at once: the rest fires at the next fact.
    """
    shard = step.shard
    if not shard.timers or shard.timers[0][0] > step.now_us:
        return
    left: dict[str, int] = {}  # failures that this fact may still cause, by instance
    later: list[Timer] = []
    while shard.timers and shard.timers[0][0] <= step.now_us:
        timer = heappop(shard.timers)
        due_us = deadline_us(shard, timer)
        if due_us is None:
            continue  # the row is gone, or what was waited for has come
        instance = shard.instances[timer[2]]
        if due_us > timer[0]:
            heappush(shard.timers, (due_us, *timer[1:]))
        elif timer[1] == UNSATISFIABLE_DUE and left.setdefault(instance.name, most_at_once(instance)) == 0:
            later.append(timer)
        else:
            if timer[1] == UNSATISFIABLE_DUE:
                left[instance.name] -= 1
            _fire(step, instance, timer)
    for timer in later:
        heappush(shard.timers, timer)


def _fire(step: Step, instance: Instance, timer: Timer) -> None:
    _, kind, _, name, number = timer
    if kind == UNSATISFIABLE_DUE:
        fail_overdue(step, instance, step.shard.operations[number])
    elif kind == CLIENT_SILENT:
        operation = step.shard.operations[number]
        assert operation.clients is not None, "only a client has such a timer"
        client = operation.clients[name]
        leave(step, operation, client, ClientLeaving.TIMEOUT, step.now_us - client.last_heard_us)
    elif kind == HOLD_EXPIRED:
        expire(step, instance)
    elif kind == ENDPOINT_UNHEARD:
        sweep(step, instance.endpoints[name])
    else:
        worker = instance.workers[name]
        if kind == WORKER_SILENT:
            silent_us = step.now_us - worker.last_seen_us
            disconnect(step, worker, DisconnectReason.TIMEOUT, RequeueCause.WORKER_TIMEOUT, silent_us)
        elif kind == KILL_OVERDUE:
            disconnect(step, worker, DisconnectReason.KILL_OVERDUE, RequeueCause.KILL_OVERDUE)
        elif kind == EXECUTING_OVERDUE:
            silent_s = (step.now_us - worker.running[number].heard_at_us) // SECOND_US
            message = f"{name} is alive but has said nothing of it for {silent_s} s"
            _take_back(step, worker.running[number], RequeueCause.EXECUTING_TIMEOUT, message)
        elif kind == ACTION_OVERDUE:
            dispatch = worker.running[number]
            ran_s = (step.now_us - dispatch.dispatched_at_us) // SECOND_US
            message = f"dispatched to {name} {ran_s} s ago with a timeout of {dispatch.operation.timeout_us // 1000} ms"
            _take_back(step, dispatch, RequeueCause.ACTION_TIMEOUT, message)


def _take_back(step: Step, dispatch: Dispatch, cause: RequeueCause, message: str) -> None:
    """The run has taken too long: it is told to stop, and that is a job failure (T4)."""
    revoke(step, dispatch, KillCause.ACTION_TIMEOUT)
    fail_job(step, dispatch, cause, message)
