"""The event kinds that make up nearly all traffic, written out: several times faster than the tables of `fields.py`.

A writer reuses one message, since setting fields costs half of what building one does; it therefore belongs to one thread. Each leaves
every field of its message as the event has it. A test holds each to the plain form, byte for byte.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from events import events as e
from events.payloads import NOT_A_MESSAGE
from events.reasons import Outcome
from events.values import NO_DIGEST, NO_USAGE, Digest, Holding, QueueOrder, Usage
from proto.gen.headway.v1 import events_pb2

Write = Callable[[Any, int], bytes]
"""(event, leader_epoch) to the record without its chain."""

_OUTCOMES = {int(outcome): outcome for outcome in Outcome}


def _order_of(part: Any) -> QueueOrder:
    return QueueOrder(part.priority, part.time_us, part.share_of, part.cost_us)


def _ticked_writer() -> Write:
    message = events_pb2.Event()
    message.ticked.SetInParent()
    serialise = message.SerializeToString

    def write(event: e.Ticked, leader_epoch: int) -> bytes:
        message.seq = event.seq
        message.cause_offset = event.cause_offset
        message.at_us = event.at_us
        message.leader_epoch = leader_epoch
        return serialise()

    return write


def _queued_writer() -> Write:
    message = events_pb2.Event()
    part = message.operation_queued
    part.SetInParent()
    serialise = message.SerializeToString
    # What mostly stays the same from one operation to the next is set only when it does not.
    instance, requirement_id = part.instance, part.requirement_id
    digested = ordered = commanded = False
    seldom: tuple[Any, ...] = ("", "", False, False, False, 0, 0, 0, "", "", 0, 0)

    def write(event: e.OperationQueued, leader_epoch: int) -> bytes:
        nonlocal instance, requirement_id, digested, ordered, commanded, seldom
        message.seq = event.seq
        message.cause_offset = event.cause_offset
        message.at_us = event.at_us
        message.leader_epoch = leader_epoch
        if event.instance != instance:
            part.instance = event.instance
            instance = event.instance
        part.client_operation_id = event.client_operation_id
        found = (
            event.client_id,
            event.invocation_id,
            event.attached,
            event.cacheable,
            event.skip_cache_lookup,
            event.priority,
            event.timeout_us,
            event.expected_duration_us,
            event.target_id,
            event.mnemonic,
            event.clamped_us,
            event.asked_requirement_id,
        )
        if found != seldom:
            seldom = ()  # until all of them are set: one may not fit
            (
                part.client_id,
                part.invocation_id,
                part.attached,
                part.cacheable,
                part.skip_cache_lookup,
                part.priority,
                part.timeout_us,
                part.expected_duration_us,
                part.target_id,
                part.mnemonic,
                part.clamped_us,
                part.asked_requirement_id,
            ) = found
            seldom = found
        if event.action_digest is not NO_DIGEST and event.action_digest != NO_DIGEST:
            digested = True
            digest = part.action_digest
            digest.hash, digest.size_bytes = event.action_digest
        elif digested:
            part.ClearField("action_digest")
            digested = False
        part.queued_at_us = event.queued_at_us
        if event.requirement_id != requirement_id:
            part.requirement_id = event.requirement_id
            requirement_id = event.requirement_id
        if event.command:
            commanded = True
            try:
                part.command.ParseFromString(event.command)
            except DecodeError as error:
                raise ValueError(
                    f"field 'command' of {len(event.command)} bytes is refused: {NOT_A_MESSAGE}"
                ) from error
        elif commanded:
            part.ClearField("command")
            commanded = False
        if event.order is None:
            if ordered:
                part.ClearField("order")
                ordered = False
        else:
            ordered = True
            order = part.order
            order.priority, order.time_us, order.share_of, order.cost_us = event.order
        return serialise()

    return write


def _dispatched_writer() -> Write:
    message = events_pb2.Event()
    part = message.operation_dispatched
    part.SetInParent()
    serialise = message.SerializeToString
    overtook = held = False

    def write(event: e.OperationDispatched, leader_epoch: int) -> bytes:
        nonlocal overtook, held
        message.seq = event.seq
        message.cause_offset = event.cause_offset
        message.at_us = event.at_us
        message.leader_epoch = leader_epoch
        part.operation_id = event.operation_id
        part.endpoint = event.endpoint
        part.connection_id = event.connection_id
        if event.overtook is not None:
            part.overtook = event.overtook
            overtook = True
        elif overtook:
            part.ClearField("overtook")
            overtook = False
        part.backfilled = event.backfilled
        if held:
            part.ClearField("holders")
            part.ClearField("saved_bytes")
            held = False
        if event.holders or event.saved_bytes:
            held = True
            for endpoint, count in event.holders:
                part.holders.add(endpoint=endpoint, bytes=count)
            part.saved_bytes = event.saved_bytes
        return serialise()

    return write


def _accepted_writer() -> Write:
    message = events_pb2.Event()
    part = message.operation_accepted
    part.SetInParent()
    serialise = message.SerializeToString

    def write(event: e.OperationAccepted, leader_epoch: int) -> bytes:
        message.seq = event.seq
        message.cause_offset = event.cause_offset
        message.at_us = event.at_us
        message.leader_epoch = leader_epoch
        part.operation_id = event.operation_id
        part.dispatch_id = event.dispatch_id
        return serialise()

    return write


def _finished_writer() -> Write:
    message = events_pb2.Event()
    part = message.operation_finished
    part.SetInParent()
    serialise = message.SerializeToString
    used = False
    seldom: tuple[Any, ...] = (0, 0, "", b"", b"", 0, 0)

    def write(event: e.OperationFinished, leader_epoch: int) -> bytes:
        nonlocal used, seldom
        message.seq = event.seq
        message.cause_offset = event.cause_offset
        message.at_us = event.at_us
        message.leader_epoch = leader_epoch
        part.operation_id = event.operation_id
        part.dispatch_id = event.dispatch_id
        found = (
            event.outcome,
            event.exit_code,
            event.message,
            event.stdout_tail,
            event.stderr_tail,
            event.job_failures,
            event.worker_losses,
        )
        if found != seldom:
            seldom = ()  # until all of them are set: one may not fit
            (
                part.outcome,
                part.exit_code,
                part.message,
                part.stdout_tail,
                part.stderr_tail,
                part.job_failures,
                part.worker_losses,
            ) = found
            seldom = found
        if event.usage is not NO_USAGE and event.usage != NO_USAGE:
            used = True
            usage = part.usage
            usage.wall_us, usage.cpu_us, usage.peak_memory_kib = event.usage
        elif used:
            part.ClearField("usage")
            used = False
        part.endpoint = event.endpoint
        return serialise()

    return write


def _reported_writer() -> Write:
    message = events_pb2.Event()
    part = message.worker_reported
    part.SetInParent()
    serialise = message.SerializeToString

    def write(event: e.WorkerReported, leader_epoch: int) -> bytes:
        message.seq = event.seq
        message.cause_offset = event.cause_offset
        message.at_us = event.at_us
        message.leader_epoch = leader_epoch
        part.instance = event.instance
        part.endpoint = event.endpoint
        part.connection_id = event.connection_id
        if event.free_memory_kib is None:
            part.ClearField("free_memory_kib")
        else:
            part.free_memory_kib = event.free_memory_kib
        return serialise()

    return write


def writers() -> dict[type, Write]:
    """A new set of writers, one per kind; for one thread."""
    return {
        e.Ticked: _ticked_writer(),
        e.OperationQueued: _queued_writer(),
        e.OperationDispatched: _dispatched_writer(),
        e.OperationAccepted: _accepted_writer(),
        e.OperationFinished: _finished_writer(),
        e.WorkerReported: _reported_writer(),
    }


def _ticked(message: Any) -> e.Event:
    return e.Ticked(message.seq, message.at_us, message.cause_offset)


def _queued(message: Any) -> e.Event:
    part = message.operation_queued
    if part.HasField("action_digest"):
        found = part.action_digest
        digest = Digest(found.hash, found.size_bytes)
    else:
        digest = NO_DIGEST
    return e.OperationQueued(
        message.seq,
        message.at_us,
        message.cause_offset,
        part.instance,
        part.client_operation_id,
        part.requirement_id,
        part.priority,
        part.queued_at_us,
        part.client_id,
        part.invocation_id,
        part.attached,
        digest,
        part.cacheable,
        part.skip_cache_lookup,
        part.timeout_us,
        part.expected_duration_us,
        part.command.SerializeToString() if part.HasField("command") else b"",
        part.target_id,
        part.mnemonic,
        part.clamped_us,
        _order_of(part.order) if part.HasField("order") else None,
        part.asked_requirement_id,
    )


def _dispatched(message: Any) -> e.Event:
    part = message.operation_dispatched
    return e.OperationDispatched(
        message.seq,
        message.at_us,
        message.cause_offset,
        part.operation_id,
        part.endpoint,
        part.connection_id,
        part.overtook if part.HasField("overtook") else None,
        part.backfilled,
        tuple([Holding(held.endpoint, held.bytes) for held in part.holders]) if part.holders else (),
        part.saved_bytes,
    )


def _accepted(message: Any) -> e.Event:
    part = message.operation_accepted
    return e.OperationAccepted(message.seq, message.at_us, message.cause_offset, part.operation_id, part.dispatch_id)


def _finished(message: Any) -> e.Event | None:
    part = message.operation_finished
    outcome = _OUTCOMES.get(part.outcome)
    if outcome is None:
        return None  # the plain form says what is wrong
    if part.HasField("usage"):
        used = part.usage
        usage = Usage(used.wall_us, used.cpu_us, used.peak_memory_kib)
    else:
        usage = NO_USAGE
    return e.OperationFinished(
        message.seq,
        message.at_us,
        message.cause_offset,
        part.operation_id,
        part.dispatch_id,
        outcome,
        part.exit_code,
        part.message,
        part.stdout_tail,
        part.stderr_tail,
        usage,
        part.job_failures,
        part.worker_losses,
        part.endpoint,
    )


def _reported(message: Any) -> e.Event:
    part = message.worker_reported
    return e.WorkerReported(
        message.seq,
        message.at_us,
        message.cause_offset,
        part.instance,
        part.endpoint,
        part.connection_id,
        part.free_memory_kib if part.HasField("free_memory_kib") else None,
    )


READERS: dict[str, Callable[[Any], e.Event | None]] = {
    "ticked": _ticked,
    "operation_queued": _queued,
    "operation_dispatched": _dispatched,
    "operation_accepted": _accepted,
    "operation_finished": _finished,
    "worker_reported": _reported,
}
"""By the name of the oneof field; None is returned for a value this build does not know."""
