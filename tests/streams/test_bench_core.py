"""`headway bench core`: its fleets are what their cells say, and growing cost is named where it is too much."""

from __future__ import annotations

import pytest

from streams.bench._fleet import Cell, Fleet
from streams.bench._rows import missed
from streams.bench.core import Cost, Effort, flatness, measure, measure_grid, naive_pass_us, slot_us

QUICK = Effort(cycles=20, repetitions=2, warm_up=20)


@pytest.mark.parametrize("classes", [1, 10, 50])
def test_a_fleet_without_queue_runs_full(classes: int) -> None:
    fleet = Fleet(Cell(20, 0, classes))
    assert len(fleet.matcher) == 0
    assert fleet.running
    for demand in fleet.demands * 3:
        fleet.matcher.enqueue(fleet.action(demand))
        fleet.run_pass()
    assert len(fleet.matcher) > 0, "more would have been placed"


@pytest.mark.parametrize("queued", [1, 50, 1_000])
def test_a_queue_is_as_long_as_asked_and_none_of_it_fits(queued: int) -> None:
    fleet = Fleet(Cell(20, 0, 10))
    for _ in range(2):
        fleet.grow(queued)
        assert len(fleet.matcher) == queued
        fleet.matcher.everything_dirty()
        assert fleet.matcher.next_match() is None
        fleet.cycles(30)


def test_a_freed_slot_leaves_the_queue_as_long_as_it_was() -> None:
    fleet = Fleet(Cell(20, 500, 4))
    assert fleet.free_slots(40) > 0
    assert len(fleet.matcher) == 500


def test_what_is_measured_takes_time() -> None:
    cost = measure(Fleet(Cell(5, 50, 2)), QUICK)
    assert 0 < cost.cycle_us < 1_000_000
    assert cost.decisions_per_s > 0
    assert 0 < slot_us(Cell(5, 100, 2), QUICK) < 1_000_000
    assert naive_pass_us(Cell(5, 1_000, 2)) > 0


def test_the_grid_has_every_cell() -> None:
    told: list[str] = []
    costs = measure_grid([1, 2], [0, 30], [2, 3], told.append)
    assert list(costs) == [Cell(w, q, c) for c in (1, 2) for w in (2, 3) for q in (0, 30)]
    assert told == [str(cell) for cell in costs]


def grid(cost_us: object) -> dict[Cell, Cost]:
    cells = [Cell(w, q, c) for c in (1, 10) for w in (10, 100) for q in (0, 1_000, 5_000)]
    return {cell: Cost(cost_us(cell), 1.0) for cell in cells}  # type: ignore[operator]


def test_flat_cost_misses_nothing() -> None:
    rows = flatness(grid(lambda cell: 7.0))
    assert len(rows) == (2 * 3 + 1) + (2 * 2 + 1)
    assert {row["value"] for row in rows} == {1.0}
    assert not any(missed(row) for row in rows)


def test_one_cell_that_grows_with_the_fleet_is_named() -> None:
    rows = flatness(grid(lambda cell: 60.0 if cell == Cell(100, 5_000, 10) else 10.0))
    assert [row["case"] for row in rows if missed(row)] == [
        "cost a cycle, workers 10 to 100, queued=5,000 classes=10",
        "cost a cycle, queued 1,000 to 5,000, workers=100 classes=10",
    ]


def test_cost_that_grows_everywhere_misses_the_medians() -> None:
    rows = flatness(grid(lambda cell: 1.0 * cell.workers**0.5))
    assert [row["case"] for row in rows if missed(row)] == ["cost a cycle, workers 10 to 100, median of 6"]


def test_an_empty_queue_is_no_base_for_the_queue() -> None:
    rows = flatness(grid(lambda cell: 50.0 if cell.queued else 1.0))
    assert not any(missed(row) for row in rows)
