"""Events of endpoints, folded one by one: what the tests of locality are written in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from events import events as e
from events.payloads import digests_bytes
from events.reasons import DisconnectReason, FetchFailure, SweepCause, WipeCause
from events.values import Digest
from projections import keys, locality
from projections.blob_pages import blobs_of
from projections.inventory import inventory_at
from projections.locality_fold import LOCALITY_FOLDS, endpoint_at
from projections.rows import MemoryRows, Rows
from projections.table import Table


def blob(number: int, size_bytes: int = 0) -> Digest:
    """A digest that is told by its number."""
    return Digest(number.to_bytes(32, "big"), size_bytes or number)


def blobs(*numbers: int) -> list[Digest]:
    return [blob(number) for number in numbers]


def named(digests: Iterable[Digest]) -> set[int]:
    return {int.from_bytes(digest.hash, "big") for digest in digests}


class Endpoints:
    """A shard's endpoints, changed by events. With `flush_always` every event is written before the next one."""

    def __init__(self, rows: Rows | None = None, *, flush_always: bool = True, kept_rows: int = 1000) -> None:
        self.rows = rows or MemoryRows()
        self.table = Table(self.rows, 0, kept_rows=kept_rows)
        self.flush_always = flush_always
        self.fold(e.LeaderElected, leader_epoch=1)

    def fold(self, kind: type, **values: Any) -> None:
        seq = self.table.shard.seq + 1
        LOCALITY_FOLDS[kind](self.table, kind(seq, 1_000_000 * seq, seq, **values))
        self.table.shard.seq = seq
        if self.flush_always:
            self.table.flush()

    def elect(self) -> None:
        self.fold(e.LeaderElected, leader_epoch=self.table.shard.leader_epoch + 1)

    def connect(self, name: str, epoch: int = 1, connection: int = 1, instance: str = "main") -> None:
        url = f"http://{name}:80"
        place = {"instance": instance, "endpoint": name}
        self.fold(e.WorkerAdmitted, **place, boot_epoch=epoch, connection_id=connection, blobs_url=url)

    def disconnect(self, name: str, connection: int = 1, instance: str = "main") -> None:
        reason = DisconnectReason.GONE
        self.fold(e.WorkerDisconnected, instance=instance, endpoint=name, connection_id=connection, reason=reason)

    def report(
        self,
        name: str,
        report: int,
        numbers: Iterable[int] = (),
        *,
        chunk: int = 0,
        last: bool = True,
        full: bool = False,
        pins: Iterable[int] = (),
        mirror: tuple[int, int, int] = (0, 0, 0),
        instance: str = "main",
    ) -> None:
        self.fold(
            e.BlobsAvailable,
            instance=instance,
            endpoint=name,
            connection_id=1,
            report=report,
            chunk=chunk,
            last=last,
            full=full,
            added=digests_bytes(blobs(*numbers)),
            ac_pins=digests_bytes(blobs(*pins)),
            mirror_pending=mirror[0],
            mirror_pinned=mirror[1],
            mirror_pinned_bytes=mirror[2],
        )

    def evict(self, name: str, *numbers: int) -> None:
        digests = digests_bytes(blobs(*numbers))
        self.fold(e.BlobsEvicted, instance="main", endpoint=name, connection_id=1, digests=digests)

    def miss(self, name: str, number: int) -> None:
        failure = FetchFailure.NOT_FOUND
        self.fold(e.PeerFetchFailed, instance="main", endpoint=name, digest=blob(number), failure=failure)

    def wipe(self, name: str, epoch: int = 1, cause: WipeCause = WipeCause.EPOCH_CHANGED) -> None:
        self.fold(e.LocalityWiped, instance="main", endpoint=name, boot_epoch=epoch, cause=cause)

    def sweep(self, name: str, cause: SweepCause = SweepCause.GONE) -> None:
        self.fold(e.EndpointSwept, instance="main", endpoint=name, boot_epoch=1, cause=cause)

    def stable(self, *numbers: int, instance: str = "main") -> None:
        self.fold(e.BlobsStable, instance=instance, broadcast=1, digests=digests_bytes(blobs(*numbers)))

    def acknowledge(self, name: str, chunk_seq: int) -> None:
        place = {"instance": "main", "endpoint": name}
        self.fold(e.BlobsStableAcknowledged, **place, connection_id=1, chunk_seq=chunk_seq)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.fold(e.Ticked)

    # -- what the rows say ------------------------------------------------------------------------------------------------------

    def flushed(self) -> Rows:
        self.table.flush()
        return self.rows

    def held(self, name: str) -> set[int]:
        found = blobs_of(self.flushed(), 0, "main", name, limit=1 << 30).blobs
        assert len(set(found)) == len(found), "a blob is listed twice"
        return named(found)

    def pins(self, name: str) -> set[int]:
        return named(locality.pins_of(self.flushed(), 0, "main", name, limit=1 << 30))

    def holders(self, number: int) -> list[str]:
        return [holder.endpoint for holder in locality.holders(self.flushed(), 0, blob(number), "main")]

    def view(self, name: str, instance: str = "main") -> locality.EndpointView:
        view = locality.endpoint(self.flushed(), 0, instance, name)
        assert view is not None, f"nothing is known of {name}"
        return view

    def stats(self) -> locality.Stats:
        return locality.stats(self.flushed(), 0)

    def stored(self, letter: bytes) -> int:
        """How many rows of a kind there are."""
        self.table.flush()
        return sum(1 for _ in self.table.scan(self.table.key(letter)))

    def garbage_stored(self) -> int:
        """How many pairs are stored that no inventory counts, looked up one by one."""
        self.table.flush()
        live = {}
        for key, _ in self.table.scan(self.table.key(keys.INVENTORY)):
            row = inventory_at(self.table, int.from_bytes(key[5:], "big")).row
            live[key[5:]] = row.floor if not row.swept else 1 << 63
        pairs = self.table.scan(self.table.key(keys.PAIR))
        return sum(int.from_bytes(chunk, "big") < live[keys.inventory_in(key)] for key, chunk in pairs)

    def number(self, name: str) -> int:
        return endpoint_at(self.table, "main", name)[1].number
