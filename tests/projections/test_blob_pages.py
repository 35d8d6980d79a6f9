"""Pages of an endpoint's blobs: nothing that is held all the while is missed, whatever moves between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.values import Digest
from projections import keys
from projections.blob_pages import InvalidMark, Mark, MarkRefused, Page, blobs_of
from tests.projections.endpoints import Endpoints, named

MOST = 9
NUMBERS = st.lists(st.integers(1, MOST), max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("report"), NUMBERS, st.booleans(), st.booleans()),
    st.tuples(st.just("evict"), NUMBERS.filter(bool)),
    st.tuples(st.just("miss"), st.integers(1, MOST)),
    st.tuples(st.just("again")),
    st.tuples(st.just("tick"), st.integers(1, 3)),
    st.tuples(st.just("wipe")),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("page"), st.integers(1, 3)),
)


@pytest.fixture
def ends() -> Endpoints:
    ends = Endpoints()
    ends.connect("a")
    return ends


@pytest.fixture
def cleaned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are cleaned as soon as they list anything twice, a few digests with each tick."""
    monkeypatch.setattr("projections.inventory.SPARE_DIGESTS", 0)
    monkeypatch.setattr("projections.inventory.SPARE_FACTOR", 1)
    monkeypatch.setattr("projections.locality_fold.TICK_DIGESTS", 2)


def page(ends: Endpoints, limit: int, after: Mark | None = None, name: str = "a") -> Page:
    found = blobs_of(ends.flushed(), 0, "main", name, limit, after)
    assert len(set(found.blobs)) == len(found.blobs) <= limit
    return found


def rest(ends: Endpoints, after: Mark | None, limit: int) -> list[Digest]:
    found: list[Digest] = []
    while after is not None:
        part = page(ends, limit, after)
        found += part.blobs
        after = part.next
    return found


def test_blobs_are_listed_in_pages_each_once(ends: Endpoints) -> None:
    ends.report("a", 1, range(1, 8), full=True)
    ends.report("a", 2, (3, 8, 9, 8))
    first = page(ends, 2)
    pages = [first]
    while pages[-1].next is not None:
        pages.append(page(ends, 2, pages[-1].next))
    assert [sorted(named(part.blobs)) for part in pages] == [[1, 2], [4, 5], [6, 7], [3, 8], [9]]
    assert page(ends, 9).next is None, "a page that the last blob fills has no other behind it"
    assert blobs_of(ends.rows, 0, "main", "nobody") == Page()


def test_a_full_report_between_two_pages_hides_nothing(ends: Endpoints) -> None:
    ends.report("a", 1, (9, 10, 11, 12), full=True)
    ends.report("a", 2, (1, 2, 3, 4))
    first = page(ends, 5)
    ends.report("a", 3, (1, 2, 3, 4, 9, 10, 11, 12), full=True)
    assert named(first.blobs) | named(rest(ends, first.next, 5)) == ends.held("a") == {*range(1, 5), *range(9, 13)}


@pytest.mark.usefixtures("cleaned_at_once")
def test_cleaning_between_two_pages_hides_nothing(ends: Endpoints) -> None:
    for number in range(5):
        ends.report("a", number + 1, range(4 * number + 1, 4 * number + 5))
    for number in (6, 7):
        ends.report("a", number, (17, 18, 19, 20))
    first = page(ends, 4)
    chunks = list(ends.table.scan(ends.table.key(keys.CHUNK)))
    ends.tick(4)
    assert chunks[0] not in list(ends.table.scan(ends.table.key(keys.CHUNK))), "nothing was cleaned"
    assert named(first.blobs) | named(rest(ends, first.next, 4)) == set(range(1, 21))


def test_an_eviction_of_the_last_blob_of_a_page_and_of_the_next_does_not_stop_the_list(ends: Endpoints) -> None:
    ends.report("a", 1, range(1, 7))
    first = page(ends, 2)
    ends.evict("a", 2, 3)
    assert named(rest(ends, first.next, 2)) == {4, 5, 6}


def test_an_endpoint_that_was_forgotten_and_is_known_again_is_listed_from_its_beginning(ends: Endpoints) -> None:
    ends.report("a", 1, range(1, 7))
    first = page(ends, 4)
    ends.disconnect("a")
    ends.sweep("a")
    assert rest(ends, first.next, 4) == []
    ends.connect("a")
    ends.report("a", 1, (1, 2, 3))
    assert named(rest(ends, first.next, 4)) == {1, 2, 3}


def changed(mark: Mark, **values: int) -> Mark:
    given = {"inventory": mark.inventory, "chunk": mark.chunk, "position": mark.position, "seq": mark.seq}
    return Mark(**(given | values))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda mark: changed(mark, seq=mark.seq + 100), "as of event 105, and the table stands at event 5"),
        (lambda mark: changed(mark, chunk=mark.chunk + 7), "there has been no such place"),
        (lambda mark: changed(mark, inventory=1 << 33), "there has been no such place"),
        (lambda mark: changed(mark, inventory=1), "one of a of instance main"),
        (lambda mark: changed(mark, inventory=mark.inventory + 1), "there has been no such place"),
    ],
)
def test_a_mark_that_is_not_of_this_endpoint_or_table_is_refused(
    ends: Endpoints, change: Callable[[Mark], Mark], said: str
) -> None:
    ends.connect("b", connection=2)
    ends.report("a", 1, (1, 2, 3))
    ends.report("b", 1, (1, 2, 3))
    mark = page(ends, 1, name="b").next
    assert mark is not None
    assert len(page(ends, 9, mark, "b").blobs) == 2
    with pytest.raises(MarkRefused, match=said):
        page(ends, 1, change(mark), "b")


def test_a_mark_is_read_as_it_is_printed() -> None:
    mark = Mark(3, 1 << 40, 4095, 1 << 60)
    assert Mark.of_text(str(mark)) == mark
    for text in ("", "1-2-3", "1-2-3-4-5", "1-2-3-x", "-1-2-3-4", "1-2-3-4 ", "١-2-3-4", "ab/7", "1-2-3-" + "9" * 20):
        with pytest.raises(InvalidMark, match="is not where a page ended"):
            Mark.of_text(text)


@pytest.mark.usefixtures("cleaned_at_once")
@settings(max_examples=120, deadline=None)
@given(steps=st.lists(STEPS, max_size=25), limit=st.integers(1, 3), begins=NUMBERS)
def test_whatever_is_held_during_the_whole_paging_is_listed(steps: list[tuple], limit: int, begins: list[int]) -> None:
    ends = Endpoints()
    ends.connect("a")
    ends.report("a", 1, begins, full=True)
    report, listed, throughout = 1, set[int](), ends.held("a")
    part = page(ends, limit)
    listed |= named(part.blobs)
    for kind, *more in steps:
        if kind == "report":
            report += 1
            ends.report("a", report, more[0], full=more[1], last=more[2])
        elif kind == "again":
            report += 1
            ends.report("a", report, sorted(ends.held("a"), reverse=True), full=True)
        elif kind == "evict":
            ends.evict("a", *more[0])
        elif kind == "miss":
            ends.miss("a", more[0])
        elif kind == "tick":
            ends.tick(more[0])
        elif kind == "wipe":
            ends.wipe("a")
        elif kind == "sweep":
            ends.disconnect("a")
            ends.sweep("a")
            ends.connect("a")
            report = 0
        elif part.next is not None:
            part = page(ends, more[0], part.next)
            listed |= named(part.blobs)
        if part.next is None:
            break
        throughout &= ends.held("a")
    listed |= named(rest(ends, part.next, limit))
    assert throughout <= listed
