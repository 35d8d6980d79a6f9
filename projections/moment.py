"""The state of a shard as of the last event that is folded, as one JSON value: whole, or in the few numbers that tell two moments apart."""

from typing import Any

from projections import answers
from projections.fleet import instance_rows, workers
from projections.table import Table


def whole(table: Table, instance: str | None = None) -> dict[str, Any]:
    """Queue, what runs and waits for edges, fleet, holds, instances and the shard itself; of one instance or of all.

    Finished operations are counted and not listed: there may be as many as their retention lets there be.
    """
    return {
        **standing(table),
        "state": answers.state(table),
        "instances": answers.instances(table, instance),
        "queue": list(answers.queue(table, instance)),
        "executing": list(answers.operations(table, stage="executing", instance=instance)),
        "cache_check": _listed(table, "cache_check", "checking", instance),
        "forwarded": _listed(table, "forwarded", "forwarded", instance),
        "workers": workers(table, instance),
        "holds": answers.holds(table, instance),
    }


def standing(table: Table) -> dict[str, Any]:
    """Which moment it is: the last event folded and its time."""
    return {"shard": table.number, "seq": table.shard.seq, "at_us": table.shard.now_us}


def figures(table: Table) -> dict[str, Any]:
    """Queue and fleet in numbers: what is there at the end of a range beside what was at its beginning."""
    rows = list(instance_rows(table))
    fleet = workers(table)
    return {
        **standing(table),
        "queued": sum(row.queued for row in rows),
        "executing": sum(row.executing for row in rows),
        "finished": sum(row.finished for row in rows),
        "cache_check": sum(row.checking for row in rows),
        "forwarded": sum(row.forwarded for row in rows),
        "workers": len(fleet),
        "accepting": sum(worker["accepts"] for worker in fleet),
        "draining": sum(worker["draining"] for worker in fleet),
        "paused": sum(worker["paused"] for worker in fleet),
        "holds": answers.holds(table),
    }


def _listed(table: Table, stage: str, counted: str, instance: str | None) -> list[dict[str, Any]]:
    """Operations of a stage that has no index: looked for only where there are some."""
    if not any(getattr(row, counted) for row in instance_rows(table, instance)):
        return []
    return list(answers.operations(table, stage=stage, instance=instance))
