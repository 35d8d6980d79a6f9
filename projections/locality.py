"""Which endpoint holds which blob, answered from the rows of one shard (section 6).

Every answer is as of the rows it is asked of: read the shard's position from the same ones. A digest's pairs stand together, so "who has
it" is one short scan, however many blobs are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice

from events.payloads import digests_of
from events.reasons import WipeCause
from events.values import Digest, Holding
from projections import keys
from projections.locality_fold import unacknowledged_of
from projections.rows import RowReader, Rows
from projections.shard_state import ShardState
from proto.gen.headway.v1.rows_pb2 import EndpointRow, InventoryRow, LocalityRow, StableRow

INPUTS_COUNTED = 64
"""Of an action's inputs, how many are counted: the largest ones, which hold nearly all of its bytes."""

INPUTS_ASKED = 16
"""Of those, of how many it is asked who holds them."""

HOLDERS_READ = 32
"""So many pairs of an input are read to find who holds it. One with more is common, and finds nobody."""


@dataclass(frozen=True, slots=True)
class Holder:
    """An endpoint that was said to hold a blob, and did not say since that it lost it."""

    instance: str
    endpoint: str
    boot_epoch: int
    blobs_url: str
    """Where to fetch it; empty: nowhere."""
    confirmed: bool
    """Heard under the present leader."""
    connected: bool


@dataclass(frozen=True, slots=True)
class EndpointView:
    """What is known of an endpoint. Instants are microseconds of scheduler time; 0: never."""

    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    """Who owns it; 0: nobody any more."""
    connected: bool
    confirmed: bool
    """Heard under the present leader, or nothing would be lost."""
    blobs_url: str
    first_seen_us: int
    connected_at_us: int
    disconnected_at_us: int
    blobs: int
    """Pairs that count."""
    pins: int
    """Pins of the action cache, as named by its last complete report; a report names each once."""
    report: int
    """Number of its present or last report in this connection; 0: none."""
    report_chunks: int
    report_full: bool
    report_open: bool
    """Chunks are still to come."""
    reported_at_us: int
    named_since: int
    """Blobs named since its full report began, while that is under way."""
    mirror_pending: int
    mirror_pinned: int
    mirror_pinned_bytes: int
    unacknowledged: int
    """Chunks of stable blobs it still has to acknowledge."""
    acknowledged: int
    chunks_dropped: int
    flaps: int
    """Warnings ever."""
    flapped_at_us: int
    flap_changes: int
    flap_within_us: int
    wipes: int
    wiped: WipeCause
    wiped_at_us: int
    wiped_epoch: int
    garbage: int
    """Pairs that do not count any more and are still stored."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Sums over a shard."""

    endpoints: int
    connected: int
    unconfirmed: int
    """Endpoints with something to lose that were not heard under the present leader."""
    pairs: int
    pins: int
    garbage: int
    """Pairs that do not count any more and are still stored."""
    unacknowledged: int
    """Chunks of stable blobs, over all endpoints."""
    mirror_pending: int
    mirror_pinned: int
    mirror_pinned_bytes: int
    stable_chunks: int
    stable_digests: int
    stable_broadcasts: int


def holders(rows: RowReader, shard: int, digest: Digest, instance: str = "") -> list[Holder]:
    """Who holds the blob, by instance and endpoint; only those of `instance` unless it is empty."""
    leader_epoch = _leader_epoch(rows, shard)
    found = []
    for number, chunk in _pairs_of(rows, shard, digest):
        inventory = _inventory(rows, shard, number)
        if _counts(inventory, chunk) and instance in ("", inventory.instance):
            row = _endpoint(rows, shard, inventory.instance, inventory.endpoint)
            if row is not None:
                found.append(
                    Holder(
                        row.instance,
                        row.endpoint,
                        row.boot_epoch,
                        row.blobs_url,
                        row.confirmed_in >= leader_epoch,
                        row.connection_id != 0,
                    )
                )
    return sorted(found, key=lambda holder: (holder.instance, holder.endpoint))


def most_bytes(rows: Rows, shard: int, instance: str, inputs: Sequence[Digest], most: int = 8) -> tuple[Holding, ...]:
    """Which connected endpoints of the instance hold how many bytes of `inputs`: at most `most`, the most bytes first, ties by name.

    Bounded, however many endpoints there are: they are found by the INPUTS_ASKED largest inputs, and an input of which more than
    HOLDERS_READ pairs are stored is skipped there, since what everybody has speaks for nobody. (Pairs of other instances are pairs too, and
    so are those that do not count any more, until they are cleaned.) So who holds nothing but common inputs, or only smaller ones, is not
    named. The bytes of those that were found are exact: `bytes_at`.
    """
    held: dict[bytes, int] = {}
    inventories: dict[bytes, InventoryRow] = {}
    counted = largest(inputs)
    for digest in counted[:INPUTS_ASKED]:
        pairs = _first_pairs_of(rows, shard, digest, HOLDERS_READ + 1)
        if len(pairs) > HOLDERS_READ:
            continue
        for number, chunk in pairs:
            inventory = inventories.get(number)
            if inventory is None:
                inventory = inventories[number] = _inventory(rows, shard, number)
            if inventory.instance == instance and _counts(inventory, chunk):
                held[number] = held.get(number, 0) + digest.size_bytes
    ranked = sorted((-count, inventories[number].endpoint) for number, count in held.items())
    found: list[Holding] = []
    for _, name in ranked:
        if len(found) == most:
            break
        row = _endpoint(rows, shard, instance, name)
        if row is not None and row.connection_id:
            found.append(Holding(name, bytes_at(rows, shard, instance, name, counted)))
    return tuple(sorted(found, key=lambda holding: (-holding.bytes, holding.endpoint)))


def bytes_at(rows: Rows, shard: int, instance: str, endpoint: str, inputs: Sequence[Digest]) -> int:
    """How many bytes of the INPUTS_COUNTED largest of `inputs` the endpoint holds; one that stands twice counts once."""
    row = _endpoint(rows, shard, instance, endpoint)
    if row is None:
        return 0
    number = row.number.to_bytes(4, "big")
    inventory = _inventory(rows, shard, number)
    prefix = keys.shard_prefix(shard)
    sizes = {prefix + keys.of_digest(digest) + number: digest.size_bytes for digest in largest(inputs)}
    pairs = sorted(sizes)
    return sum(
        sizes[pair]
        for pair, chunk in zip(pairs, rows.get_many(pairs), strict=True)
        if chunk is not None and _counts(inventory, chunk)
    )


def largest(inputs: Sequence[Digest]) -> tuple[Digest, ...]:
    """The inputs that are counted: the INPUTS_COUNTED largest, the largest first, equals as they stand, each once, no empty one."""
    distinct = dict.fromkeys(digest for digest in inputs if digest.size_bytes)
    return tuple(nlargest(INPUTS_COUNTED, distinct, key=lambda digest: digest.size_bytes))


def endpoint(rows: RowReader, shard: int, instance: str, endpoint: str) -> EndpointView | None:
    """What is known of an endpoint, or None."""
    row = _endpoint(rows, shard, instance, endpoint)
    return None if row is None else _view(rows, shard, row, _leader_epoch(rows, shard))


def endpoints(rows: RowReader, shard: int, instance: str = "") -> Iterator[EndpointView]:
    """Every endpoint, by instance and name; only those of `instance` unless it is empty."""
    leader_epoch = _leader_epoch(rows, shard)
    for row in _endpoints(rows, shard, instance):
        yield _view(rows, shard, row, leader_epoch)


def pins_of(rows: RowReader, shard: int, instance: str, endpoint: str, limit: int = 1000) -> list[Digest]:
    """Pins of the action cache of an endpoint: at most `limit` of its last complete set, each once."""
    row = _endpoint(rows, shard, instance, endpoint)
    if row is None:
        return []
    number = row.number.to_bytes(4, "big")
    inventory = _inventory(rows, shard, number)
    chunks = keys.shard_prefix(shard) + keys.PINS + number
    found: dict[Digest, None] = {}
    for _, value in rows.scan(chunks + keys.number(inventory.first_pins), chunks + keys.number(inventory.end_pins)):
        found.update(dict.fromkeys(digests_of(value)))
        if len(found) >= limit:
            break
    return list(found)[:limit]


def stats(rows: RowReader, shard: int) -> Stats:
    """Sums over the shard. Looks at every endpoint, at no blob."""
    leader_epoch = _leader_epoch(rows, shard)
    prefix = keys.shard_prefix(shard)
    stored = rows.get(prefix + keys.LOCALITY)
    sums = LocalityRow() if stored is None else LocalityRow.FromString(stored)
    stable = {
        key[len(prefix) + 1 :].decode(): StableRow.FromString(value)
        for key, value in rows.scan(prefix + keys.STABLE, keys.after_prefix(prefix + keys.STABLE))
    }
    connected = unconfirmed = unacknowledged = pending = pinned = pinned_bytes = 0
    for row in _endpoints(rows, shard, ""):
        owed = unacknowledged_of(row, stable.get(row.instance))
        connected += row.connection_id != 0
        unconfirmed += not _confirmed(row, owed, leader_epoch)
        unacknowledged += owed
        pending += row.mirror_pending
        pinned += row.mirror_pinned
        pinned_bytes += row.mirror_pinned_bytes
    return Stats(
        endpoints=sums.endpoints,
        connected=connected,
        unconfirmed=unconfirmed,
        pairs=sums.pairs,
        pins=sums.pins,
        garbage=sums.garbage,
        unacknowledged=unacknowledged,
        mirror_pending=pending,
        mirror_pinned=pinned,
        mirror_pinned_bytes=pinned_bytes,
        stable_chunks=sum(row.chunks for row in stable.values()),
        stable_digests=sum(row.digests for row in stable.values()),
        stable_broadcasts=sum(row.broadcasts for row in stable.values()),
    )


def _pairs_of(rows: RowReader, shard: int, digest: Digest) -> list[tuple[bytes, bytes]]:
    """(inventory, chunk) of every pair of the digest that is stored."""
    return _first_pairs_of(rows, shard, digest, None)


def _first_pairs_of(rows: RowReader, shard: int, digest: Digest, most: int | None) -> list[tuple[bytes, bytes]]:
    prefix = keys.shard_prefix(shard) + keys.of_digest(digest)
    found = islice(rows.scan(prefix, keys.after_prefix(prefix)), most)
    return [(keys.inventory_in(key), chunk) for key, chunk in found]


def _counts(inventory: InventoryRow, chunk: bytes) -> bool:
    return not inventory.swept and int.from_bytes(chunk, "big") >= inventory.floor


def _inventory(rows: RowReader, shard: int, number: bytes) -> InventoryRow:
    stored = rows.get(keys.shard_prefix(shard) + keys.INVENTORY + number)
    # Pairs go before the inventory does; one without it counts for nobody.
    return InventoryRow(swept=True) if stored is None else InventoryRow.FromString(stored)


def _endpoint(rows: RowReader, shard: int, instance: str, endpoint: str) -> EndpointRow | None:
    stored = rows.get(keys.shard_prefix(shard) + keys.of_endpoint(instance, endpoint))
    return None if stored is None else EndpointRow.FromString(stored)


def _endpoints(rows: RowReader, shard: int, instance: str) -> list[EndpointRow]:
    prefix = keys.shard_prefix(shard) + keys.ENDPOINT + (keys.named(instance) if instance else b"")
    return [EndpointRow.FromString(value) for _, value in rows.scan(prefix, keys.after_prefix(prefix))]


def _leader_epoch(rows: RowReader, shard: int) -> int:
    return ShardState.of_bytes(rows.get(keys.shard_prefix(shard) + keys.SHARD)).leader_epoch


def _confirmed(row: EndpointRow, owed: int, leader_epoch: int) -> bool:
    return row.confirmed_in >= leader_epoch or not (row.advertised or owed)


def _view(rows: RowReader, shard: int, row: EndpointRow, leader_epoch: int) -> EndpointView:
    inventory = _inventory(rows, shard, row.number.to_bytes(4, "big"))
    stored = rows.get(keys.shard_prefix(shard) + keys.STABLE + row.instance.encode())
    owed = unacknowledged_of(row, None if stored is None else StableRow.FromString(stored))
    return EndpointView(
        instance=row.instance,
        endpoint=row.endpoint,
        boot_epoch=row.boot_epoch,
        connection_id=row.connection_id,
        connected=row.connection_id != 0,
        confirmed=_confirmed(row, owed, leader_epoch),
        blobs_url=row.blobs_url,
        first_seen_us=row.first_seen_us,
        connected_at_us=row.connected_at_us,
        disconnected_at_us=row.disconnected_at_us,
        blobs=inventory.pairs,
        pins=inventory.pins,
        report=row.report,
        report_chunks=row.next_chunk,
        report_full=row.full,
        report_open=row.report_open,
        reported_at_us=row.reported_at_us,
        named_since=inventory.named_since,
        mirror_pending=row.mirror_pending,
        mirror_pinned=row.mirror_pinned,
        mirror_pinned_bytes=row.mirror_pinned_bytes,
        unacknowledged=owed,
        acknowledged=row.acknowledged,
        chunks_dropped=row.chunks_dropped,
        flaps=row.flaps,
        flapped_at_us=row.flapped_at_us,
        flap_changes=row.flap_changes,
        flap_within_us=row.flap_within_us,
        wipes=row.wipes,
        wiped=WipeCause(row.wiped),
        wiped_at_us=row.wiped_at_us,
        wiped_epoch=row.wiped_epoch,
        garbage=inventory.garbage,
    )
