"""Dispatches that a worker does not acknowledge (1.4, B6). The clock is the worker's own: each message from it is a look at it."""

from events.config import SECOND_US
from events.deciding.endings import return_untried, revoke
from events.deciding.step import Step
from events.reasons import KillCause, RequeueCause
from events.state import Worker


def check_acknowledged(step: Step, worker: Worker) -> None:
    """After a message from `worker` was taken: what it should have accepted by now goes back untried, and the worker is paused.

    The run is revoked first, so that a start that comes late is stopped rather than run twice.
    """
    timeout_s = step.shard.instances[worker.instance].config.dispatch_ack_timeout_s
    if not timeout_s or not worker.unaccepted:
        return
    overdue_us = step.now_us - timeout_s * SECOND_US
    for dispatch in list(worker.running.values()):
        if not dispatch.accepted and not dispatch.revoked and dispatch.heard_at_us < overdue_us:
            revoke(step, dispatch, KillCause.UNACKNOWLEDGED)
            message = f"not accepted by {worker.endpoint} within {timeout_s} s"
            return_untried(step, dispatch, RequeueCause.UNACKNOWLEDGED, message)
