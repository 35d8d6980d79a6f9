"""Who holds most bytes of an action's inputs: ranking, bounds of what is read, exact bytes of one endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from events.values import Digest, Holding
from projections import locality
from projections.rows import MemoryRows
from tests.projections.endpoints import Endpoints, blob, blobs


@pytest.fixture
def ends() -> Endpoints:
    ends = Endpoints()
    ends.connect("a")
    ends.connect("b")
    return ends


def test_most_bytes_ranks_connected_endpoints_of_the_instance_by_bytes_and_name(ends: Endpoints) -> None:
    for name in ("c", "d", "gone"):
        ends.connect(name)
    ends.connect("n", instance="night")
    ends.report("a", 1, (10, 20))
    ends.report("b", 1, (30,))
    ends.report("c", 1, (5, 10))
    ends.report("d", 1, (7,))
    ends.report("gone", 1, (10, 20, 30))
    ends.report("n", 1, (10, 20, 30), instance="night")
    ends.disconnect("gone")
    inputs = [*blobs(5, 10, 20, 30), blob(30), blob(99), Digest(bytes(32), 0)]
    assert locality.most_bytes(ends.rows, 0, "main", inputs) == (Holding("a", 30), Holding("b", 30), Holding("c", 15))
    assert locality.most_bytes(ends.rows, 0, "main", inputs, most=1) == (Holding("a", 30),)
    assert locality.most_bytes(ends.rows, 0, "nowhere", inputs) == ()


def test_the_bytes_of_the_largest_inputs_count(ends: Endpoints) -> None:
    ends.report("a", 1, range(1, 101))
    inputs = blobs(*range(1, 101))
    (held,) = locality.most_bytes(ends.rows, 0, "main", inputs)
    assert held.bytes == sum(range(37, 101)) == locality.bytes_at(ends.rows, 0, "main", "a", inputs)


def test_holders_are_found_by_the_largest_inputs_of_all(ends: Endpoints) -> None:
    ends.report("a", 1, (84,))
    ends.report("b", 1, (85, 84))
    assert locality.most_bytes(ends.rows, 0, "main", blobs(*range(1, 101))) == (Holding("b", 169),)


def test_bytes_at_an_endpoint_are_what_counts_of_it(ends: Endpoints) -> None:
    ends.connect("a", instance="night")
    ends.report("a", 1, (10, 20, 30))
    ends.report("b", 1, (40,))
    inputs = [*blobs(10, 20, 40), blob(20), Digest(bytes(32), 0)]
    asked = [("main", "a"), ("main", "b"), ("night", "a"), ("main", "nobody")]
    assert [locality.bytes_at(ends.rows, 0, *each, inputs) for each in asked] == [30, 40, 0, 0]
    ends.evict("a", 20)
    assert locality.bytes_at(ends.rows, 0, "main", "a", inputs) == 10
    ends.wipe("a")
    assert locality.bytes_at(ends.rows, 0, "main", "a", inputs) == 0


@pytest.mark.parametrize(("endpoints", "named"), [(locality.HOLDERS_READ, 8), (locality.HOLDERS_READ + 1, 1)])
def test_an_input_that_many_hold_finds_nobody_and_still_counts(endpoints: int, named: int) -> None:
    ends = Endpoints()
    for number in range(endpoints):
        ends.connect(f"w{number:02}")
        ends.report(f"w{number:02}", 1, (500,))
    ends.report("w20", 2, (7,))
    found = locality.most_bytes(ends.rows, 0, "main", blobs(500, 7))
    assert found[0] == Holding("w20", 507)
    assert len(found) == named


class Counted(MemoryRows):
    """Rows that count what is read of them."""

    read = 0

    def get(self, key: bytes) -> bytes | None:
        self.read += 1
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.read += len(keys)
        return super().get_many(keys)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(start, end):
            self.read += 1
            yield row


def test_what_is_read_for_an_answer_does_not_grow_with_the_fleet() -> None:
    """A thousand workers that all hold the toolchain: every placement asked for all of them."""
    read = []
    for endpoints in (100, 1_000):
        ends = Endpoints()
        for number in range(endpoints):
            ends.connect(f"w{number:04}")
            ends.report(f"w{number:04}", 1, range(1, 65))
        rows = Counted()
        rows.write(ends.rows.by_key)
        assert locality.most_bytes(rows, 0, "main", blobs(*range(1, 65))) == ()
        assert locality.bytes_at(rows, 0, "main", "w0099", blobs(*range(1, 65))) == sum(range(1, 65))
        read.append(rows.read)
    assert read[0] == read[1] <= locality.INPUTS_ASKED * (locality.HOLDERS_READ + 1) + locality.INPUTS_COUNTED + 2
