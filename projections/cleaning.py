"""Cleans what endpoints do not hold any more out of the rows: a bounded bit with each event that can pay for it.

Raising a floor costs nothing and leaves pairs and chunks behind; naming blobs again and again leaves chunks that list what newer ones list.
Inventories with either stand in a queue. Each tick pays for one chunk of the first of them, each report for as many digests as it
named itself, so that cleaning keeps up with whatever makes it necessary, and no event has to clean more than a chunk beyond its share.
"""

from __future__ import annotations

from events.payloads import MAX_DIGESTS, digests_bytes
from projections import keys
from projections.inventory import Inventory, append_chunk, inventory_at, listed_in, pairs_in, wants_cleaning
from projections.table import MissingRow, Table
from proto.gen.headway.v1.rows_pb2 import LocalityRow

TICK_DIGESTS = MAX_DIGESTS
"""What a tick pays for: twice a second, that is 8,192 digests a second and shard."""

UNREAD_SHARE = 64
"""A chunk that is known to hold nothing costs this many times less than one whose digests are looked up."""


def clean(table: Table, digests: int) -> None:
    """Look at so many more digests of chunks that need it."""
    sums = table.find(table.key(keys.LOCALITY), LocalityRow)
    if sums is None or sums.first_cleaned == sums.next_cleaned:
        return
    sums.credit += digests
    while sums.credit > 0 and sums.first_cleaned < sums.next_cleaned:
        place = table.key(keys.CLEANING, keys.number(sums.first_cleaned))
        number = table.find_bytes(place)
        if number is None:
            raise MissingRow(f"the state table has no row {keys.readable(place)}")
        inventory = inventory_at(table, int.from_bytes(number, "big"))
        row = inventory.row
        if wants_cleaning(row) and row.first_chunk < row.next_chunk:
            sums.credit -= _clean_chunk(inventory)
            table.put(table.key(keys.INVENTORY, number), row)
            continue
        table.delete(place)
        sums.first_cleaned += 1
        row.cleaned = False
        if row.swept:
            table.delete(table.key(keys.INVENTORY, number))
        else:
            table.put(table.key(keys.INVENTORY, number), row)
    if sums.first_cleaned == sums.next_cleaned:
        sums.credit = 0  # what nothing needs is not saved up
    table.put(table.key(keys.LOCALITY), sums)


def _clean_chunk(inventory: Inventory) -> int:
    """Take the oldest chunk away: pairs that it was the last to name go with it below the floor, and else to a new chunk.

    Returns how many digests were looked at, or what costs as much.
    """
    table, row, sums = inventory.table, inventory.row, inventory.sums
    chunk = row.first_chunk
    key = inventory.chunk_key(chunk)
    (stored,) = table.find_passing([key])
    if stored is None:
        raise MissingRow(f"the state table has no row {keys.readable(key)}")
    listed, digests = listed_in(stored)
    below = chunk < row.floor
    table.pass_on({key: None})
    row.first_chunk += 1
    row.listed -= listed
    if below and not row.garbage:
        return 1 + listed // UNREAD_SHARE  # all were named again since, as a full report mostly does
    pairs = pairs_in(table, digests, inventory.number)
    named = keys.number(chunk)
    last = [pair for pair, found in zip(pairs, table.find_passing(pairs), strict=True) if found == named]
    if below:
        table.pass_on(dict.fromkeys(last))
        row.garbage -= len(last)
        sums.garbage -= len(last)
    elif last:
        table.pass_on(dict.fromkeys(last, keys.number(row.next_chunk)))
        append_chunk(inventory, digests_bytes(map(keys.digest_in, last)), len(last))
    return 1 + len(pairs)
