"""Indexes derived from rows: matchers and the timer heap. They can be thrown away and rebuilt at any moment.

A timer is (deadline_us, kind, instance, endpoint, number), where number is the connection id or the dispatch id. Its deadline may be
older than the row's: it is looked up again when it comes up, so that a keepalive costs nothing (deciding/timing.py).
"""

from heapq import heapify, heappush

from events.config import SECOND_US
from events.matching import Matcher
from events.state import Dispatch, Instance, Shard, Stage, Worker

WORKER_SILENT, KILL_OVERDUE = 1, 2
"""Kinds of timer, in the order in which timers of one deadline fire."""


def worker_deadline_us(shard: Shard, worker: Worker) -> int:
    """When the worker is evicted unless it is heard before: silence of exactly the timeout evicts (W10)."""
    return worker.last_seen_us + shard.instances[worker.instance].config.worker_timeout_s * SECOND_US


def kill_deadline_us(shard: Shard, dispatch: Dispatch) -> int:
    """When a worker that has not answered this kill is evicted: strictly more than the timeout (K5)."""
    timeout_s = shard.instances[dispatch.worker.instance].config.unacknowledged_kill_timeout_s
    return dispatch.kill_requested_at_us + timeout_s * SECOND_US + 1


def arm_worker(shard: Shard, worker: Worker) -> None:
    """Put the worker's timeout on the heap; it is looked up again when it comes up, so that a keepalive costs nothing."""
    timer = (worker_deadline_us(shard, worker), WORKER_SILENT, worker.instance, worker.endpoint, worker.connection_id)
    heappush(shard.timers, timer)


def arm_kill(shard: Shard, dispatch: Dispatch) -> None:
    """Put the deadline of a kill on the heap."""
    worker = dispatch.worker
    timer = (kill_deadline_us(shard, dispatch), KILL_OVERDUE, worker.instance, worker.endpoint, dispatch.dispatch_id)
    heappush(shard.timers, timer)


def index_instance(shard: Shard, instance: Instance) -> None:
    """Build the instance's matcher and timers from its rows; the next pass assumes nothing.

    Timers too, because another configuration may bring deadlines forward, which looking them up late would miss.
    """
    matcher = instance.matcher = Matcher(instance.config, instance.pools)
    shard.timers = [timer for timer in shard.timers if timer[2] != instance.name]
    heapify(shard.timers)
    for worker in sorted(instance.workers.values(), key=lambda worker: worker.recency):
        worker.index = None  # an older matcher's
        matcher.add_worker(worker)
        arm_worker(shard, worker)
        for dispatch in worker.running.values():
            if dispatch.revoked:
                arm_kill(shard, dispatch)
    queued = [operation for operation in instance.by_client.values() if operation.stage is Stage.QUEUED]
    for operation in sorted(queued, key=lambda operation: operation.sort_key):
        operation.index = None
        matcher.enqueue(operation)
    matcher.everything_dirty()


def build_indexes(shard: Shard) -> None:
    """Make a folded shard live: matchers and timers from rows. What is decided from here on depends on the rows alone."""
    shard.live = True
    for instance in shard.instances.values():
        index_instance(shard, instance)
