"""Who holds how much of which worker, folded from the events in arithmetic of its own: nothing here is shared with the core.

The rules are the log's: a dispatch takes what its operation asks for; `OperationRequeued` and `OperationFinished` give it back, unless
`KillRequested` stands before, for then the run goes on paying until `DispatchSettled`; a worker that connects keeps the dispatches that
its admission lists, all others must have ended before it; a worker that is out holds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from events.events import (
    DispatchSettled,
    Event,
    KillRequested,
    OperationDispatched,
    OperationFinished,
    OperationQueued,
    OperationRequeued,
    RequirementDefined,
    WorkerAdmitted,
    WorkerDisconnected,
)
from events.payloads import requirements_of

POOLS = ("cpu_millis", "memory_kib")
INFLIGHT = "max_inflight"


@dataclass(frozen=True, slots=True)
class Excess:
    """After event `seq`, the runs of a worker held more of a pool than it has. The pool may be `max_inflight`."""

    seq: int
    endpoint: str
    pool: str
    held: int
    capacity: int

    def __str__(self) -> str:
        return f"after event {self.seq} {self.endpoint} pays for {self.held} {self.pool} of {self.capacity}"


@dataclass(slots=True)
class _Site:
    connection_id: int
    capacity: dict[str, int]
    max_inflight: int
    held: dict[int, dict[str, int]] = field(default_factory=dict)  # dispatch id to amounts


class Ledger:
    """The fold. Feed it with `add`, in log order; then `excesses` and `unexplained` are what must not be."""

    def __init__(self) -> None:
        self.excesses: list[Excess] = []
        self.unexplained: list[str] = []
        self._requirements: dict[int, dict[str, int]] = {}
        self._asked: dict[int, dict[str, int]] = {}  # operation id to amounts
        self._sites: dict[str, _Site] = {}
        self._revoked: set[int] = set()

    def add(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case RequirementDefined():
                pairs = dict(requirements_of(event.requirements))
                self._requirements[event.requirement_id] = {pool: int(pairs[pool]) for pool in POOLS if pool in pairs}
            case OperationQueued():
                asked = self._requirements.get(event.requirement_id)
                if asked is None:
                    self._wonder(event.seq, f"requirement {event.requirement_id} is used and was never defined")
                self._asked[event.operation_id] = asked or {}
            case WorkerAdmitted():
                self._admit(event)
            case WorkerDisconnected():
                self._leave(event)
            case OperationDispatched():
                self._dispatch(event)
            case KillRequested():
                self._revoke(event)
            case OperationRequeued() | OperationFinished() if event.dispatch_id:
                if event.dispatch_id not in self._revoked:
                    self._release(event.seq, event.endpoint, event.dispatch_id)
            case DispatchSettled():
                self._release(event.seq, event.endpoint, event.dispatch_id)
                self._revoked.discard(event.dispatch_id)

    def _admit(self, event: WorkerAdmitted) -> None:
        offered = dict(event.properties)
        capacity = {pool: int(offered[pool]) for pool in POOLS if pool in offered}
        before = self._sites.get(event.endpoint)
        held = before.held if before is not None else {}
        for dispatch_id in held:
            if dispatch_id not in event.kept:
                self._wonder(
                    event.seq, f"dispatch {dispatch_id} did not end before {event.endpoint} connected without it"
                )
        for dispatch_id in event.kept:
            if dispatch_id not in held:
                self._wonder(event.seq, f"{event.endpoint} keeps dispatch {dispatch_id}, which it does not hold")
        kept = {dispatch_id: amounts for dispatch_id, amounts in held.items() if dispatch_id in event.kept}
        self._sites[event.endpoint] = _Site(event.connection_id, capacity, event.max_inflight, kept)
        self._weigh(event.seq, event.endpoint)

    def _leave(self, event: WorkerDisconnected) -> None:
        site = self._sites.pop(event.endpoint, None)
        for dispatch_id in site.held if site is not None else ():
            if dispatch_id in self._revoked:
                self._revoked.discard(dispatch_id)  # its run is over with the worker
            else:
                self._wonder(event.seq, f"dispatch {dispatch_id} did not end before {event.endpoint} was out")

    def _dispatch(self, event: OperationDispatched) -> None:
        site = self._sites.get(event.endpoint)
        asked = self._asked.get(event.operation_id)
        if site is None or site.connection_id != event.connection_id:
            self._wonder(event.seq, f"{event.endpoint} got a dispatch on a connection that it does not have")
        elif asked is None:
            self._wonder(event.seq, f"operation {event.operation_id} was dispatched and never queued")
        else:
            site.held[event.dispatch_id] = asked
            self._weigh(event.seq, event.endpoint)

    def _revoke(self, event: KillRequested) -> None:
        site = self._sites.get(event.endpoint)
        if site is not None and event.dispatch_id in site.held:
            self._revoked.add(event.dispatch_id)
        elif event.operation_id:  # 0: a run that the worker lists and nobody knows
            self._wonder(
                event.seq, f"dispatch {event.dispatch_id} is to be killed on {event.endpoint}, which does not hold it"
            )

    def _release(self, seq: int, endpoint: str, dispatch_id: int) -> None:
        site = self._sites.get(endpoint)
        if site is None or site.held.pop(dispatch_id, None) is None:
            self._wonder(seq, f"dispatch {dispatch_id} ended on {endpoint}, which does not hold it")

    def _weigh(self, seq: int, endpoint: str) -> None:
        site = self._sites[endpoint]
        if site.max_inflight and len(site.held) > site.max_inflight:
            self.excesses.append(Excess(seq, endpoint, INFLIGHT, len(site.held), site.max_inflight))
        for pool in POOLS:
            # What a worker does not declare it does not have.
            held, capacity = sum(amounts.get(pool, 0) for amounts in site.held.values()), site.capacity.get(pool, 0)
            if held > capacity:
                self.excesses.append(Excess(seq, endpoint, pool, held, capacity))

    def _wonder(self, seq: int, what: str) -> None:
        self.unexplained.append(f"at event {seq} {what}")
