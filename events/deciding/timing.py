"""Time: outages of the log, and the timers that are due. The only clock is the facts' append time."""

from heapq import heappop, heappush

from events import events as e
from events.deciding.fleet import disconnect
from events.deciding.step import Step
from events.indexing import KILL_OVERDUE, WORKER_SILENT, kill_deadline_us, worker_deadline_us
from events.reasons import DisconnectReason, RequeueCause
from events.state import Shard, Worker

SILENCE_US = 3_000_000
"""A longer gap between two facts means that nobody could write: the tickers of live deciders leave none."""


def note_silence(step: Step) -> None:
    """Move every liveness deadline by an outage, before any timer fires: an outage of the log evicts nobody."""
    gap_us = step.append_us - step.shard.now_us
    if step.shard.now_us and gap_us > SILENCE_US:
        step.emit(e.LogSilent, gap_us)


def fire_due(step: Step) -> None:
    """Fire every timer whose deadline has come, in the order (deadline, kind, id), each as the events it causes."""
    shard = step.shard
    while shard.timers and shard.timers[0][0] <= step.now_us:
        timer = heappop(shard.timers)
        deadline_us, kind, instance, endpoint, number = timer
        worker = shard.instances[instance].workers.get(endpoint)
        due_us = None if worker is None else _deadline(shard, worker, kind, number)
        if worker is None or due_us is None:
            continue  # the row is gone, or the worker has answered
        if due_us > deadline_us:
            heappush(shard.timers, (due_us, kind, instance, endpoint, number))
        elif kind == WORKER_SILENT:
            silent_us = step.now_us - worker.last_seen_us
            disconnect(step, worker, DisconnectReason.TIMEOUT, RequeueCause.WORKER_TIMEOUT, silent_us)
        else:
            disconnect(step, worker, DisconnectReason.KILL_OVERDUE, RequeueCause.KILL_OVERDUE)


def _deadline(shard: Shard, worker: Worker, kind: int, number: int) -> int | None:
    """The row's own deadline for a timer, or None when it no longer stands."""
    if kind == KILL_OVERDUE:
        dispatch = worker.running.get(number)
        return kill_deadline_us(shard, dispatch) if dispatch is not None and dispatch.revoked else None
    return worker_deadline_us(shard, worker) if worker.connection_id == number else None
