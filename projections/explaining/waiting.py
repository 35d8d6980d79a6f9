"""Why a queued operation waits: what it asks for, which workers lack what, who is ahead, who is held, whether it ever can run."""

from typing import Any

from events.codec import command_of
from events.reasons import Explanation, WorkerStanding, sentence
from projections.explaining.absence import hold_for
from projections.explaining.lacking import amounts, impossible_together, properties
from projections.explaining.never import never_runs
from projections.explaining.queueing import overtaken, place
from projections.explaining.standings import LACKS_ROOM, NEVER, TAKES_NOTHING, Assessed, Standings
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, OperationRow

CLOSEST = 5
"""Workers that are named; the rest is a count."""


def why_it_waits(table: Table, instance: InstanceRow, row: OperationRow) -> tuple[list[Explanation], dict[str, Any]]:
    """The reasons, never none, and what they rest on."""
    standings = Standings(table, instance, row)
    closest = standings.closest()
    chosen = standings.with_room()
    order = [*chosen, *(each for each in closest if each.standing is not WorkerStanding.ROOM)]
    return reasons(instance, standings), {
        **place(table, row),
        "waiting_us": max(0, table.shard.now_us - row.queued_at_us),
        "queued_since_us": row.queued_since_us,
        "workers": len(standings.assessed),
        "standings": [
            {"standing": standing.name.lower(), "workers": workers, "sentence": sentence(standing)}
            for standing, workers in standings.counts().items()
        ],
        "amounts": amounts(standings),
        "properties": properties(standings),
        "impossible_together": impossible_together(standings),
        "strategy": standings.config.allocation_strategy.value,
        "prefer_from_bytes": _prefer_from_bytes(row, standings),
        "closest": [candidate(standings, each) for each in order[:CLOSEST]],
        "more_workers": max(0, len(order) - CLOSEST),
        "overtaken": overtaken(table, row, order),
        "never": never_runs(instance, row, standings),
        **hold_for(table, instance, row, standings.config),
    }


def reasons(instance: InstanceRow, standings: Standings) -> list[Explanation]:
    """Every reason that holds, the one to look at first in front."""
    found = [Explanation.INSTANCE_PAUSED] if instance.paused else []
    seen = standings.counts()
    if not seen:
        return [*found, Explanation.NO_WORKER]
    if all(standing in NEVER for standing in seen):
        return [*found, Explanation.UNSATISFIABLE]
    if WorkerStanding.ROOM in seen:
        found.append(Explanation.ROOM)
    elif any(standing in LACKS_ROOM for standing in seen):
        found.append(Explanation.NO_ROOM)
    if WorkerStanding.HELD in seen:
        found.append(Explanation.WORKER_HELD)
    if any(standing in TAKES_NOTHING for standing in seen):
        found.append(Explanation.NOT_TAKING)
    return found


def candidate(standings: Standings, each: Assessed) -> dict[str, Any]:
    """A worker that could run it, and what it lacks: `short` names each minimum of it, with the amounts."""
    worker = each.worker
    return {
        "endpoint": worker.endpoint,
        "standing": each.standing.name.lower(),
        "sentence": sentence(each.standing),
        "shortfall_milli": each.shortfall_milli,
        "short": each.short(standings.asked),
        "running": len(worker.running),
        "max_inflight": worker.max_inflight,
        "free_memory_kib": worker.free_memory_kib if worker.HasField("free_memory_kib") else None,
        "idle_declined_kib": worker.idle_declined_kib if worker.HasField("idle_declined_kib") else None,
        "resume_at_kib": worker.resume_at_kib or None,
        "recency": worker.recency,
    }


def _prefer_from_bytes(row: OperationRow, standings: Standings) -> int | None:
    """From how many bytes of its inputs on a holder is taken before the strategy's worker; None where none can be.

    Who the holders were is not in these rows; the `OperationDispatched` that follows says what the decider was told.
    """
    from_bytes = standings.config.locality.prefer_from_bytes
    return from_bytes if from_bytes is not None and command_of(row.command).inputs else None
