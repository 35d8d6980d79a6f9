"""Measures a history as it is decided: waits, use, holds. The record and every new history are measured by the same code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from events import events as e
from events.reasons import HoldEnd
from events.state import Instance, Shard, Stage

CPU = "cpu_millis"


@dataclass(slots=True)
class Waited:
    """How long one operation stood in the queue, all its attempts together.

    `since_us` is when it was last queued, None while it is not. Times are microseconds. `could_run` says whether some connected worker,
    busy or idle, could have run it at some time while it waited; None: it never waited beside a worker.
    """

    operation_id: int
    client_operation_id: str
    asked: bytes  # canonical requirements, as its producer asked
    cpu_millis: int
    since_us: int | None
    wait_us: int = 0
    dispatches: int = 0
    could_run: bool | None = None

    def leave_queue(self, at_us: int) -> None:
        """It does not wait any more."""
        if self.since_us is not None:
            self.wait_us += max(at_us - self.since_us, 0)
            self.since_us = None


@dataclass(slots=True)
class Meter:
    """What a history comes to, for one instance.

    What was cancelled as it waited has waited until then; what still waits at the end, until the end. Integrals are thousandths of cores
    times microseconds.
    """

    instance: str
    waits: dict[int, Waited] = field(default_factory=dict)  # by operation_id
    holds_made: int = 0
    holds_moved: int = 0
    hold_ends: Counter[HoldEnd] = field(default_factory=Counter)
    no_candidate: int = 0
    held_us: int = 0
    held_idle_millis_us: int = 0
    busy_millis_us: int = 0
    offered_millis_us: int = 0
    began_us: int = 0
    ended_us: int = 0
    _at_us: int = 0
    _workers: dict[str, tuple[int, int]] = field(default_factory=dict)  # offered and busy thousandths, by endpoint
    _offered: int = 0
    _busy: int = 0
    _held_free: int = 0
    _unjudged: dict[int, Waited] = field(
        default_factory=dict
    )  # waiting, and not yet known whether any worker could run them
    _never: dict[int, Waited] = field(default_factory=dict)  # waiting, and no connected worker could so far

    def begin(self, shard: Shard) -> None:
        """Start from a state: what waits and runs there counts from here on, waits from when they began."""
        self.began_us = self.ended_us = self._at_us = shard.now_us
        instance = shard.instances.get(self.instance)
        if instance is None:
            return
        for operation in instance.by_client.values():
            if operation.stage is not Stage.FINISHED and operation.operation_id not in self.waits:
                queued = operation.stage is Stage.QUEUED
                self._add(shard, operation.operation_id, operation.queued_since_us if queued else None)
                self.waits[operation.operation_id].could_run = None if queued else True
        for endpoint in instance.workers:
            self._weigh(instance, endpoint)
        self._note_hold(instance)

    def see(self, events: list[e.Event], shard: Shard) -> None:
        """Take all events of one fact, and the state after them."""
        at_us = shard.now_us
        if not self._at_us:
            self.began_us = self._at_us = at_us
        if at_us > self._at_us:
            self._pass_time(at_us)
        instance = shard.instances.get(self.instance)
        if instance is None:
            return
        changed = False
        for event in events:
            changed |= self._take(event, shard, instance)
        if changed:
            self._note_hold(instance)
        if self._unjudged and instance.workers:
            self._judge(shard, instance)

    def finish(self, shard: Shard, at_us: int) -> None:
        """The history ends at `at_us`; what still waits has waited until then."""
        if at_us > self._at_us:
            self._pass_time(at_us)
        self.ended_us = max(self._at_us, self.began_us)
        instance = shard.instances.get(self.instance)
        if instance is not None and instance.hold is not None:
            self.held_us += max(self.ended_us - max(instance.hold.made_at_us, self.began_us), 0)

    def unplaced(self) -> list[Waited]:
        """What waits at the end."""
        return [row for row in self.waits.values() if row.since_us is not None]

    def waits_still(self, operation_id: int) -> bool:
        """Whether an operation waits at the end, so that its wait is only the least it can be."""
        row = self.waits.get(operation_id)
        return row is not None and row.since_us is not None

    def wait_us(self, operation_id: int) -> int | None:
        """How long an operation waited, until the end where it still does; None where it was not queued in this history."""
        row = self.waits.get(operation_id)
        return None if row is None else self.waited_us(row)

    def waited_us(self, row: Waited) -> int:
        """As `wait_us`, of a row."""
        return row.wait_us + (0 if row.since_us is None else max(self.ended_us - row.since_us, 0))

    def _pass_time(self, at_us: int) -> None:
        passed_us = at_us - self._at_us
        self.busy_millis_us += self._busy * passed_us
        self.offered_millis_us += self._offered * passed_us
        self.held_idle_millis_us += self._held_free * passed_us
        self._at_us = at_us

    def _take(self, event: e.Event, shard: Shard, instance: Instance) -> bool:
        """Count one event; whether it may have changed what the held worker keeps free."""
        match event:
            case e.Ticked() | e.WorkerReported():
                return False
            case e.OperationQueued():
                if event.instance == self.instance:
                    self._add(shard, event.operation_id, event.queued_at_us)
                return False
            case e.OperationDispatched():
                row = self.waits.get(event.operation_id)
                if row is None:
                    return False
                row.leave_queue(event.at_us)
                row.dispatches += 1
                row.could_run = True
                self._weigh(instance, event.endpoint)
            case e.OperationRequeued():
                row = self.waits.get(event.operation_id)
                if row is None:
                    return False
                row.since_us = event.at_us
                self._weigh(instance, event.endpoint)
            case e.OperationFinished():
                row = self.waits.get(event.operation_id)
                if row is None:
                    return False
                row.leave_queue(event.at_us)
                self._weigh(instance, event.endpoint)
            case e.OperationForwarded():
                row = self.waits.get(event.operation_id)
                if row is not None:
                    row.leave_queue(event.at_us)
                    row.could_run = True
            case e.DemandSatisfiable() if event.instance == self.instance:
                self._judge_again()
                return False
            case e.HoldMade() if event.instance == self.instance:
                self.holds_made += 1
            case e.HoldMoved() if event.instance == self.instance:
                self.holds_moved += 1
            case e.HoldReleased() if event.instance == self.instance:
                self.hold_ends[event.reason] += 1
                self.held_us += min(event.held_us, max(event.at_us - self.began_us, 0))
            case e.HoldNoCandidate() if event.instance == self.instance:
                self.no_candidate += 1
            case e.DispatchSettled() | e.WorkerAdmitted() | e.WorkerDisconnected() if event.instance == self.instance:
                if not instance.workers:  # an empty fleet forgets what it could not run (X5)
                    self._judge_again()
                self._weigh(instance, event.endpoint)
            case e.Configured() if event.instance == self.instance:
                self._judge_again()
                for endpoint in {**self._workers, **instance.workers}:
                    self._weigh(instance, endpoint)
            case _:
                return False
        return True

    def _add(self, shard: Shard, operation_id: int, since_us: int | None) -> None:
        operation = shard.operations.get(operation_id)
        if operation is None:
            return
        pools = shard.instances[operation.instance].pools
        asked = shard.requirements[operation.asked_requirement_id or operation.requirement_id]
        cpu = next((amount for pool, amount in operation.demand.amounts if pools[pool] == CPU), 0)
        row = Waited(operation_id, operation.client_operation_id, asked, cpu, since_us)
        self.waits[operation_id] = row
        if since_us is not None:
            self._unjudged[operation_id] = row

    def _judge(self, shard: Shard, instance: Instance) -> None:
        """Take over what the core says of demands: it judges each one beside a fleet, at the end of the fact (X2-X5)."""
        unjudged, self._unjudged = self._unjudged, {}
        for operation_id, row in unjudged.items():
            operation = shard.operations.get(operation_id)
            if operation is None or row.could_run or operation.stage is Stage.FINISHED:
                continue
            if operation.stage is not Stage.QUEUED:  # the cache is asked first
                self._unjudged[operation_id] = row
                continue
            row.could_run = operation.requirement_id not in instance.unsatisfiable
            if not row.could_run:
                self._never[operation_id] = row

    def _judge_again(self) -> None:
        """What no worker could run so far may be runnable now."""
        self._unjudged |= self._never
        self._never = {}

    def _weigh(self, instance: Instance, endpoint: str) -> None:
        """Take over what a worker offers and what of it is taken."""
        offered, busy = self._workers.pop(endpoint, (0, 0))
        self._offered -= offered
        self._busy -= busy
        worker = instance.workers.get(endpoint)
        if worker is not None and CPU in instance.pools:
            pool = instance.pools.index(CPU)
            offered, free = max(worker.totals[pool], 0), max(worker.remaining[pool], 0)
            self._workers[endpoint] = offered, offered - free
            self._offered += offered
            self._busy += offered - free

    def _note_hold(self, instance: Instance) -> None:
        hold = instance.hold
        self._held_free = 0
        if hold is not None and CPU in instance.pools:
            self._held_free = max(hold.worker.remaining[instance.pools.index(CPU)], 0)
