"""What workers say of their blobs, from one seed: reports in chunks, evictions, failed fetches, acknowledgements, and lies about it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from events import events as e
from events import facts as f
from events.payloads import digests_bytes
from events.reasons import FetchFailure
from events.values import Digest
from tests.properties.facts import INSTANCES, World

BLOBS = tuple(Digest(bytes([number]) * 32, number) for number in range(1, 13))
IMPATIENT = (
    '{"kind":"simple","worker_timeout_s":5,"locality":{"never_reconnect_s":2,"max_unacknowledged_chunks":2,"flap_threshold":1,'
    '"prefer_from_bytes":1}}'
)

Name = tuple[str, str]


@dataclass
class Chatter:
    """Makes the next fact about blobs; `see` tells it what the scheduler decided."""

    rng: random.Random
    world: World
    chunks: list[int] = field(default_factory=list)  # seqs of BlobsStable
    reports: dict[Name, tuple[int, int, int, bool]] = field(
        default_factory=dict
    )  # connection, report, next chunk, full
    broadcast: int = 0
    sequence: int = 0

    def see(self, events: list[e.Event]) -> None:
        """Note the chunks of stable blobs, as a worker would that reads its commands."""
        self.chunks += [event.seq for event in events if isinstance(event, e.BlobsStable)]

    def next(self) -> f.Fact:
        """The next fact."""
        rng = self.rng
        instance = rng.choice(INSTANCES) if rng.random() < 0.3 else "main"
        worker = (instance, f"w{rng.randrange(6)}")
        makers = (
            (40, self._advertise),
            (8, self._evict),
            (8, self._miss),
            (10, self._stable),
            (12, self._acknowledge),
            (2, self._configure),
        )
        return rng.choices([maker for _, maker in makers], [weight for weight, _ in makers])[0](worker)

    def _some(self, most: int = 5) -> bytes:
        return digests_bytes(self.rng.choices(BLOBS, k=self.rng.randrange(most + 1)))

    def _connection(self, worker: Name) -> int:
        return 3 if self.rng.random() < 0.03 else self.world.connections.get(worker, 7)

    def _advertise(self, worker: Name) -> f.Fact:
        rng, connection = self.rng, self._connection(worker)
        begun, report, chunk, full = self.reports.get(worker, (0, 0, 0, False))
        if begun != connection:
            report, chunk = 0, 0
        if chunk == 0 or rng.random() < 0.1:  # a new one, which may abandon one that is under way
            report, chunk, full = report + 1, 0, rng.random() < 0.5
        last = rng.random() < 0.4
        self.reports[worker] = (connection, report, 0 if last else chunk + 1, full)
        if rng.random() < 0.05:
            chunk, report = chunk + rng.choice((-1, 1)) if chunk else 1, max(1, report + rng.choice((-1, 0)))
        pins = self._some(3) if rng.random() < 0.4 else b""
        pending, pinned = rng.randrange(3), rng.randrange(3)
        return f.BlobsAvailable(
            *worker, connection, report, chunk, last, full, self._some(), pins, pending, pinned, pinned * 1000
        )

    def _evict(self, worker: Name) -> f.Fact:
        return f.BlobsEvicted(*worker, self._connection(worker), digests_bytes(self.rng.choices(BLOBS, k=2)))

    def _miss(self, worker: Name) -> f.Fact:
        failure = self.rng.choice(list(FetchFailure)[1:])
        epoch = self.rng.choice((0, self.world.epochs.get(worker, 0), 1))
        return f.PeerFetchFailed(*worker, self.rng.choice(BLOBS), failure, epoch, "w1")

    def _stable(self, worker: Name) -> f.Fact:
        if self.sequence == 0:
            self.broadcast = self.world.draw()
        sequence, last = self.sequence, self.rng.random() < 0.5
        self.sequence = 0 if last else sequence + 1
        return f.BlobsStable(worker[0], self.broadcast, sequence, last, "", digests_bytes(self.rng.choices(BLOBS, k=3)))

    def _acknowledge(self, worker: Name) -> f.Fact:
        chunk = self.rng.choice(self.chunks[-6:]) if self.chunks else 1
        return f.BlobsStableAcknowledged(*worker, self._connection(worker), chunk)

    def _configure(self, worker: Name) -> f.Fact:
        return f.Configured(worker[0], IMPATIENT)
