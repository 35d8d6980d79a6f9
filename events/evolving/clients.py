"""Folds of who waits for an operation: clients join, are heard and leave (J1-J7, C1-C5)."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.indexing import arm_client
from events.reasons import ClientLeaving
from events.state import Client, Instance, Operation, Shard


def _operation_joined(shard: Shard, event: e.OperationJoined) -> None:
    operation = shard.operations[event.operation_id]
    instance = shard.instances[operation.instance]
    if operation.clients is None:
        first = Client(operation.client_operation_id, operation.client_id, False, operation.queued_at_us)
        operation.clients = {first.client_operation_id: first}
    client = Client(event.client_operation_id, event.client_id, event.attached, event.at_us)
    operation.clients[event.client_operation_id] = client
    instance.by_client[event.client_operation_id] = operation
    if shard.live and event.attached:
        arm_client(shard, instance, operation, client)


def _client_heard(shard: Shard, event: e.ClientHeard) -> None:
    instance = shard.instances[event.instance]
    operation = instance.by_client[event.client_operation_id]
    hear(shard, instance, operation, _client(operation, event.client_operation_id), event.at_us)


def hear(shard: Shard, instance: Instance, operation: Operation, client: Client, at_us: int) -> None:
    """The client waits for the operation, as it said at this time; one that had left is back."""
    client.last_heard_us = max(client.last_heard_us, at_us)
    if client.left:
        client.left = ClientLeaving.UNSPECIFIED
        if shard.live:
            arm_client(shard, instance, operation, client)


def _client_left(shard: Shard, event: e.ClientLeft) -> None:
    operation = shard.operations[event.operation_id]
    _client(operation, event.client_operation_id).left = event.reason


def _client(operation: Operation, client_operation_id: str) -> Client:
    assert operation.clients is not None, f"operation {operation.operation_id} keeps no clients"
    return operation.clients[client_operation_id]


CLIENTS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.OperationJoined: _operation_joined,
    e.ClientHeard: _client_heard,
    e.ClientLeft: _client_left,
}
