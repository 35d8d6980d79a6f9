"""What one transaction of a decider holds: the records of events, placements, commands and dead letters, ready to be appended.

The records of one fact never stand in two transactions. A transaction is closed once it holds about 3 MiB, so that a burst of
large facts becomes several transactions and none is larger than what a broker takes in one request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from events.codec import EventEncoder
from events.events import Event, FactIgnored, FactRejected
from events.outbox import Outbound
from streams.dead_letters import dead_letter
from streams.log import Header, Outgoing, Partition, Record
from streams.topics import DEAD_LETTERS, EVENTS, PLACEMENTS, WORKER_COMMANDS

CLOSE_AT_BYTES: Final = 3 << 20
MOST_FACTS: Final = 2_000

_TURNED_AWAY: Final = frozenset({FactRejected, FactIgnored})  # asked for membership only
_outgoing = tuple.__new__  # half the time of the named tuple's own, six times in each life cycle


class CloudEventsHeaders:
    """Headers of placements and commands (CloudEvents 1.0, Kafka binary mode); all but `ce_id` is made once per kind and instance."""

    def __init__(self, shard: int) -> None:
        self._shard = shard
        self._made: dict[tuple[str, str], tuple[Header, ...]] = {}

    def of(self, kind: str, instance: str, seq: int, nth: int = 0) -> tuple[Header, ...]:
        """The headers of one message, the `nth` of event `seq`: source and id together name one message only."""
        made = self._made.get((kind, instance))
        if made is None:
            made = self._made[kind, instance] = (
                ("ce_specversion", b"1.0"),
                ("ce_source", f"/headway/{instance}".encode()),
                ("ce_type", f"headway.v1.{kind}".encode()),
                ("content-type", b"application/protobuf"),
            )
        if nth:
            return (*made, ("ce_id", b"%d/%d/%d" % (self._shard, seq, nth)))
        return (*made, ("ce_id", b"%d/%d" % (self._shard, seq)))


class Transaction:
    """Collects what facts caused, in order.

    Args:
        shard: its number, the partition of every record in here.
        leader_epoch: written into every event.
        chain: digest of the last event record before this transaction; advances as events are added.
        headers, encoder: the leader's own, which reuse what they have made.
    """

    def __init__(
        self, shard: int, leader_epoch: int, chain: bytes, headers: CloudEventsHeaders, encoder: EventEncoder
    ) -> None:
        self._shard, self._leader_epoch, self._headers = shard, leader_epoch, headers
        self._encode = encoder.encode
        self.chain = chain
        self.facts = 0
        self.size_bytes = 0
        self.last_seq = 0  # of the events in here; the state may be further, in a fact that then failed
        self.position = -1  # of the facts in here
        self.events: list[Outgoing] = []
        self.placements: list[Outgoing] = []
        self.commands: list[Outgoing] = []
        self.dead_letters: list[Outgoing] = []

    def add(self, events: Sequence[Event], outbounds: Sequence[Outbound], record: Record | None) -> None:
        """Take in all that one fact caused, or nothing; `record` is the fact, None for what no fact caused (LeaderElected).

        Raises:
            ValueError: an event does not fit the wire contract.
        """
        chain, epoch, size_bytes, turned_away = self.chain, self._leader_epoch, 0, False
        records, placements, commands = self.events, self.placements, self.commands
        before_events, before_placements, before_commands = len(records), len(placements), len(commands)
        try:
            encode = self._encode
            for event in events:
                value, chain = encode(event, epoch, chain)
                size_bytes += len(value)
                records.append(_outgoing(Outgoing, (value, None, ())))
                if type(event) in _TURNED_AWAY:
                    turned_away = True
            if outbounds:
                headers_of, last_seq, nth = self._headers.of, 0, 0
                for topic_kind, key, kind, instance, seq, value in outbounds:
                    size_bytes += len(value)
                    nth = nth + 1 if seq == last_seq else 0
                    last_seq = seq
                    outgoing = _outgoing(Outgoing, (value, key.encode(), headers_of(kind, instance, seq, nth)))
                    (placements if topic_kind == "placement" else commands).append(outgoing)
            if record is not None and turned_away and (letter := dead_letter(record, events, self._shard)) is not None:
                size_bytes += len(letter.value)
                self.dead_letters.append(letter)
        except BaseException:
            # What cannot be encoded is taken out again whole: the facts before it are still good to be committed.
            del records[before_events:], placements[before_placements:], commands[before_commands:]
            raise
        if record is not None:
            self.facts += 1
            self.position = record.offset
        if events:
            self.last_seq = events[-1].seq
        self.chain = chain
        self.size_bytes += size_bytes

    def batches(self) -> Mapping[Partition, Sequence[Outgoing]]:
        """The records by partition; partitions without any are left out."""
        shard = self._shard
        found: dict[Partition, Sequence[Outgoing]] = {(EVENTS, shard): self.events}
        if self.placements:
            found[PLACEMENTS, shard] = self.placements
        if self.commands:
            found[WORKER_COMMANDS, shard] = self.commands
        if self.dead_letters:
            found[DEAD_LETTERS, shard] = self.dead_letters
        return found
