"""Rows by what they are called: what the folds look up and change."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter

from events import events as e
from events.codec import requirements_of
from projections import keys
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, OperationRow, RunRow, WorkerRow

_dispatch_id = attrgetter("dispatch_id")


def instance_at(table: Table, name: str) -> tuple[bytes, InstanceRow]:
    """The key and row of an instance. Raises MissingRow."""
    key = table.prefix + keys.of_instance(name)
    return key, table.row(key, InstanceRow)


def operation_at(table: Table, operation_id: int) -> tuple[bytes, OperationRow]:
    """The key and row of an operation. Raises MissingRow."""
    key = table.prefix + keys.OPERATION + operation_id.to_bytes(8, "big")
    return key, table.row(key, OperationRow)


def requirements_of_row(table: Table, requirement_id: int) -> tuple[tuple[str, str], ...]:
    """What a requirement id stands for, as (name, value) pairs sorted by name."""
    stored = table.find_bytes(table.key(keys.REQUIREMENT, requirement_id.to_bytes(4, "big")))
    return requirements_of(stored) if stored else ()


def named_values(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Requirements or properties as JSON has them."""
    return [{"name": name, "value": value} for name, value in pairs]


def worker_key(table: Table, instance: str, endpoint: str) -> bytes:
    """Where a worker's row stands."""
    return table.prefix + keys.of_worker(instance, endpoint)


def worker_at(table: Table, instance: str, endpoint: str) -> tuple[bytes, WorkerRow]:
    """The key and row of a connected worker. Raises MissingRow."""
    key = table.prefix + keys.of_worker(instance, endpoint)
    return key, table.row(key, WorkerRow)


def find_worker(table: Table, instance: str, endpoint: str) -> WorkerRow | None:
    """The row of a worker, or None where it is not connected."""
    return table.find(worker_key(table, instance, endpoint), WorkerRow)


def queue_key(table: Table, row: OperationRow) -> bytes:
    """An operation's place in the queue: by priority and queued time, or as fairness or aging put it."""
    if row.HasField("order"):
        place = keys.queue_place(row.order.priority, row.order.time_us, row.operation_id)
    else:
        place = keys.queue_place(row.priority, row.queued_at_us, row.operation_id)
    return table.prefix + keys.QUEUED + keys.named(row.instance) + place


def queued_rows(table: Table, instance: str, after: bytes = b"") -> Iterator[OperationRow]:
    """Those that wait in an instance's queue, in order; with `after`, a `queue_key`, those behind that place."""
    for _, identity in table.scan(table.key(keys.QUEUED, keys.named(instance)), after):
        yield table.row(table.key(keys.OPERATION, identity), OperationRow)


def client_key(table: Table, instance: str, client_operation_id: str) -> bytes:
    """Where the holder of a client_operation_id stands."""
    return table.prefix + keys.CLIENT + keys.named(instance) + client_operation_id.encode()


def client_operation_ids(row: OperationRow) -> list[str]:
    """The ids an operation is known by, the first one's first."""
    return [client.client_operation_id for client in row.clients] or [row.client_operation_id]


def run_of(worker: WorkerRow, dispatch_id: int) -> RunRow | None:
    """The run with this id on the worker, or None."""
    at = _where(worker, dispatch_id)
    return None if at is None else worker.running[at]


def _where(worker: WorkerRow, dispatch_id: int) -> int | None:
    running = worker.running
    at = bisect_left(running, dispatch_id, key=_dispatch_id)  # they stand by dispatch_id
    return at if at < len(running) and running[at].dispatch_id == dispatch_id else None


def settle(worker: WorkerRow, dispatch_id: int) -> None:
    """The worker pays no more for this run."""
    at = _where(worker, dispatch_id)
    if at is not None:
        del worker.running[at]


def promote(worker: WorkerRow, event: e.Event) -> None:
    """The worker is the most recent one, and was heard."""
    worker.recency = event.seq
    if worker.last_seen_us < event.at_us:
        worker.last_seen_us = event.at_us
