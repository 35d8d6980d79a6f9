"""That no connected worker could ever run an operation: since when, and when it fails of that."""

from typing import Any

from events.config import SECOND_US
from projections.explaining.standings import Standings
from proto.gen.headway.v1.rows_pb2 import InstanceRow, OperationRow


def never_runs(instance: InstanceRow, row: OperationRow, standings: Standings) -> dict[str, Any] | None:
    """That no connected worker could ever run it, since when, and when it fails of that; None where one could.

    `fails_at_us` is null where the configuration never fails it for that.
    """
    shortage = next((each for each in instance.unsatisfiable if each.requirement_id == row.requirement_id), None)
    if any(each.capable for each in standings.assessed) or (shortage is None and not standings.assessed):
        return None
    config = standings.config
    no_workers = not standings.assessed
    timeout_s = config.no_worker_action_timeout_s if no_workers else config.unsatisfiable_action_timeout_s
    since_us = shortage.since_us if shortage is not None else row.queued_since_us
    return {
        "since_us": since_us,
        "properties": list(shortage.properties) if shortage is not None else [],
        "no_workers": no_workers,
        "fails_at_us": max(since_us, row.queued_since_us) + timeout_s * SECOND_US if timeout_s else None,
    }
