"""One step: everything one fact causes. It emits events and advances the rows with each, so that the next rule sees them."""

from dataclasses import dataclass, field
from typing import Any

from events.events import Event, FactIgnored, FactRejected, RequirementDefined
from events.evolve import evolve
from events.holders import MOST_HOLDERS, NO_HOLDERS, Holders
from events.reasons import IgnoreReason, RejectReason
from events.state import Instance, Operation, Shard, Worker
from events.values import Holding

VALUE_SHOWN = 128
"""Characters of an offending value that stand in an event; the whole record is in the dead letters."""


@dataclass(slots=True)
class Step:
    """The fact's envelope and the events so far."""

    shard: Shard
    offset: int
    append_us: int
    now_us: int
    kind: str  # of the fact
    key: str
    holders: Holders = NO_HOLDERS
    told: int = 0  # so many of the events the holders have seen
    events: list[Event] = field(default_factory=list)

    def emit(self, kind: type, *values: Any, **named: Any) -> None:
        """Make the next event from the fields after the envelope, apply it, keep it."""
        shard = self.shard
        event = kind(shard.seq + 1, self.now_us, self.offset, *values, **named)
        evolve(shard, event)
        self.events.append(event)

    def holders_of(self, operation: Operation) -> tuple[Holding, ...]:
        """Who holds the operation's inputs after every event so far, those of this very fact included: at most 8, the most bytes first."""
        self.tell_holders()
        return self.holders.most_bytes(operation)[:MOST_HOLDERS]

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        """How many bytes of the operation's inputs the endpoint holds, after every event so far."""
        self.tell_holders()
        return self.holders.bytes_at(operation, endpoint)

    def tell_holders(self) -> None:
        """Let the holders see the events they have not seen."""
        if self.told < len(self.events):
            self.holders.see(self.events[self.told :])
            self.told = len(self.events)

    def intern(self, requirements: bytes) -> int:
        """The number of these canonical requirements; they get one at their first use."""
        requirement_id = self.shard.requirement_ids.get(requirements)
        if requirement_id is None:
            requirement_id = len(self.shard.requirements) + 1
            self.emit(RequirementDefined, requirement_id, requirements)
        return requirement_id

    def ignore(self, reason: IgnoreReason, instance: str = "", key: str = "", dispatch_id: int = 0) -> None:
        """The fact changes nothing."""
        self.emit(FactIgnored, self.kind, reason, instance, key or self.key, dispatch_id)

    def reject(
        self, reason: RejectReason, field: str, value: str, rule: str, instance: str = "", key: str = ""
    ) -> None:
        """The fact is invalid."""
        shown = value if len(value) <= VALUE_SHOWN else value[: VALUE_SHOWN - 1] + "…"
        self.emit(FactRejected, self.kind, reason, field, shown, rule, instance, key or self.key)

    def instance_of(self, name: str, key: str) -> Instance | None:
        """The instance, or None after the fact was rejected."""
        instance = self.shard.instances.get(name)
        if instance is None:
            known = ", ".join(sorted(self.shard.instances)) or "none"
            rule = f"an instance of this shard ({known})"
            self.reject(RejectReason.UNKNOWN_INSTANCE, "instance", name, rule, name, key)
        return instance

    def worker_of(
        self, name: str, endpoint: str, connection_id: int | None = None, dispatch_id: int = 0
    ) -> Worker | None:
        """The worker at the endpoint (and on this connection, where given), or None after the fact was ignored or rejected."""
        instance = self.instance_of(name, endpoint)
        if instance is None:
            return None
        worker = instance.workers.get(endpoint)
        if worker is None:
            self.ignore(IgnoreReason.UNKNOWN_WORKER, name, endpoint, dispatch_id)
        elif connection_id is not None and worker.connection_id != connection_id:
            self.ignore(IgnoreReason.STALE_CONNECTION, name, endpoint, dispatch_id)
        else:
            return worker
        return None

    def operation_of(self, name: str, operation_id: int | None, client_operation_id: str) -> Operation | None:
        """The operation named by either id, or None after the fact was ignored or rejected."""
        instance = self.instance_of(name, client_operation_id)
        if instance is None:
            return None
        operation = (
            instance.by_client.get(client_operation_id)
            if operation_id is None
            else self.shard.operations.get(operation_id)
        )
        if operation is None or operation.instance != name:
            self.ignore(IgnoreReason.UNKNOWN_OPERATION, name, client_operation_id)
            return None
        return operation
