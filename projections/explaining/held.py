"""What a hold is for and what it costs now: the held worker, what it still runs, what it keeps idle, when it is given back."""

from typing import Any

from events.config import SECOND_US, SimpleScheduler
from events.reasons import sentence
from projections.explaining.queueing import brief
from projections.explaining.standings import Standings
from projections.row_access import operation_at, worker_at
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, RunRow, WorkerRow

LONGEST = 5
"""Runs on the held worker that are named, those first that have run longest; the rest is a count."""


def held_worker(table: Table, instance: InstanceRow) -> dict[str, Any]:
    """The worker that the instance holds, as it drains. The instance has a hold.

    `short` is what it still lacks for the operation, `idle` what it keeps free for it meanwhile: the cost.
    """
    hold = instance.hold
    _, operation = operation_at(table, hold.operation_id)
    _, worker = worker_at(table, instance.name, hold.endpoint)
    standings = Standings(table, instance, operation)
    found = standings.assess(worker)
    return {
        "endpoint": worker.endpoint,
        "standing": found.standing.name.lower(),
        "sentence": sentence(found.standing),
        "short": found.short(standings.asked),
        "idle": [
            {"name": name, "amount": max(0, min(asked, found.remaining[name]))}
            for name, asked in standings.asked.items()
            if name in found.remaining
        ],
        "running": len(worker.running),
        "longest_runs": [_run(table, run) for run in sorted(worker.running, key=lambda run: run.since_us)[:LONGEST]],
        **_memory(standings, found.worker),
    }


def given_back_at_us(instance: InstanceRow, config: SimpleScheduler) -> int | None:
    """When `max_hold_s` ends the hold; None: it stands until it ends by itself."""
    policy = config.hold
    if policy is None or policy.max_hold_s is None:
        return None
    return int(instance.hold.made_at_us) + policy.max_hold_s * SECOND_US


def _run(table: Table, run: RunRow) -> dict[str, Any]:
    _, row = operation_at(table, run.operation_id)
    expected_us = row.expected_duration_us
    return {
        **brief(table, row),
        "dispatch_id": run.dispatch_id,
        "since_us": run.since_us,
        "ran_us": max(0, table.shard.now_us - run.since_us),
        "expected_end_us": run.since_us + expected_us if expected_us else None,
        "revoked": run.revoked,
    }


def _memory(standings: Standings, worker: WorkerRow) -> dict[str, Any]:
    """Under the live memory veto: what the worker is expected to report free once it has drained (H10, H12)."""
    if standings.config.live_memory_veto is None or not worker.HasField("free_memory_kib"):
        return {"expected_free_kib": None}
    expected_kib = worker.free_memory_kib + worker.lent_kib
    if worker.HasField("idle_free_kib"):
        expected_kib = min(expected_kib, worker.idle_free_kib)
    return {"expected_free_kib": expected_kib}
