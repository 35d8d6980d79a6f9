"""`evolve` applies one event to the rows. It is total over the events and holds no rules: what may happen was decided before.

Where indexes are live (`Shard.live`) it keeps the matcher and the timer heap in step; a plain fold of history runs without them and
`indexing.build_indexes` makes them at the end, which is several times faster. The folds live in events/evolving, by concern.
"""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.errors import SequenceBroken
from events.evolving.clients import CLIENTS_FOLDS
from events.evolving.holds import HOLDS_FOLDS
from events.evolving.locality import LOCALITY_FOLDS
from events.evolving.operations import OPERATIONS_FOLDS
from events.evolving.shard import SHARD_FOLDS
from events.evolving.snapshots import SNAPSHOTS_FOLDS
from events.evolving.waiting import WAITING_FOLDS
from events.evolving.workers import WORKERS_FOLDS
from events.state import Shard

LeaderElected = e.LeaderElected


def evolve(shard: Shard, event: e.Event) -> None:
    """Apply `event`. Raises SequenceBroken when it does not follow the last one."""
    if event.seq != shard.seq + 1:
        raise SequenceBroken(
            f"event {event.seq} follows event {shard.seq}; expected {shard.seq + 1}. "
            "Do not fold past it: run 'headway replay' to locate the gap"
        )
    HANDLERS[type(event)](shard, event)
    shard.seq = event.seq
    shard.now_us = event.at_us
    if type(event) is not LeaderElected:
        shard.position = event.cause_offset


HANDLERS: dict[type, Callable[[Shard, Any], None]] = {
    **SHARD_FOLDS,
    **OPERATIONS_FOLDS,
    **CLIENTS_FOLDS,
    **WAITING_FOLDS,
    **WORKERS_FOLDS,
    **HOLDS_FOLDS,
    **LOCALITY_FOLDS,
    **SNAPSHOTS_FOLDS,
}
