"""What a worker says of its blobs, as facts: reports in chunks, and what it no longer holds. Pure.

A full report names everything; a delta adds to what was named. Both carry the whole set of pins of the action cache, which replaces the
former one (A-1). Chunks of a report are numbered from 0 and go out in order; the numbers of reports rise within a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from events.facts import BlobsAvailable, BlobsEvicted
from events.payloads import digest_chunks
from events.values import Digest


class MirrorState(NamedTuple):
    """What the small-blob mirror has to do and keeps (Q-2)."""

    pending: int = 0  # blobs still to be taken
    pinned: int = 0  # blobs kept until they are advertised
    pinned_bytes: int = 0


class BlobReports:
    """The reports of one worker on one connection. `number` is that of the latest report, `deltas` how many came after the full one."""

    def __init__(self, instance: str, endpoint: str, connection_id: int) -> None:
        self.connection_id = connection_id
        self.number = 0
        self.deltas = 0
        self._instance, self._endpoint = instance, endpoint

    def full(self, held: Sequence[Digest], pins: Sequence[Digest], mirror: MirrorState) -> list[BlobsAvailable]:
        """Everything that is held. One chunk at least: an empty report says that nothing is.

        In the order of the digests: whoever keeps millions of them by digest finds those of a chunk side by side, and takes half the time.
        """
        self.deltas = 0
        return self._report(sorted(held), pins, mirror, full=True)

    def delta(self, added: Sequence[Digest], pins: Sequence[Digest], mirror: MirrorState) -> list[BlobsAvailable]:
        """What has come since."""
        self.deltas += 1
        return self._report(added, pins, mirror, full=False)

    def evicted(self, digests: Sequence[Digest]) -> list[BlobsEvicted]:
        """What is no longer held; nothing for none."""
        return [
            BlobsEvicted(self._instance, self._endpoint, self.connection_id, chunk) for chunk in digest_chunks(digests)
        ]

    def _report(
        self, digests: Sequence[Digest], pins: Sequence[Digest], mirror: MirrorState, *, full: bool
    ) -> list[BlobsAvailable]:
        self.number += 1
        parts = list(zip_longest(digest_chunks(digests), digest_chunks(pins), fillvalue=b"")) or [(b"", b"")]
        return [
            BlobsAvailable(
                self._instance,
                self._endpoint,
                self.connection_id,
                self.number,
                chunk,
                chunk == len(parts) - 1,
                full,
                added,
                ac_pins,
                *mirror,
            )
            for chunk, (added, ac_pins) in enumerate(parts)
        ]
