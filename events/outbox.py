"""What goes out in the same transaction as the events: placements for everybody, commands for workers.

Computed from the events of one fact and the rows right after them. Both are derived: nothing here is read back into the state.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from events import events as e
from events.config import SECOND_US
from events.facts import CancelRequested, Fact, WorkerConnected
from events.reasons import (
    ClientLeaving,
    DisconnectReason,
    IgnoreReason,
    KillCause,
    Outcome,
    PlacementEnd,
    RefuseReason,
    RejectReason,
)
from events.state import Dispatch, Instance, Operation, Shard, StableChunk
from proto.gen.headway.v1 import commands_pb2, placements_pb2


class Outbound(NamedTuple):
    """One record to send. `kind` is the message's name, `key` the endpoint (empty: it was never placed)."""

    topic_kind: Literal["placement", "command"]
    key: str
    kind: str
    instance: str
    seq: int
    value: bytes


_outbound = tuple.__new__  # half the time of the named tuple's own, twice in each life cycle
_CANCELLED = Outcome.CANCELLED  # looking a member up takes longer than what is done with it
_END_CANCELLED, _END_FINISHED = PlacementEnd.CANCELLED, PlacementEnd.FINISHED


USES = 4096
"""Records for which messages are reused before new ones are made."""


class _Messages(threading.local):
    """Messages that are used again, since setting fields costs half of what building one does; of each thread its own.

    A message keeps the memory of every text that was ever set in it until it is let go, so after `USES` records there are new ones.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with new messages."""
        self.left = USES
        self.placement = placements_pb2.Placement()
        self.placed = self.placement.action_placed
        self.placed.SetInParent()
        self.requirements: bytes | None = b""  # what `placed` holds
        self.digested = self.commanded = self.labelled = False
        self.end = placements_pb2.Placement()
        self.ended = self.end.placement_ended
        self.ended.SetInParent()


_messages = _Messages()


def outbox(shard: Shard, events: Iterable[e.Event], fact: Fact | None = None) -> list[Outbound]:
    """The records that follow from `events`, which `fact` has just caused in `shard`. Call it before the next `decide`."""
    out: list[Outbound] = []
    for event in events:
        derive = DERIVATIONS.get(type(event))
        if derive is not None:
            derive(shard, event, out, fact)
    return out


def _placed(shard: Shard, dispatch: Dispatch, redelivered: bool) -> Outbound:
    operation = dispatch.operation
    messages = _messages
    messages.left -= 1
    if not messages.left:
        messages.renew()
    placed = messages.placed
    placed.instance = operation.instance
    placed.operation_id = operation.operation_id
    placed.client_operation_id = operation.client_operation_id
    placed.dispatch_id = dispatch.dispatch_id
    placed.endpoint = dispatch.worker.endpoint
    placed.connection_id = dispatch.connection_id
    placed.queued_at_us = operation.queued_at_us
    placed.placed_at_us = dispatch.dispatched_at_us
    requirements = shard.requirements[operation.requirement_id]
    if requirements != messages.requirements:
        messages.requirements = None  # until they are read
        placed.requirements.ParseFromString(requirements)
        if not requirements:
            placed.ClearField("requirements")
        messages.requirements = requirements
    if messages.digested:
        placed.ClearField("action_digest")
        messages.digested = False
    if operation.action_digest.hash:
        messages.digested = True
        placed.action_digest.hash = operation.action_digest.hash
        placed.action_digest.size_bytes = operation.action_digest.size_bytes
    placed.timeout_us = operation.timeout_us
    placed.expected_duration_us = operation.expected_duration_us
    if operation.command:
        messages.commanded = True
        placed.command.ParseFromString(operation.command)
    elif messages.commanded:
        placed.ClearField("command")
        messages.commanded = False
    if operation.target_id or operation.mnemonic or messages.labelled:
        messages.labelled = True
        placed.target_id = operation.target_id
        placed.mnemonic = operation.mnemonic
    placed.attempt = (
        operation.job_failures + operation.worker_losses + operation.free_requeues + operation.escalations + 1
    )
    placed.redelivered = redelivered
    placed.cacheable = operation.cacheable
    return _outbound(
        Outbound,
        (
            "placement",
            dispatch.worker.endpoint,
            "ActionPlaced",
            operation.instance,
            dispatch.dispatch_id,
            messages.placement.SerializeToString(),
        ),
    )


def _on_dispatched(shard: Shard, event: e.OperationDispatched, out: list[Outbound], fact: Fact | None) -> None:
    dispatch = shard.operations[event.operation_id].dispatch
    assert dispatch is not None  # nothing ends a dispatch in the step that makes it
    out.append(_placed(shard, dispatch, redelivered=False))


def _on_requeued(shard: Shard, event: e.OperationRequeued, out: list[Outbound], fact: Fact | None) -> None:
    placement = placements_pb2.Placement()
    ended = placement.placement_ended
    ended.end = PlacementEnd.REQUEUED
    ended.cause = event.cause
    _end(shard, event, ended, out, placement)


def _on_finished(shard: Shard, event: e.OperationFinished, out: list[Outbound], fact: Fact | None) -> None:
    messages = _messages
    messages.left -= 1
    if not messages.left:
        messages.renew()
    placement, ended = messages.end, messages.ended
    ended.Clear()
    ended.end = _END_CANCELLED if event.outcome == _CANCELLED else _END_FINISHED
    ended.outcome = event.outcome
    ended.exit_code = event.exit_code
    _end(shard, event, ended, out, placement)


def _end(
    shard: Shard,
    event: e.OperationRequeued | e.OperationFinished,
    ended: placements_pb2.PlacementEnded,
    out: list[Outbound],
    placement: placements_pb2.Placement,
) -> None:
    """One record for each client, under its own id (J2); none for a client that has said it no longer waits."""
    operation = shard.operations[event.operation_id]
    ended.instance = operation.instance
    ended.operation_id = event.operation_id
    ended.dispatch_id = event.dispatch_id
    ended.endpoint = event.endpoint
    ended.seq = event.seq
    ended.ended_at_us = event.at_us
    if event.message:
        ended.message = event.message
    for client_operation_id in _told(operation):
        ended.client_operation_id = client_operation_id
        record = placement.SerializeToString()
        out.append(
            _outbound(Outbound, ("placement", event.endpoint, "PlacementEnded", operation.instance, event.seq, record))
        )


def _told(operation: Operation) -> list[str]:
    if operation.clients is None:
        return [operation.client_operation_id]
    told = [name for name, client in operation.clients.items() if client.left is not ClientLeaving.GONE]
    return told or [operation.client_operation_id]  # its worker is told in any case


def _on_client_left(shard: Shard, event: e.ClientLeft, out: list[Outbound], fact: Fact | None) -> None:
    """A client that cancels what others wait for, too, hears that it ended for this client."""
    if not isinstance(fact, CancelRequested):
        return
    placement = placements_pb2.Placement()
    ended = placement.placement_ended
    ended.instance = event.instance
    ended.operation_id = event.operation_id
    ended.client_operation_id = event.client_operation_id
    ended.end = PlacementEnd.CANCELLED
    ended.outcome = Outcome.CANCELLED
    ended.seq = event.seq
    ended.ended_at_us = event.at_us
    out.append(Outbound("placement", "", "PlacementEnded", event.instance, event.seq, placement.SerializeToString()))


def _command(instance: str, endpoint: str, connection_id: int, seq: int) -> commands_pb2.WorkerCommand:
    return commands_pb2.WorkerCommand(instance=instance, endpoint=endpoint, connection_id=connection_id, seq=seq)


def _send(command: commands_pb2.WorkerCommand, kind: str, out: list[Outbound]) -> None:
    out.append(Outbound("command", command.endpoint, kind, command.instance, command.seq, command.SerializeToString()))


def _kill(
    instance: str,
    endpoint: str,
    connection_id: int,
    seq: int,
    operation_id: int,
    dispatch_id: int,
    cause: KillCause,
    out: list[Outbound],
) -> None:
    command = _command(instance, endpoint, connection_id, seq)
    command.kill_requested.operation_id = operation_id
    command.kill_requested.dispatch_id = dispatch_id
    command.kill_requested.cause = cause
    _send(command, "KillRequested", out)


def _on_kill(shard: Shard, event: e.KillRequested, out: list[Outbound], fact: Fact | None) -> None:
    worker = shard.instances[event.instance].workers.get(event.endpoint)
    if worker is not None:
        _kill(
            event.instance,
            event.endpoint,
            worker.connection_id,
            event.seq,
            event.operation_id,
            event.dispatch_id,
            event.cause,
            out,
        )


def _on_admitted(shard: Shard, event: e.WorkerAdmitted, out: list[Outbound], fact: Fact | None) -> None:
    instance = shard.instances[event.instance]
    command = _command(event.instance, event.endpoint, event.connection_id, event.seq)
    command.admitted.kept.extend(event.kept)
    command.admitted.worker_timeout_us = instance.config.worker_timeout_s * SECOND_US
    command.admitted.small_blob_mirror = instance.config.locality.small_blob_mirror
    _send(command, "WorkerAdmitted", out)
    kept = dict.fromkeys(event.kept)
    running = instance.workers[event.endpoint].running
    _redeliver(shard, [dispatch for dispatch in running.values() if dispatch.dispatch_id in kept], event.seq, out)
    _send_due_chunks(instance, event.endpoint, event.connection_id, event.seq, out)


def _redeliver(shard: Shard, dispatches: Iterable[Dispatch], seq: int, out: list[Outbound]) -> None:
    """Write every unsettled placement again with its own id, and every kill: a worker keeps no position."""
    for dispatch in dispatches:
        worker = dispatch.worker
        if dispatch.revoked:
            _kill(
                worker.instance,
                worker.endpoint,
                worker.connection_id,
                seq,
                dispatch.operation_id,
                dispatch.dispatch_id,
                KillCause.NOT_CURRENT,
                out,
            )
        else:
            out.append(_placed(shard, dispatch, redelivered=True))


def _on_blobs_stable(shard: Shard, event: e.BlobsStable, out: list[Outbound], fact: Fact | None) -> None:
    """One record for every worker of the instance (S-2): they all read the partition. Workers that connect later need none."""
    chunk = shard.instances[event.instance].stable.get(event.seq)
    if chunk is not None:
        _send_chunk(chunk, _command(event.instance, "", 0, event.seq), out)


def _on_acknowledged(shard: Shard, event: e.BlobsStableAcknowledged, out: list[Outbound], fact: Fact | None) -> None:
    _send_due_chunks(shard.instances[event.instance], event.endpoint, event.connection_id, event.seq, out)


def _on_chunks_dropped(shard: Shard, event: e.StableChunksDropped, out: list[Outbound], fact: Fact | None) -> None:
    instance = shard.instances[event.instance]
    connection_id = instance.endpoints[event.endpoint].connection_id
    _send_due_chunks(instance, event.endpoint, connection_id, event.seq, out)


def _send_due_chunks(instance: Instance, name: str, connection_id: int, seq: int, out: list[Outbound]) -> None:
    """Chunks that the endpoint has not acknowledged, again, in order (S-5)."""
    for chunk_seq in instance.endpoints[name].due:
        _send_chunk(instance.stable[chunk_seq], _command(instance.name, name, connection_id, seq), out)


def _send_chunk(chunk: StableChunk, command: commands_pb2.WorkerCommand, out: list[Outbound]) -> None:
    part = command.blobs_stable
    part.chunk_seq = chunk.seq
    part.broadcast = chunk.broadcast
    part.sequence = chunk.sequence
    part.last = chunk.last
    part.store = chunk.store
    part.digests.ParseFromString(chunk.digests)
    _send(command, "BlobsStable", out)


def _on_disconnected(shard: Shard, event: e.WorkerDisconnected, out: list[Outbound], fact: Fact | None) -> None:
    if event.reason != DisconnectReason.GONE:  # one that left does not listen
        command = _command(event.instance, event.endpoint, event.connection_id, event.seq)
        command.evicted.reason = event.reason
        _send(command, "WorkerEvicted", out)


def _on_ignored(shard: Shard, event: e.FactIgnored, out: list[Outbound], fact: Fact | None) -> None:
    """A worker that speaks on a connection nobody knows is told so, or it would never connect again."""
    connection_id = getattr(fact, "connection_id", 0)
    if connection_id and event.reason == IgnoreReason.UNKNOWN_WORKER:
        command = _command(event.instance, event.key, connection_id, event.seq)
        command.evicted.reason = DisconnectReason.TIMEOUT
        _send(command, "WorkerEvicted", out)


REFUSALS = {
    RejectReason.UNKNOWN_INSTANCE: RefuseReason.UNKNOWN_INSTANCE,
    RejectReason.INCOMPATIBLE_BUILD: RefuseReason.INCOMPATIBLE_BUILD,
}
"""What a refused worker is told; anything else is a property that is no number."""


def _on_rejected(shard: Shard, event: e.FactRejected, out: list[Outbound], fact: Fact | None) -> None:
    if isinstance(fact, WorkerConnected):
        command = _command(event.instance, fact.endpoint, fact.connection_id, event.seq)
        command.refused.reason = REFUSALS.get(event.reason, RefuseReason.INVALID_PROPERTY)
        command.refused.field = event.field
        command.refused.value = event.value
        _send(command, "WorkerRefused", out)


def _on_elected(shard: Shard, event: e.LeaderElected, out: list[Outbound], fact: Fact | None) -> None:
    for instance in shard.instances.values():
        for worker in instance.workers.values():
            _redeliver(shard, worker.running.values(), event.seq, out)


DERIVATIONS: dict[type, Callable[[Shard, Any, list[Outbound], Fact | None], None]] = {
    e.OperationDispatched: _on_dispatched,
    e.OperationRequeued: _on_requeued,
    e.OperationFinished: _on_finished,
    e.KillRequested: _on_kill,
    e.ClientLeft: _on_client_left,
    e.WorkerAdmitted: _on_admitted,
    e.BlobsStable: _on_blobs_stable,
    e.BlobsStableAcknowledged: _on_acknowledged,
    e.StableChunksDropped: _on_chunks_dropped,
    e.WorkerDisconnected: _on_disconnected,
    e.FactIgnored: _on_ignored,
    e.FactRejected: _on_rejected,
    e.LeaderElected: _on_elected,
}
