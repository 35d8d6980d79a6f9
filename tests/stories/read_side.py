"""The state table of a story: its events folded as the read side folds them."""

from typing import TYPE_CHECKING

from events import events as e
from events.codec import GENESIS_CHAIN, encode_event
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table

if TYPE_CHECKING:
    from tests.stories.story import Story


def table_of(story: "Story") -> Table:
    """Everything so far, folded and flushed."""
    table, chain, epoch = Table(MemoryRows(), 0), GENESIS_CHAIN, 0
    for offset, event in enumerate(story.every_event()):
        if isinstance(event, e.LeaderElected):
            epoch = event.leader_epoch
        value, chain = encode_event(event, epoch, chain)
        assert take(table, offset, value) is Taken.FOLDED, event
    table.flush()
    return table
