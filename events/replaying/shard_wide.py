"""Frequent events that are nobody's life, folded straight from the message: ticks, and keepalives of workers and clients."""

from __future__ import annotations

from typing import Any

from events.evolving.clients import hear
from events.evolving.workers import report
from events.state import Shard


def ticked(shard: Shard, message: Any, seq: int, at_us: int) -> bool:
    """`Ticked`: only time passes."""
    found: bool = message.HasField("ticked")
    return found


def worker_reported(shard: Shard, message: Any, seq: int, at_us: int) -> bool:
    """`WorkerReported`."""
    part = message.worker_reported
    instance = shard.instances.get(part.instance)
    worker = None if instance is None else instance.workers.get(part.endpoint)
    if instance is None or worker is None:
        return False
    report(shard, instance, worker, at_us, part.free_memory_kib if part.HasField("free_memory_kib") else None)
    return True


def client_heard(shard: Shard, message: Any, seq: int, at_us: int) -> bool:
    """`ClientHeard`."""
    part = message.client_heard
    instance = shard.instances.get(part.instance)
    name = part.client_operation_id
    operation = None if instance is None else instance.by_client.get(name)
    if instance is None or operation is None or operation.clients is None or name not in operation.clients:
        return False
    hear(shard, instance, operation, operation.clients[name], at_us)
    return True
