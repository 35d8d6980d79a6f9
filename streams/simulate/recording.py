"""A simulated run as an exported log: its facts and events, as a decider on a real one would have left them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from events.codec import GENESIS_CHAIN, encode_event, encode_fact
from events.decide import elect
from events.events import Event
from events.facts import Fact
from events.state import Shard
from streams.export import ExportWriter, Manifest, UnlikeExport
from streams.log import Record
from streams.topics import EVENTS, FACTS, topic_table

CLUSTER_ID: Final = "simulated"
LEADER_EPOCH: Final = 1

_EVENTS_AT, _FACTS_AT = (EVENTS, 0), (FACTS, 0)


class Recording:
    """Writes one run of one instance down, shard 0, while it goes; nothing of it reads as an export until `finish`.

    Args:
        directory: new, or empty.
        instance: for the shard map.
        made_by: for the manifest.
    Raises:
        UnlikeExport: the directory holds something.
        ExportBusy: another process writes it.
    """

    def __init__(self, directory: Path, instance: str, *, made_by: str = "") -> None:
        topics = {spec.name: (f"{CLUSTER_ID}-{spec.name}", spec.partitions) for spec in topic_table(1)}
        self._writer = ExportWriter(
            directory, cluster_id=CLUSTER_ID, topics=topics, shards={instance: 0}, made_by=made_by
        )
        if self._writer.before is not None:
            self._writer.close()
            raise UnlikeExport(directory, "a simulation is a log of its own, which continues none")
        self._chain = GENESIS_CHAIN
        self._events = 0
        self._facts = 0
        self._topic_ids = {name: topic_id for name, (topic_id, _) in topics.items()}

    def elect(self, shard: Shard) -> None:
        """The election of a log with the ids of the manifest, in place of one without."""
        ids = self._topic_ids
        self._add(
            elect(
                shard,
                leader_epoch=LEADER_EPOCH,
                cluster_id=CLUSTER_ID,
                facts_topic_id=ids[FACTS],
                events_topic_id=ids[EVENTS],
            )
        )

    def take(self, fact: Fact, at_us: int, caused: Sequence[Event]) -> None:
        """Write down a fact, its append time, and every event it caused."""
        self._writer.add(_FACTS_AT, [Record(self._facts, at_us, None, encode_fact(fact))])
        self._facts += 1
        self._add(caused)

    def _add(self, events: Sequence[Event]) -> None:
        for event in events:
            value, self._chain = encode_event(event, LEADER_EPOCH, self._chain)
            self._writer.add(_EVENTS_AT, [Record(self._events, event.at_us, None, value)])
            self._events += 1

    def finish(self) -> Manifest:
        """The run is over: from here on the directory is an export."""
        self._writer.cover(_EVENTS_AT, 0, self._events)
        self._writer.cover(_FACTS_AT, 0, self._facts)
        return self._writer.finish()
