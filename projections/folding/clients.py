"""What changes the rows of an operation's clients: they join, are heard, and leave."""

from collections.abc import Callable
from typing import Any

from events import events as e
from projections import keys
from projections.row_access import client_key, operation_at
from projections.table import MissingRow, Table
from proto.gen.headway.v1.reasons_pb2 import CLIENT_LEAVING_UNSPECIFIED
from proto.gen.headway.v1.rows_pb2 import ClientRow, OperationRow


def first_client(row: OperationRow, heard_us: int) -> ClientRow:
    """The client that queued the operation."""
    return ClientRow(
        client_operation_id=row.client_operation_id,
        client_id=row.client_id,
        attached=row.attached,
        last_heard_us=heard_us,
    )


def client_of(row: OperationRow, client_operation_id: str) -> ClientRow | None:
    """The client of the operation with this id, or None."""
    return next((client for client in row.clients if client.client_operation_id == client_operation_id), None)


def _operation_joined(table: Table, event: e.OperationJoined) -> None:
    key, row = operation_at(table, event.operation_id)
    if not row.clients:
        row.clients.append(first_client(row, row.queued_at_us))
    row.clients.add(
        client_operation_id=event.client_operation_id,
        client_id=event.client_id,
        attached=event.attached,
        last_heard_us=event.at_us,
    )
    table.put(key, row)
    held = client_key(table, row.instance, event.client_operation_id)
    table.put(held, keys.number(row.operation_id))


def _client_heard(table: Table, event: e.ClientHeard) -> None:
    held = client_key(table, event.instance, event.client_operation_id)
    identity = table.find_bytes(held)
    if identity is None:
        raise MissingRow(f"the state table has no row {keys.readable(held)}")
    key = table.key(keys.OPERATION, identity)
    row = table.row(key, OperationRow)
    client = client_of(row, event.client_operation_id)
    if client is None:
        raise MissingRow(f"operation {row.operation_id} has no client {event.client_operation_id!r} in the state table")
    client.last_heard_us = max(client.last_heard_us, event.at_us)
    client.left = CLIENT_LEAVING_UNSPECIFIED
    table.put(key, row)


def _client_left(table: Table, event: e.ClientLeft) -> None:
    key, row = operation_at(table, event.operation_id)
    client = client_of(row, event.client_operation_id)
    if client is None:
        raise MissingRow(f"operation {row.operation_id} has no client {event.client_operation_id!r} in the state table")
    client.left = event.reason
    table.put(key, row)


CLIENT_FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.OperationJoined: _operation_joined,
    e.ClientHeard: _client_heard,
    e.ClientLeft: _client_left,
}
