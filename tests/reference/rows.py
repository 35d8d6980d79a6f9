"""The rows of a shard as plain values: what two states must agree on, indexes left out."""

from typing import Any

from events.state import Operation, Report, Shard, Stage


def operation_row(operation: Operation) -> dict[str, Any]:
    """Every field that is a fold of events."""
    skipped = ("demand", "dispatch", "index")
    row = {name: getattr(operation, name) for name in operation.__slots__ if name not in skipped}
    row["amounts"] = (
        None if operation.stage is Stage.FINISHED else operation.demand.amounts
    )  # it asks for nothing any more
    row["dispatch_id"] = operation.dispatch.dispatch_id if operation.dispatch else None
    return row


def plain_row(row: Any) -> dict[str, Any]:
    """Every field of a row that refers to no other row; keys that stand for an ordered set as a list, a row within it like itself."""
    values = {name: getattr(row, name) for name in row.__slots__}
    return {
        name: list(value) if isinstance(value, dict) else plain_row(value) if isinstance(value, Report) else value
        for name, value in values.items()
    }


def rows_of(shard: Shard) -> dict[str, Any]:
    """All rows, in plain comparable values."""
    return {
        "seq": shard.seq,
        "now_us": shard.now_us,
        "position": shard.position,
        "leader": (shard.leader_epoch, shard.elected_seq, shard.recovers_at, shard.recovered_at_us),
        "requirements": shard.requirements,
        "parked_keys": list(shard.parked_keys),
        "ignored": dict(shard.ignored),
        "rejected": dict(shard.rejected),
        "operations": {op.operation_id: operation_row(op) for op in shard.operations.values()},
        "instances": {
            instance.name: {
                "config": instance.config,
                "scheduler": instance.scheduler,
                "by_action": {key: op.operation_id for key, op in instance.by_action.items()},
                "hints": instance.hints,
                "unsatisfiable": instance.unsatisfiable,
                "no_candidate_for": instance.no_candidate_for,
                "shares": (instance.shares.virtual_us, instance.shares.tags),
                "hold": instance.hold
                and (
                    instance.hold.operation.operation_id,
                    instance.hold.worker.endpoint,
                    instance.hold.requirement_id,
                    instance.hold.made_at_us,
                    instance.hold.waited_us,
                ),
                "durations": (instance.durations.last_runs, instance.durations.rows()),
                "paused": instance.paused,
                "finished": [(seq, at_us, op.operation_id) for seq, at_us, op in instance.finished],
                "by_client": {client: op.operation_id for client, op in instance.by_client.items()},
                "workers": {
                    worker.endpoint: {
                        "boot_epoch": worker.boot_epoch,
                        "connection_id": worker.connection_id,
                        "properties": worker.properties,
                        "max_inflight": worker.max_inflight,
                        "last_seen_us": worker.last_seen_us,
                        "recency": worker.recency,
                        "totals": worker.totals,
                        "remaining": worker.remaining,
                        "draining": worker.draining,
                        "paused": worker.paused,
                        "free_memory_kib": worker.free_memory_kib,
                        "admits_when_idle": worker.admits_when_idle,
                        "lent_kib": worker.lent_kib,
                        "idle_free_kib": worker.idle_free_kib,
                        "idle_declined_kib": worker.idle_declined_kib,
                        "resume_at_kib": worker.resume_at_kib,
                        "unaccepted": (worker.unaccepted, worker.max_unaccepted),
                        "running": {
                            d.dispatch_id: (
                                d.operation_id,
                                d.accepted,
                                d.revoked,
                                d.kill_requested_at_us,
                                d.connection_id,
                                d.heard_at_us,
                                d.silent_us,
                            )
                            for d in worker.running.values()
                        },
                    }
                    for worker in instance.workers.values()
                },
                "endpoints": [plain_row(endpoint) for endpoint in instance.endpoints.values()],
                "stable": [plain_row(chunk) for chunk in instance.stable.values()],
                "broadcasts": list(instance.broadcasts.items()),
            }
            for instance in shard.instances.values()
        },
    }
