"""What workers and the publisher of stable blobs say, from one seed: reports in chunks, evictions, failed fetches, broadcasts,
acknowledgements; and lies about each: out of order, twice, from another connection or epoch, for what was never sent.
"""

import random
from dataclasses import dataclass, field

from events import events as e
from events import facts as f
from events.payloads import digests_bytes
from events.reasons import FetchFailure
from events.values import Digest

BLOBS = tuple(Digest(bytes([number]) * 32, number) for number in range(1, 13))

Name = tuple[str, str]


@dataclass
class Sent:
    """How far a worker's reports have come in a connection."""

    connection: int = 0
    report: int = 0
    next_chunk: int = 0  # of the report that is under way; 0: none is
    full: bool = False


@dataclass
class BlobFacts:
    """Makes the next fact about blobs; `see` tells it what the scheduler decided.

    `connections` and `epochs` are those of the workers, by (instance, endpoint), as they are kept by whoever lets them connect.
    """

    rng: random.Random
    connections: dict[Name, int]
    epochs: dict[Name, int]
    owed: dict[Name, list[int]] = field(default_factory=dict)  # seqs of BlobsStable that a worker may have been sent
    reports: dict[Name, Sent] = field(default_factory=dict)
    broadcasts: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # by instance: the present one, its next sequence
    said: list[f.Fact] = field(default_factory=list)  # the last few

    def see(self, events: list[e.Event]) -> None:
        """Note the chunks of stable blobs, as a worker would that reads its commands."""
        for event in events:
            if isinstance(event, e.BlobsStable):
                for worker in self.connections:
                    if worker[0] == event.instance:
                        self.owed.setdefault(worker, []).append(event.seq)

    def next(self, worker: Name) -> f.Fact:
        """The next fact, of this worker or its instance."""
        if self.said and self.rng.random() < 0.05:
            return self.rng.choice(self.said)  # it comes twice
        makers = (
            (40, self._advertise),
            (8, self._evict),
            (8, self._miss),
            (12, self._stable),
            (14, self._acknowledge),
        )
        made = self.rng.choices([maker for _, maker in makers], [weight for weight, _ in makers])[0](worker)
        self.said = [*self.said[-3:], made]
        return made

    def _some(self, most: int = 5) -> bytes:
        return digests_bytes(self.rng.sample(BLOBS, k=self.rng.randrange(most + 1)))

    def _connection(self, worker: Name) -> int:
        return 3 if self.rng.random() < 0.03 else self.connections.get(worker, 7)

    def _advertise(self, worker: Name) -> f.Fact:
        rng, connection = self.rng, self._connection(worker)
        sent = self.reports.setdefault(worker, Sent())
        if sent.connection != connection:
            sent.connection, sent.report, sent.next_chunk = connection, 0, 0
        if sent.next_chunk == 0 or rng.random() < 0.1:  # a new one, which may abandon one that is under way
            sent.report, sent.next_chunk, sent.full = sent.report + 1, 0, rng.random() < 0.5
        report, chunk, full, last = sent.report, sent.next_chunk, sent.full, rng.random() < 0.4
        if rng.random() < 0.07:
            chunk, report = chunk + rng.choice((-1, 1)) if chunk else 1, max(1, report + rng.choice((-1, 0)))
        elif rng.random() < 0.03:
            full = not full
        else:
            sent.next_chunk = 0 if last else chunk + 1
        pins = self._some(3) if rng.random() < 0.4 else b""
        pending, pinned = rng.randrange(3), rng.randrange(3)
        return f.BlobsAvailable(
            *worker, connection, report, chunk, last, full, self._some(), pins, pending, pinned, pinned * 1000
        )

    def _evict(self, worker: Name) -> f.Fact:
        return f.BlobsEvicted(*worker, self._connection(worker), digests_bytes(self.rng.sample(BLOBS, k=2)))

    def _miss(self, worker: Name) -> f.Fact:
        failure = self.rng.choice(list(FetchFailure)[1:])
        epoch = self.rng.choice((0, self.epochs.get(worker, 0), 1))
        return f.PeerFetchFailed(*worker, self.rng.choice(BLOBS), failure, epoch, "w1")

    def _stable(self, worker: Name) -> f.Fact:
        rng, instance = self.rng, worker[0]
        broadcast, sequence = self.broadcasts.get(instance, (0, 0))
        if sequence == 0:
            broadcast += 1
        last, store = rng.random() < 0.5, "ac" if broadcast % 3 == 0 else ""
        lie = rng.random()
        if lie < 0.04:
            sequence += 1
        elif lie < 0.07:
            store = "elsewhere"
        else:
            self.broadcasts[instance] = (broadcast, 0 if last else sequence + 1)
        return f.BlobsStable(instance, broadcast, sequence, last, store, digests_bytes(rng.sample(BLOBS, k=3)))

    def _acknowledge(self, worker: Name) -> f.Fact:
        rng = self.rng
        waiting = [name for name, chunks in self.owed.items() if chunks]
        if not waiting or rng.random() < 0.1:
            return f.BlobsStableAcknowledged(*worker, self._connection(worker), 1 + rng.randrange(400))  # never sent
        worker = rng.choice(waiting)
        chunks = self.owed[worker]
        return f.BlobsStableAcknowledged(
            *worker, self._connection(worker), chunks.pop(rng.randrange(max(0, len(chunks) - 6), len(chunks)))
        )
