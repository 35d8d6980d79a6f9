"""Who holds what in the scene: three endpoints over a row of made blobs, each overlapping its neighbours, so that every answer is known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from events.facts import BlobsAvailable, Fact, WorkerConnected, WorkerReported
from events.payloads import MAX_DIGESTS, digests_bytes
from events.values import Digest

INSTANCE: Final = "main"
SHARD: Final = 0
PINS: Final = 3

SAME, OTHER, NEVER = "returns-the-same", "returns-another", "stays-away"
"""What becomes of each after the restart."""


def blob(index: int) -> Digest:
    """The blob with this number."""
    return Digest(hashlib.sha256(b"blob %d" % index).digest(), 1 + index % 100_000)


@dataclass(frozen=True, slots=True)
class Resident:
    """A simulated worker, and the blobs it holds: those numbered from `first` on, `count` of them."""

    name: str
    boot_epoch: int
    connection_id: int
    first: int
    count: int

    def connect(self) -> Fact:
        """It connects."""
        return WorkerConnected(
            INSTANCE, self.name, self.boot_epoch, self.connection_id, blobs_url=f"http://{self.name}:8980"
        )

    def keep_alive(self) -> Fact:
        """It is there."""
        return WorkerReported(INSTANCE, self.name, self.connection_id)

    def report(self) -> Iterator[Fact]:
        """All it holds: a full report in chunks, with pins of the action cache in the first one."""
        chunks = max(1, -(-self.count // MAX_DIGESTS))
        pins = digests_bytes([blob(-1 - number) for number in range(PINS)])
        for chunk in range(chunks):
            begin = self.first + chunk * MAX_DIGESTS
            end = min(begin + MAX_DIGESTS, self.first + self.count)
            yield BlobsAvailable(
                INSTANCE,
                self.name,
                self.connection_id,
                1,
                chunk,
                chunk == chunks - 1,
                full=True,
                added=digests_bytes([blob(index) for index in range(begin, end)]),
                ac_pins=pins if chunk == 0 else b"",
            )

    def holds(self, index: int) -> bool:
        """Whether it holds the blob with this number."""
        return self.first <= index < self.first + self.count

    def again(self, *, boot_epoch: int | None = None, count: int | None = None) -> Resident:
        """The same endpoint on its next connection; with another boot epoch it is another process."""
        return replace(
            self,
            boot_epoch=self.boot_epoch if boot_epoch is None else boot_epoch,
            connection_id=self.connection_id + 1_000,
            count=self.count if count is None else count,
        )


def residents(pairs: int) -> dict[str, Resident]:
    """The three, with `pairs` pairs among them; neighbours share half of what they hold."""
    each, rest = divmod(pairs, 3)
    counts = [each + (number < rest) for number in range(3)]
    return {
        name: Resident(name, 1_001 + number, 11 + number, number * (each // 2), counts[number])
        for number, name in enumerate((SAME, OTHER, NEVER))
    }


def holders(population: dict[str, Resident], index: int) -> dict[str, int]:
    """Who has the blob with this number: boot epochs by endpoint."""
    return {name: one.boot_epoch for name, one in sorted(population.items()) if one.holds(index)}
