"""Indexes derived from rows: matchers, the kinds of worker, and the timer heap. They can be thrown away and rebuilt at any moment.

A timer is (deadline_us, kind, instance, name, number). Its deadline may be older than the row's: it is looked up again when it comes up
(`deadline_us`), so that a keepalive costs nothing. One whose row is gone is dropped then, or when the heap has doubled.

| kind | name | number |
|---|---|---|
| WORKER_SILENT | endpoint | connection_id |
| KILL_OVERDUE, EXECUTING_OVERDUE, ACTION_OVERDUE | endpoint | dispatch_id |
| CLIENT_SILENT | client_operation_id | operation_id |
| UNSATISFIABLE_DUE | | operation_id |
| HOLD_EXPIRED | endpoint | operation_id |
| ENDPOINT_UNHEARD | endpoint | 0 |
"""

from heapq import heapify, heappush

from events.config import SECOND_US, BackfillHold
from events.matching import Matcher
from events.reasons import ClientLeaving
from events.state import Client, Dispatch, Endpoint, FleetShapes, Instance, Operation, Shard, Stage, Worker

(
    WORKER_SILENT,
    KILL_OVERDUE,
    CLIENT_SILENT,
    EXECUTING_OVERDUE,
    ACTION_OVERDUE,
    UNSATISFIABLE_DUE,
    HOLD_EXPIRED,
    ENDPOINT_UNHEARD,
) = range(1, 9)
"""Kinds of timer, in the order in which timers of one deadline fire."""

FEWEST_KEPT = 4096
"""Below so many timers none are thrown out before they come up."""

ACTION_GRACE_US = 5_000_000
"""The worker enforces an action's timeout itself and reports; the scheduler steps in when nothing was reported so long after it."""

Timer = tuple[int, int, str, str, int]


def worker_deadline_us(shard: Shard, worker: Worker) -> int:
    """When the worker is evicted unless it is heard before: silence of exactly the timeout evicts (W10)."""
    return worker.last_seen_us + shard.instances[worker.instance].config.worker_timeout_s * SECOND_US


def kill_deadline_us(shard: Shard, dispatch: Dispatch) -> int:
    """When a worker that has not answered this kill is evicted: strictly more than the timeout (K5)."""
    timeout_s = shard.instances[dispatch.worker.instance].config.unacknowledged_kill_timeout_s
    return dispatch.kill_requested_at_us + timeout_s * SECOND_US + 1


def client_deadline_us(instance: Instance, client: Client) -> int:
    """When an attached client no longer counts: strictly more than the timeout after it was last heard (C2)."""
    return client.last_heard_us + instance.config.client_action_timeout_s * SECOND_US + 1


def executing_deadline_us(instance: Instance, dispatch: Dispatch) -> int | None:
    """When a run nothing was heard of is taken from its worker, though that lives (T3); None: never."""
    timeout_s = instance.config.max_action_executing_timeout_s
    return dispatch.heard_at_us + timeout_s * SECOND_US + 1 if timeout_s else None


def action_deadline_us(dispatch: Dispatch) -> int | None:
    """When a run is longer than its action allows, whatever its worker's health (T2); None: never."""
    timeout_us = dispatch.operation.timeout_us
    return dispatch.dispatched_at_us + dispatch.silent_us + timeout_us + ACTION_GRACE_US + 1 if timeout_us else None


def unsatisfiable_deadline_us(instance: Instance, operation: Operation) -> int | None:
    """When an operation that nobody could run fails: both the fleet and the operation have been so for the timeout (X4)."""
    shortage = instance.unsatisfiable.get(operation.requirement_id)
    if shortage is None or operation.stage is not Stage.QUEUED or shortage.no_workers == bool(instance.workers):
        return None
    config = instance.config
    timeout_s = config.no_worker_action_timeout_s if shortage.no_workers else config.unsatisfiable_action_timeout_s
    return max(shortage.since_us, operation.queued_since_us) + timeout_s * SECOND_US if timeout_s else None


def hold_deadline_us(instance: Instance) -> int | None:
    """When the hold of the instance is given up; None: never, or there is none."""
    hold, policy = instance.hold, instance.config.hold
    if hold is None or policy is None or policy.max_hold_s is None:
        return None
    return hold.made_at_us + policy.max_hold_s * SECOND_US


def has_something(endpoint: Endpoint) -> bool:
    """Whether the endpoint has something to lose: blobs it advertised, or chunks it owes acknowledgements for."""
    return endpoint.advertised or endpoint.unacknowledged is not None


def is_unconfirmed(shard: Shard, endpoint: Endpoint) -> bool:
    """Whether the endpoint was not heard under this leader yet."""
    return endpoint.confirmed_in < shard.leader_epoch


def is_waited_for(shard: Shard, endpoint: Endpoint) -> bool:
    """Whether somebody has to come back for what the endpoint advertised before this leader (PM9).

    One that holds nothing is not (PM7): it may have got its first chunk of stable blobs long after the recovery, and keeps it for as
    long as any other that disconnects (S-6).
    """
    return endpoint.advertised and is_unconfirmed(shard, endpoint)


def endpoint_deadline_us(shard: Shard, endpoint: Endpoint) -> int | None:
    """When the endpoint is forgotten unless somebody comes back for it (PM9); None: not as things stand."""
    config = shard.instances[endpoint.instance].config.locality
    grace_us = config.never_reconnect_s * SECOND_US
    if is_waited_for(shard, endpoint):
        if endpoint.connection_id:
            return None  # its worker may be heard yet: whether it is gone is for the worker's timeout to say, however short the grace
        # Counted from the end of the recovery, never from the election: nobody is heard while a backlog is decided.
        return shard.recovered_at_us + grace_us if shard.recovers_at is None else None
    if endpoint.connection_id:
        return None
    due_us = endpoint.gone_at_us + grace_us
    if endpoint.changes:  # a disconnect never ends what is known of flaps (F-1): not while a change or a warning counts
        due_us = max(due_us, endpoint.changes[-1] + config.flap_window_s * SECOND_US + 1)
    if endpoint.flapped_at_us is not None:
        due_us = max(due_us, endpoint.flapped_at_us + config.flap_cooldown_s * SECOND_US)
    return due_us


def deadline_us(shard: Shard, timer: Timer) -> int | None:
    """The row's own deadline for a timer, or None when it no longer stands."""
    _, kind, instance_name, name, number = timer
    instance = shard.instances[instance_name]
    if kind == CLIENT_SILENT:
        operation = shard.operations.get(number)
        if operation is None or operation.stage is Stage.FINISHED or operation.clients is None:
            return None
        client = operation.clients.get(name)
        stands = client is not None and client.left is ClientLeaving.UNSPECIFIED
        return client_deadline_us(instance, client) if client is not None and stands else None
    if kind == UNSATISFIABLE_DUE:
        operation = shard.operations.get(number)
        return None if operation is None else unsatisfiable_deadline_us(instance, operation)
    if kind == ENDPOINT_UNHEARD:
        endpoint = instance.endpoints.get(name)
        return None if endpoint is None else endpoint_deadline_us(shard, endpoint)
    if kind == HOLD_EXPIRED:
        hold = instance.hold
        return hold_deadline_us(instance) if hold is not None and hold.operation.operation_id == number else None
    worker = instance.workers.get(name)
    if worker is None:
        return None
    if kind == WORKER_SILENT:
        return worker_deadline_us(shard, worker) if worker.connection_id == number else None
    dispatch = worker.running.get(number)
    if dispatch is None or dispatch.revoked != (kind == KILL_OVERDUE):
        return None
    if kind == KILL_OVERDUE:
        return kill_deadline_us(shard, dispatch)
    return executing_deadline_us(instance, dispatch) if kind == EXECUTING_OVERDUE else action_deadline_us(dispatch)


def _arm(shard: Shard, timer: Timer) -> None:
    heappush(shard.timers, timer)
    if len(shard.timers) > max(shard.timers_kept, FEWEST_KEPT):
        # Timers of runs that have ended stand until their deadline, which may be hours off: throw them out as the heap doubles.
        shard.timers = [timer for timer in dict.fromkeys(shard.timers) if deadline_us(shard, timer) is not None]
        heapify(shard.timers)
        shard.timers_kept = 2 * len(shard.timers)


def arm_worker(shard: Shard, worker: Worker) -> None:
    """Put the worker's timeout on the heap."""
    due_us = worker_deadline_us(shard, worker)
    _arm(shard, (due_us, WORKER_SILENT, worker.instance, worker.endpoint, worker.connection_id))


def arm_kill(shard: Shard, dispatch: Dispatch) -> None:
    """Put the deadline of a kill on the heap."""
    worker, due_us = dispatch.worker, kill_deadline_us(shard, dispatch)
    _arm(shard, (due_us, KILL_OVERDUE, worker.instance, worker.endpoint, dispatch.dispatch_id))


def arm_client(shard: Shard, instance: Instance, operation: Operation, client: Client) -> None:
    """Put a client's timeout on the heap."""
    due_us = client_deadline_us(instance, client)
    _arm(shard, (due_us, CLIENT_SILENT, instance.name, client.client_operation_id, operation.operation_id))


def arm_run(shard: Shard, instance: Instance, dispatch: Dispatch) -> None:
    """Put the deadlines of a current run on the heap, where it has any."""
    due_us = executing_deadline_us(instance, dispatch)
    if due_us is not None:
        _arm(shard, (due_us, EXECUTING_OVERDUE, instance.name, dispatch.worker.endpoint, dispatch.dispatch_id))
    if dispatch.operation.timeout_us:
        due_us = action_deadline_us(dispatch)
        assert due_us is not None, "an action with a timeout has a deadline"
        _arm(shard, (due_us, ACTION_OVERDUE, instance.name, dispatch.worker.endpoint, dispatch.dispatch_id))


def arm_unsatisfiable(shard: Shard, instance: Instance, operation: Operation) -> None:
    """Put the deadline of an operation that nobody could run on the heap, where it has one."""
    due_us = unsatisfiable_deadline_us(instance, operation)
    if due_us is not None:
        _arm(shard, (due_us, UNSATISFIABLE_DUE, instance.name, "", operation.operation_id))


def arm_endpoint(shard: Shard, instance: Instance, endpoint: Endpoint) -> None:
    """Put the end of an endpoint nobody comes back for on the heap, where it has one."""
    due_us = endpoint_deadline_us(shard, endpoint)
    if due_us is not None:
        _arm(shard, (due_us, ENDPOINT_UNHEARD, instance.name, endpoint.endpoint, 0))


def arm_endpoints(shard: Shard) -> None:
    """Put the end of every such endpoint on the heap."""
    for instance in shard.instances.values():
        for endpoint in instance.endpoints.values():
            arm_endpoint(shard, instance, endpoint)


def index_hold(shard: Shard, instance: Instance) -> None:
    """Tell the matcher of the hold, and put its end on the heap where it has one. The instance has a hold."""
    hold = instance.hold
    assert hold is not None, "only a hold that stands is indexed"
    backfill = isinstance(instance.config.hold, BackfillHold)
    instance.matcher.hold(hold.worker, hold.operation, free_at_us=hold.free_at_us, backfill=backfill)
    due_us = hold_deadline_us(instance)
    if due_us is not None:
        _arm(shard, (due_us, HOLD_EXPIRED, instance.name, hold.worker.endpoint, hold.operation.operation_id))


def add_shape(instance: Instance, worker: Worker) -> None:
    """A worker is connected: the first of its kind may be able to run what nobody could."""
    shapes = instance.shapes
    count = shapes.workers.get(worker.properties, 0)
    shapes.workers[worker.properties] = count + 1
    shapes.changed |= count == 0


def remove_shape(instance: Instance, worker: Worker) -> None:
    """A worker is gone: after the last of its kind, what anybody can run is asked anew."""
    shapes = instance.shapes
    count = shapes.workers[worker.properties] - 1
    if count:
        shapes.workers[worker.properties] = count
    else:
        del shapes.workers[worker.properties]
        shapes.capable.clear()
        shapes.changed = True


def index_instance(shard: Shard, instance: Instance) -> None:
    """Build the instance's matcher and timers from its rows; the next pass assumes nothing.

    Timers too, because another configuration may bring deadlines forward, which looking them up late would miss.
    """
    matcher = instance.matcher = Matcher(instance.config, instance.pools)
    instance.shapes = FleetShapes()
    shard.timers = [timer for timer in shard.timers if timer[2] != instance.name]
    heapify(shard.timers)
    for worker in sorted(instance.workers.values(), key=lambda worker: worker.recency):
        worker.index = None  # an older matcher's
        matcher.add_worker(worker)
        add_shape(instance, worker)
        arm_worker(shard, worker)
        for dispatch in worker.running.values():
            if dispatch.revoked:
                arm_kill(shard, dispatch)
            else:
                arm_run(shard, instance, dispatch)
    queued = []
    for operation in dict.fromkeys(instance.by_client.values()):  # joined ones have several ids
        if operation.stage is Stage.QUEUED:
            queued.append(operation)
        if operation.stage is not Stage.FINISHED and operation.clients is not None:
            for client in operation.clients.values():
                if client.attached and not client.left:
                    arm_client(shard, instance, operation, client)
    for operation in sorted(queued, key=lambda operation: operation.sort_key):
        operation.index = None
        matcher.enqueue(operation)
        if operation.requirement_id in instance.unsatisfiable:
            arm_unsatisfiable(shard, instance, operation)
    for endpoint in instance.endpoints.values():
        arm_endpoint(shard, instance, endpoint)
    hold = instance.hold
    # Its worker may just have been lost to a timer of the fact that brought another configuration: the hold moves once that is in force.
    if hold is not None and instance.workers.get(hold.worker.endpoint) is hold.worker:
        index_hold(shard, instance)
    instance.shapes.changed = False  # what is known of the fleet stands in the rows
    matcher.everything_dirty()


def build_indexes(shard: Shard) -> None:
    """Make a folded shard live: matchers and timers from rows. What is decided from here on depends on the rows alone."""
    shard.live = True
    for instance in shard.instances.values():
        index_instance(shard, instance)
