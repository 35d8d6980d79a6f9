"""What one life of an endpoint holds, as rows: blobs in chunks as they were named, and for each blob the chunk that named it last.

    first_chunk          floor                       full_from            next_chunk
        │  do not count    │  count                       │  count            │
        └── to be cleaned ─┴──────────────────────────────┴───────────────────┘
                                                          └─ at the end of the full report that is under way the floor comes here

A pair (blob, inventory) counts where the chunk it was named in last is not below the floor. So a wipe, and the end of a full report,
which both drop up to millions of pairs, raise one number; what they leave behind is cleaned a bit with each later event
(`projections.cleaning`). Everything here follows from the events alone: the rows do not depend on when they are written.
"""

from __future__ import annotations

from dataclasses import dataclass

from projections import keys
from projections.table import Table
from proto.gen.headway.v1.common_pb2 import Digests
from proto.gen.headway.v1.rows_pb2 import InventoryRow, LocalityRow

NUMBER_BYTES = COUNT_BYTES = 4

SPARE_DIGESTS = 32_768
SPARE_FACTOR = 3
"""Chunks are cleaned of what was evicted or named again once they list more than this many times what counts, and SPARE_DIGESTS more."""


@dataclass(slots=True)
class Inventory:
    """An inventory that an event changes: its row, that of the shard's sums, and where both stand. `keep` puts them back."""

    table: Table
    number: bytes
    row: InventoryRow
    sums: LocalityRow

    def keep(self) -> None:
        """The rows are as they are from now on; where there is something to clean, it is queued for that."""
        row, sums, table = self.row, self.sums, self.table
        if not row.cleaned and wants_cleaning(row):
            row.cleaned = True
            table.put(table.key(keys.CLEANING, keys.number(sums.next_cleaned)), self.number)
            sums.next_cleaned += 1
        table.put(table.key(keys.INVENTORY, self.number), row)
        table.put(table.key(keys.LOCALITY), sums)

    def chunk_key(self, chunk: int) -> bytes:
        """Where a chunk of blobs stands."""
        return self.table.key(keys.CHUNK, self.number + keys.number(chunk))

    def pin_key(self, chunk: int) -> bytes:
        """Where a chunk of pins stands."""
        return self.table.key(keys.PINS, self.number + keys.number(chunk))


def sums_of(table: Table) -> LocalityRow:
    """The shard's sums."""
    key = table.key(keys.LOCALITY)
    row = table.find(key, LocalityRow)
    if row is None:
        row = LocalityRow()
        table.put(key, row)
    return row


def new_inventory(table: Table, instance: str, endpoint: str) -> Inventory:
    """An empty one, under a number that none had before."""
    sums = sums_of(table)
    sums.inventories += 1
    number = sums.inventories.to_bytes(NUMBER_BYTES, "big")
    return Inventory(table, number, InventoryRow(instance=instance, endpoint=endpoint), sums)


def inventory_at(table: Table, number: int) -> Inventory:
    """The inventory with this number. Raises MissingRow."""
    packed = number.to_bytes(NUMBER_BYTES, "big")
    row = table.row(table.key(keys.INVENTORY, packed), InventoryRow)
    return Inventory(table, packed, row, sums_of(table))


def wants_cleaning(row: InventoryRow) -> bool:
    """Whether chunks below the floor are still stored, or the others list mostly what does not count any more."""
    if row.swept or row.first_chunk < row.floor:
        return True
    # Cleaning a chunk that counts names its blobs anew, so never while it matters which were named since when.
    return not row.HasField("full_from") and row.listed > SPARE_FACTOR * row.pairs + SPARE_DIGESTS


def pairs_in(table: Table, digests: bytes, number: bytes) -> list[bytes]:
    """The keys of the pairs of a serialised `Digests` with an inventory, sorted, each once."""
    prefix = table.prefix + keys.PAIR
    prefix_32 = prefix + b"\x20"
    found = []
    for item in Digests.FromString(digests).items:
        name = item.hash
        begin = prefix_32 if len(name) == 32 else prefix + bytes((len(name),))
        found.append(begin + name + item.size_bytes.to_bytes(8, "big") + number)
    # In their order a store finds neighbours where it has just been, and within a chunk no blob counts twice.
    found.sort()
    if len(set(found)) != len(found):
        found = list(dict.fromkeys(found))
    return found


def name_blobs(inventory: Inventory, digests: bytes) -> None:
    """The endpoint holds these blobs (a serialised `Digests`): a new chunk."""
    table, row = inventory.table, inventory.row
    pairs = pairs_in(table, digests, inventory.number)
    if not pairs:
        return
    present = [chunk for chunk in table.find_passing(pairs) if chunk is not None]
    counted = len(present)
    if row.floor:
        floor = keys.number(row.floor)
        counted = sum(chunk >= floor for chunk in present)
    _count(inventory, len(pairs) - counted)
    _count_garbage(inventory, counted - len(present))
    if row.HasField("full_from"):
        since = keys.number(row.full_from)
        row.named_since += len(pairs) - sum(chunk >= since for chunk in present)
    table.pass_on(dict.fromkeys(pairs, keys.number(row.next_chunk)))
    append_chunk(inventory, digests, len(pairs))


def append_chunk(inventory: Inventory, digests: bytes, count: int) -> None:
    """The youngest chunk: a serialised `Digests` of `count` different ones."""
    row = inventory.row
    inventory.table.pass_on({inventory.chunk_key(row.next_chunk): count.to_bytes(COUNT_BYTES, "big") + digests})
    row.next_chunk += 1
    row.listed += count


def listed_in(chunk: bytes) -> tuple[int, bytes]:
    """The row of a chunk: how many different digests it lists, and the serialised `Digests`."""
    return int.from_bytes(chunk[:COUNT_BYTES], "big"), chunk[COUNT_BYTES:]


def drop_blobs(inventory: Inventory, digests: bytes) -> None:
    """The endpoint does not hold these blobs (a serialised `Digests`); those it was not said to hold change nothing."""
    table, row = inventory.table, inventory.row
    pairs = pairs_in(table, digests, inventory.number)
    floor = keys.number(row.floor)
    found = zip(pairs, table.find_passing(pairs), strict=True)
    counted = {pair: chunk for pair, chunk in found if chunk is not None and chunk >= floor}
    table.pass_on(dict.fromkeys(counted))
    _count(inventory, -len(counted))
    if row.HasField("full_from"):
        since = keys.number(row.full_from)
        row.named_since -= sum(chunk >= since for chunk in counted.values())


def begin_report(inventory: Inventory, *, full: bool) -> None:
    """A report begins; one that was under way is abandoned, what it named stays."""
    abandon_report(inventory)
    if full:
        inventory.row.full_from = inventory.row.next_chunk


def end_report(inventory: Inventory) -> None:
    """The report is complete: its pins are the endpoint's, and of a full one, what was not named since it began is gone (PM8, A-1)."""
    row = inventory.row
    if row.HasField("full_from"):
        dropped = row.pairs - row.named_since
        row.floor = row.full_from
        _count(inventory, -dropped)
        _count_garbage(inventory, dropped)
        _forget_full(row)
    _delete_pins(inventory, row.first_pins, row.end_pins)
    row.first_pins, row.end_pins = row.end_pins, row.next_pins
    inventory.sums.pins += row.pins_to_come - row.pins
    row.pins, row.pins_to_come = row.pins_to_come, 0


def abandon_report(inventory: Inventory) -> None:
    """The rest of a report that is under way will not come. What it named counts; what it did not name does, too; its pins do not."""
    row = inventory.row
    _forget_full(row)
    _delete_pins(inventory, row.end_pins, row.next_pins)
    row.next_pins = row.end_pins
    row.pins_to_come = 0


def name_pins(inventory: Inventory, digests: bytes) -> None:
    """The report that is under way names these pins of the action cache (a serialised `Digests`)."""
    row = inventory.row
    named = {(item.hash, item.size_bytes) for item in Digests.FromString(digests).items}
    if named:
        inventory.table.pass_on({inventory.pin_key(row.next_pins): digests})
        row.next_pins += 1
        row.pins_to_come += len(named)


def wipe(inventory: Inventory) -> None:
    """Nothing that was named counts any more (E5, A-2)."""
    row = inventory.row
    abandon_report(inventory)
    _delete_pins(inventory, row.first_pins, row.end_pins)
    row.first_pins = row.end_pins
    inventory.sums.pins -= row.pins
    row.pins = 0
    row.floor = row.next_chunk
    _count_garbage(inventory, row.pairs)
    _count(inventory, -row.pairs)


def _count(inventory: Inventory, by: int) -> None:
    if by:
        inventory.row.pairs += by
        inventory.sums.pairs += by


def _count_garbage(inventory: Inventory, by: int) -> None:
    if by:
        inventory.row.garbage += by
        inventory.sums.garbage += by


def _forget_full(row: InventoryRow) -> None:
    row.ClearField("full_from")
    row.named_since = 0


def _delete_pins(inventory: Inventory, first: int, end: int) -> None:
    """As many deletions as facts have written them: no event pays for more than was put there before."""
    if first < end:
        inventory.table.pass_on({inventory.pin_key(chunk): None for chunk in range(first, end)})
