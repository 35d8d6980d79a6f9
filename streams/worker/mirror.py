"""The small-blob mirror (Q-2): a worker takes small stable blobs unasked, so that they are near when something needs them.

A chunk of stable content names them; those of at most 16 KiB are fetched from the stable store in batches of at most 256 KiB, of which at
most 32 wait. What was taken is pinned, 256 MiB at most, until a report has advertised it. What is over a limit is dropped and counted:
the mirror is a convenience and never holds anything up. It gives up nothing that perhaps only this worker has.

All of it belongs to one process, so to one boot epoch: a new process begins with nothing pending and nothing pinned (Q-1).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from events.reasons import FetchFailure
from events.values import Digest
from streams.blobs.directory import BlobDirectory, Pin
from streams.blobs.errors import BlobTooLarge, NoRoomForBlob
from streams.blobs.fetching import FetchFailed
from streams.blobs.naming import HASH_BYTES, name_of
from streams.blobs.tiers import SMALL_BYTES
from streams.log_lines import say
from streams.worker.blob_reports import MirrorState

MOST_BATCHES = 32
BATCH_BYTES = 256 << 10
PIN_BYTES = 256 << 20
AT_ONCE = 16
"""Fetches under way: each has a file open and a connection, and inputs of runs need those too."""
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.5, 30.0

_log = logging.getLogger("headway.worker")

Take = Callable[[Digest], Awaitable[None]]


@dataclass(slots=True)
class MirrorCounts:
    """What became of blobs that the mirror was to take."""

    taken: int = 0
    dropped: int = 0  # over a limit, or the mirror was turned off
    missing: int = 0  # the stable store did not have them, or had something else


class Mirror:
    """The mirror of one worker; off until `turn`ed on.

    Args:
        directory: where blobs go.
        take: fetches one blob from the stable store into the directory, giving up nothing but stable blobs for it. Raises FetchFailed,
            NoRoomForBlob, BlobTooLarge.
    """

    def __init__(self, directory: BlobDirectory, take: Take, *, pin_bytes: int = PIN_BYTES) -> None:
        self.counts = MirrorCounts()
        self.is_on = False
        self._directory = directory
        self._take_one = take
        self._pin_budget = pin_bytes
        self._batches: deque[list[Digest]] = deque()
        self._pins: dict[Digest, Pin] = {}
        self._pinned_bytes = 0
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)

    @property
    def state(self) -> MirrorState:
        """What a report says of it."""
        pending = sum(map(len, self._batches))
        return MirrorState(pending, len(self._pins), self._pinned_bytes)

    def turn(self, on: bool) -> None:
        """As the scheduler says at an admission. Turned off, it drops what is pending and gives up its pins."""
        self.is_on = on
        if not on:
            self.counts.dropped += sum(map(len, self._batches))
            self._batches.clear()
            self.advertised(self.pins())

    def offer(self, digests: Iterable[Digest]) -> None:
        """Stable content that might be taken."""
        if not self.is_on:
            return
        batch: list[Digest] = []
        size_bytes = 0
        for digest in digests:
            if digest.size_bytes > SMALL_BYTES or len(digest.hash) != HASH_BYTES or self._directory.holds(digest):
                continue
            if batch and size_bytes + digest.size_bytes > BATCH_BYTES:
                self._queue(batch)
                batch, size_bytes = [], 0
            batch.append(digest)
            size_bytes += digest.size_bytes
        if batch:
            self._queue(batch)

    def _queue(self, batch: list[Digest]) -> None:
        if len(self._batches) >= MOST_BATCHES:
            self.counts.dropped += len(batch)
            return
        self._batches.append(batch)
        self._wake.set()

    def pins(self) -> list[Pin]:
        """What it has pinned by now: ask before the blobs to report are taken, and `advertised` once they are on their way."""
        return list(self._pins.values())

    def advertised(self, pins: Iterable[Pin]) -> None:
        """A report has named these: they are like any other blob from now on."""
        for pin in pins:
            if self._pins.pop(pin.digest, None) is not None:
                self._pinned_bytes -= pin.digest.size_bytes
                self._directory.unpin(pin)

    async def run(self) -> None:
        """Take what is pending, for ever; while the store does not answer, again and again with growing pauses."""
        back_off_s = FIRST_BACK_OFF_S
        while True:
            if not self._batches:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = self._batches[0]
            found = await asyncio.gather(*[self._try(digest) for digest in batch])
            left = [digest for digest, done in zip(batch, found, strict=True) if not done]
            if self._batches and self._batches[0] is batch:  # not turned off meanwhile
                if left:
                    batch[:] = left
                else:
                    self._batches.popleft()
            if left:
                await asyncio.sleep(back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
            else:
                back_off_s = FIRST_BACK_OFF_S

    async def _try(self, digest: Digest) -> bool:
        """Take one blob; False where it is worth another attempt."""
        if self._pinned_bytes + digest.size_bytes > self._pin_budget:
            self.counts.dropped += 1
            return True
        try:
            async with self._slots:
                await self._take_one(digest)
        except FetchFailed as error:
            if error.failure in (FetchFailure.NOT_FOUND, FetchFailure.DATA_LOSS):
                say(_log, logging.WARNING, "the mirror cannot take a blob", blob=name_of(digest), because=error.why)
                self.counts.missing += 1
                return True
            say(_log, logging.DEBUG, "the mirror waits for the stable store", because=error.why)
            return False
        except (NoRoomForBlob, BlobTooLarge):
            self.counts.dropped += 1
            return True
        except OSError as error:
            say(_log, logging.WARNING, "the mirror cannot keep a blob", blob=name_of(digest), because=str(error))
            self.counts.dropped += 1
            return True
        pin = self._directory.pin(digest) if self.is_on and digest not in self._pins else None
        if pin is not None:
            self._pins[digest] = pin
            self._pinned_bytes += digest.size_bytes
        self._directory.mark_stable([digest])
        self.counts.taken += 1
        return True
