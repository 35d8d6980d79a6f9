"""An instance's hold, from rows: who is held for whom, since when, why, and what was left out of the choice."""

from collections.abc import Iterable
from typing import Any

from events.reasons import DurationSource, HoldExclusion, HoldMove, sentence
from events.values import DrainBasis, HoldExclusionCount
from projections import keys
from projections.fleet import config_of
from projections.table import Table
from proto.gen.headway.v1 import events_pb2
from proto.gen.headway.v1.rows_pb2 import STAGE_QUEUED, InstanceRow, OperationRow


def exclusions(counts: Iterable[events_pb2.HoldExclusionCount | HoldExclusionCount]) -> list[dict[str, Any]]:
    """How many workers could not be held, by reason."""
    return [
        {
            "exclusion": HoldExclusion(count.exclusion).name.lower(),
            "workers": count.workers,
            "reason": sentence(HoldExclusion(count.exclusion)),
        }
        for count in counts
    ]


def bases(found: Iterable[events_pb2.DrainBasis | DrainBasis]) -> list[dict[str, Any]]:
    """What the expected time of a hold by drain time follows from: the runs that have to end first, by kind."""
    return [
        {
            "source": DurationSource(basis.source).name.lower(),
            "kind": basis.kind or None,
            "samples": basis.samples,
            "runs": basis.runs,
            "last_end_us": basis.last_end_us or None,
            "reason": sentence(DurationSource(basis.source)),
        }
        for basis in found
    ]


def hold_of(table: Table, row: InstanceRow) -> dict[str, Any] | None:
    """The hold in force, or None. `shortfall_milli` sums over the minimums, in thousandths of what the worker registered."""
    if not row.HasField("hold"):
        return None
    hold = row.hold
    moved = HoldMove(hold.moved)
    return {
        "instance": row.name,
        "operation_id": hold.operation_id,
        "id": f"{row.name}/op-{hold.operation_id}",
        "client_operation_id": _client_operation_id(table, hold.operation_id),
        "endpoint": hold.endpoint,
        "made_at_us": hold.made_at_us,
        "held_us": max(0, table.shard.now_us - hold.made_at_us),
        "policy": _policy(row),
        "waited_us": hold.waited_us,
        "overtaken_by": hold.overtaken_by if hold.HasField("overtaken_by") else None,
        "free_at_us": hold.free_at_us or None,
        "candidates": [
            {
                "endpoint": candidate.endpoint,
                "shortfall_milli": candidate.shortfall_milli,
                "running": candidate.running,
                "free_at_us": candidate.free_at_us or None,
            }
            for candidate in hold.candidates
        ],
        "basis": bases(hold.basis),
        "more_candidates": hold.more_candidates,
        "excluded": exclusions(hold.excluded),
        "moves": hold.moves,
        "moved": moved.name.lower() if moved else None,
        "moved_reason": sentence(moved) or None,
        "moved_at_us": hold.moved_at_us or None,
    }


def no_candidate_of(table: Table, row: InstanceRow) -> dict[str, Any] | None:
    """The operation that waits for a hold for which no worker qualified, and why; None when there is none."""
    if not row.HasField("no_candidate_for"):
        return None
    waiting = table.find(table.key(keys.OPERATION, keys.number(row.no_candidate_for)), OperationRow)
    if waiting is None or waiting.stage != STAGE_QUEUED:
        return None  # it got what it waited for, or has ended
    return {
        "operation_id": row.no_candidate_for,
        "id": f"{row.name}/op-{row.no_candidate_for}",
        "client_operation_id": waiting.client_operation_id,
        "since_us": row.no_candidate_since_us,
        "excluded": exclusions(row.excluded),
    }


def _policy(row: InstanceRow) -> dict[str, Any] | None:
    policy = config_of(row).hold
    return None if policy is None else policy.model_dump(mode="json")


def _client_operation_id(table: Table, operation_id: int) -> str | None:
    found = table.find(table.key(keys.OPERATION, keys.number(operation_id)), OperationRow)
    return found.client_operation_id if found is not None else None
