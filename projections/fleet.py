"""Workers and their ledger, from rows. What a worker has left is not stored anywhere: it follows from what it declares, what it
runs (revoked runs included) and the configuration in force."""

from collections.abc import Iterator
from typing import Any

from events.config import DEFAULT_CONFIG, SimpleScheduler, parse_config, resolve
from events.fitting import UNDECLARED, compile_demand, worker_totals
from projections import keys
from projections.row_access import requirements_of_row
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, WorkerRow


def config_of(instance: InstanceRow) -> SimpleScheduler:
    """The options in force: those of the innermost scheduler, which the rules read."""
    return resolve(parse_config(instance.config_json)).base if instance.config_json else DEFAULT_CONFIG


class Ledger:
    """Amounts per pool under one instance's configuration; demands are compiled once per requirement id."""

    def __init__(self, table: Table, instance: InstanceRow) -> None:
        self._table = table
        self.config = config_of(instance)
        self.pools = self.config.pools()
        self._amounts: dict[int, dict[str, int]] = {}

    def charged(self, requirement_id: int) -> dict[str, int]:
        """What one run with these requirements is charged, by pool."""
        amounts = self._amounts.get(requirement_id)
        if amounts is None:
            pairs = requirements_of_row(self._table, requirement_id)
            demand = compile_demand(requirement_id, pairs, self.config, self.pools)
            amounts = {self.pools[pool]: amount for pool, amount in demand.amounts}
            self._amounts[requirement_id] = amounts
        return amounts

    def totals(self, worker: WorkerRow) -> dict[str, int]:
        """What the worker declares, by pool; pools it does not declare are absent."""
        properties = tuple((item.name, item.value) for item in worker.properties)
        totals = worker_totals(properties, self.pools)
        return {name: total for name, total in zip(self.pools, totals, strict=True) if total != UNDECLARED}

    def remaining(self, worker: WorkerRow) -> dict[str, int]:
        """What the worker has left, by declared pool."""
        left = self.totals(worker)
        for run in worker.running:
            for name, amount in self.charged(run.requirement_id).items():
                if name in left:
                    left[name] -= amount
        return left

    def lent(self, worker: WorkerRow) -> int | None:
        """What it had lent of the veto's property when it reported its free memory (W8); None: no veto, or no report."""
        if self.config.live_memory_veto is None or not worker.HasField("free_memory_kib"):
            return None
        return worker.lent_kib


def instance_rows(table: Table, instance: str | None = None) -> Iterator[InstanceRow]:
    """The instances of the shard by name, or only the one asked for (none when it is not here)."""
    if instance is not None:
        row = table.find(table.key(keys.INSTANCE, instance.encode()), InstanceRow)
        if row is not None:
            yield row
        return
    for _, value in table.scan(table.key(keys.INSTANCE)):
        yield InstanceRow.FromString(value)


def worker_rows(table: Table, instance: str) -> Iterator[WorkerRow]:
    """The connected workers of an instance, by endpoint."""
    for _, value in table.scan(table.key(keys.WORKER, keys.named(instance))):
        yield WorkerRow.FromString(value)


def workers(table: Table, instance: str | None = None) -> list[dict[str, Any]]:
    """The connected workers, by instance and endpoint: what they declare, run, have left, and whether they take work.

    One that is held has `reserved_for`, the operation's id; no other has the field.
    """
    answer = []
    for row in instance_rows(table, instance):
        ledger = Ledger(table, row)
        held = row.hold if row.HasField("hold") else None
        for worker in worker_rows(table, row.name):
            said = _worker(table, worker, ledger)
            if held is not None and held.endpoint == worker.endpoint:
                said["reserved_for"] = f"{row.name}/op-{held.operation_id}"
            answer.append(said)
    return answer


def _worker(table: Table, row: WorkerRow, ledger: Ledger) -> dict[str, Any]:
    unaccepted = sum(not run.accepted and not run.revoked for run in row.running)
    most = ledger.config.max_unaccepted_dispatches
    full = (row.max_inflight != 0 and len(row.running) >= row.max_inflight) or (most != 0 and unaccepted >= most)
    return {
        "instance": row.instance,
        "endpoint": row.endpoint,
        "accepts": not (row.draining or row.paused or full),
        "draining": row.draining,
        "paused": row.paused,
        "resume_at_kib": row.resume_at_kib or None,
        "full": full,
        "properties": [{"name": item.name, "value": item.value} for item in row.properties],
        "totals": ledger.totals(row),
        "remaining": ledger.remaining(row),
        "max_inflight": row.max_inflight,
        "unaccepted": unaccepted,
        "admits_when_idle": row.admits_when_idle,
        "blobs_url": row.blobs_url or None,
        "free_memory_kib": row.free_memory_kib if row.HasField("free_memory_kib") else None,
        "lent_kib": ledger.lent(row),
        "idle_free_kib": row.idle_free_kib if row.HasField("idle_free_kib") else None,
        "idle_declined_kib": row.idle_declined_kib if row.HasField("idle_declined_kib") else None,
        "running": [
            {
                "dispatch_id": run.dispatch_id,
                "operation_id": run.operation_id,
                "id": f"{row.instance}/op-{run.operation_id}",
                "since_us": run.since_us,
                "accepted": run.accepted,
                "revoked": run.revoked,
                "kill_requested_at_us": run.kill_requested_at_us or None,
                "heard_at_us": run.heard_at_us,
                "amounts": ledger.charged(run.requirement_id),
            }
            for run in row.running
        ],
        "dispatches": row.dispatches,
        "connected_at_us": row.connected_at_us,
        "last_seen_us": row.last_seen_us,
        "silent_us": max(0, table.shard.now_us - row.last_seen_us),
        "recency": row.recency,
        "boot_epoch": row.boot_epoch,
        "connection_id": row.connection_id,
        "build": row.build,
    }
