"""What changes the rows of endpoints and of what they hold (section 6). Touches no other rows, so that it can be folded alone.

The decider's own store and the state table fold the same events with it. It needs of the table only the shard's leader epoch, which
its own fold of `LeaderElected` keeps.
"""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.payloads import digests_bytes
from events.reasons import WipeCause
from projections import keys
from projections.cleaning import TICK_DIGESTS, clean
from projections.inventory import (
    Inventory,
    abandon_report,
    begin_report,
    drop_blobs,
    end_report,
    inventory_at,
    name_blobs,
    name_pins,
    new_inventory,
    wipe,
)
from projections.table import Table
from proto.gen.headway.v1.common_pb2 import Digests
from proto.gen.headway.v1.rows_pb2 import EndpointRow, StableRow

CONNECTION_FIELDS = ("report", "next_chunk", "full", "report_open", "disconnected_at_us")
"""Of a connection: report numbers begin anew with it."""

PROCESS_FIELDS = ("mirror_pending", "mirror_pinned", "mirror_pinned_bytes")
"""Of a process of the worker, which is what a boot epoch names (Q-1)."""


def endpoint_at(table: Table, instance: str, endpoint: str) -> tuple[bytes, EndpointRow]:
    """The key and row of an endpoint. Raises MissingRow."""
    key = table.prefix + keys.of_endpoint(instance, endpoint)
    return key, table.row(key, EndpointRow)


def _leader_elected(table: Table, event: e.LeaderElected) -> None:
    """Every endpoint is unconfirmed from now on: it was last heard in a smaller leader epoch."""
    table.shard.leader_epoch = event.leader_epoch


def _worker_admitted(table: Table, event: e.WorkerAdmitted) -> None:
    """The connection owns the endpoint. What its last process held went with the wipe before this, where it was another one (E2-E4)."""
    key = table.prefix + keys.of_endpoint(event.instance, event.endpoint)
    row = table.find(key, EndpointRow)
    taken = _stable_taken(table, event.instance)
    if row is None:
        inventory = new_inventory(table, event.instance, event.endpoint)
        row = EndpointRow(instance=event.instance, endpoint=event.endpoint, first_seen_us=event.at_us)
        row.number = int.from_bytes(inventory.number, "big")
        inventory.sums.endpoints += 1
    else:
        inventory = inventory_at(table, row.number)
        _settle_stable(row, taken)
    abandon_report(inventory)
    inventory.keep()
    for name in CONNECTION_FIELDS:
        row.ClearField(name)
    row.boot_epoch = event.boot_epoch
    row.connection_id = event.connection_id
    row.confirmed_in = table.shard.leader_epoch
    row.blobs_url = event.blobs_url
    row.connected_at_us = event.at_us
    row.stable_seen = taken
    table.put(key, row)


def _worker_disconnected(table: Table, event: e.WorkerDisconnected) -> None:
    """Nobody owns the endpoint. Its row stays, with its epoch (6.9), and so does what it held until the event that wipes it."""
    key, row = endpoint_at(table, event.instance, event.endpoint)
    inventory = inventory_at(table, row.number)
    abandon_report(inventory)
    inventory.keep()
    _settle_stable(row, _stable_taken(table, event.instance))
    row.report_open = False
    row.connection_id = 0
    row.disconnected_at_us = event.at_us
    table.put(key, row)


def _blobs_available(table: Table, event: e.BlobsAvailable) -> None:
    """A chunk of a report. What it names counts at once; what it does not name goes with the last chunk of a full one (PM8)."""
    key, row = endpoint_at(table, event.instance, event.endpoint)
    inventory = inventory_at(table, row.number)
    if event.report != row.report or not row.report_open:
        begin_report(inventory, full=event.full)
    before = inventory.row.listed
    if event.added:
        name_blobs(inventory, event.added)
    named = inventory.row.listed - before
    if event.ac_pins:
        name_pins(inventory, event.ac_pins)
    if event.last:
        end_report(inventory)
    inventory.keep()
    row.advertised = True
    row.report = event.report
    row.next_chunk = event.chunk + 1
    row.full = event.full
    row.report_open = not event.last
    row.reported_at_us = event.at_us
    row.mirror_pending = event.mirror_pending
    row.mirror_pinned = event.mirror_pinned
    row.mirror_pinned_bytes = event.mirror_pinned_bytes
    table.put(key, row)
    clean(table, named)


def _blobs_evicted(table: Table, event: e.BlobsEvicted) -> None:
    _drop(table, event.instance, event.endpoint, event.digests)


def _peer_fetch_failed(table: Table, event: e.PeerFetchFailed) -> None:
    """Only failures that prove that the peer lost the blob become this event (PM11)."""
    _drop(table, event.instance, event.endpoint, digests_bytes((event.digest,)))


def _drop(table: Table, instance: str, endpoint: str, digests: bytes) -> None:
    _, row = endpoint_at(table, instance, endpoint)
    inventory = inventory_at(table, row.number)
    drop_blobs(inventory, digests)
    inventory.keep()


def _locality_wiped(table: Table, event: e.LocalityWiped) -> None:
    """Blobs, pins and the mirror's state in one step, so that nothing of the epoch is left anywhere (E5, Q-1)."""
    key, row = endpoint_at(table, event.instance, event.endpoint)
    _wipe(inventory_at(table, row.number), row)
    row.wipes += 1
    row.wiped = event.cause
    row.wiped_at_us = event.at_us
    row.wiped_epoch = event.boot_epoch
    if event.cause != WipeCause.DISCONNECTED:  # the process is gone, and with it what it kept for others (S-6)
        row.unacknowledged = 0
        row.stable_seen = _stable_taken(table, event.instance)
    table.put(key, row)


def _wipe(inventory: Inventory, row: EndpointRow) -> None:
    wipe(inventory)
    inventory.keep()
    row.advertised = False
    for name in PROCESS_FIELDS:
        row.ClearField(name)


def _endpoint_confirmed(table: Table, event: e.EndpointConfirmed) -> None:
    key, row = endpoint_at(table, event.instance, event.endpoint)
    row.confirmed_in = table.shard.leader_epoch
    table.put(key, row)


def _endpoint_swept(table: Table, event: e.EndpointSwept) -> None:
    """The endpoint is forgotten; one that is connected and only silent keeps its row, since its worker is still there (PM9)."""
    key, row = endpoint_at(table, event.instance, event.endpoint)
    inventory = inventory_at(table, row.number)
    if row.connection_id:
        _wipe(inventory, row)
        row.unacknowledged = 0
        row.stable_seen = _stable_taken(table, event.instance)
        table.put(key, row)
    else:
        wipe(inventory)
        inventory.row.swept = True
        inventory.sums.endpoints -= 1
        inventory.keep()
        table.delete(key)


def _blobs_stable(table: Table, event: e.BlobsStable) -> None:
    """Every connected endpoint of the instance is owed the chunk; their rows say so without being touched (`unacknowledged_of`)."""
    key = _stable_key(table, event.instance)
    row = table.find(key, StableRow) or StableRow()
    row.chunks += 1
    row.digests += len(Digests.FromString(event.digests).items)
    row.broadcasts += event.last
    row.last_at_us = event.at_us
    table.put(key, row)


def _stable_acknowledged(table: Table, event: e.BlobsStableAcknowledged) -> None:
    key, row = endpoint_at(table, event.instance, event.endpoint)
    row.unacknowledged -= 1
    row.acknowledged += 1
    table.put(key, row)


def _chunks_dropped(table: Table, event: e.StableChunksDropped) -> None:
    key, row = endpoint_at(table, event.instance, event.endpoint)
    row.unacknowledged -= event.chunks
    row.chunks_dropped += event.chunks
    table.put(key, row)


def _worker_flapping(table: Table, event: e.WorkerFlapping) -> None:
    key, row = endpoint_at(table, event.instance, event.endpoint)
    row.flaps += 1
    row.flapped_at_us = event.at_us
    row.flap_changes = event.changes
    row.flap_within_us = event.within_us
    table.put(key, row)


def _ticked(table: Table, event: e.Ticked) -> None:
    clean(table, TICK_DIGESTS)


def unacknowledged_of(row: EndpointRow, stable: StableRow | None) -> int:
    """How many chunks of stable blobs the endpoint still has to acknowledge; `stable` is the row of its instance, if any."""
    since = (stable.chunks if stable else 0) - row.stable_seen if row.connection_id else 0
    return row.unacknowledged + since


def _settle_stable(row: EndpointRow, taken: int) -> None:
    """Put down what a connected endpoint is owed, before it ceases to be connected."""
    if row.connection_id:
        row.unacknowledged += taken - row.stable_seen
        row.stable_seen = taken


def _stable_taken(table: Table, instance: str) -> int:
    row = table.find(_stable_key(table, instance), StableRow)
    return row.chunks if row else 0


def _stable_key(table: Table, instance: str) -> bytes:
    return table.key(keys.STABLE, instance.encode())


LOCALITY_FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.LeaderElected: _leader_elected,
    e.Ticked: _ticked,
    e.WorkerAdmitted: _worker_admitted,
    e.WorkerDisconnected: _worker_disconnected,
    e.BlobsAvailable: _blobs_available,
    e.BlobsEvicted: _blobs_evicted,
    e.PeerFetchFailed: _peer_fetch_failed,
    e.LocalityWiped: _locality_wiped,
    e.EndpointConfirmed: _endpoint_confirmed,
    e.EndpointSwept: _endpoint_swept,
    e.BlobsStable: _blobs_stable,
    e.BlobsStableAcknowledged: _stable_acknowledged,
    e.StableChunksDropped: _chunks_dropped,
    e.WorkerFlapping: _worker_flapping,
}
