"""Any history of endpoints against a dictionary of sets: held, pinned, counted, and the same rows however they are written."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.reasons import WipeCause
from projections import keys
from projections.rows import MemoryRows
from tests.projections.endpoints import Endpoints

NAMES = ("a", "b")
MOST = 6
NUMBERS = st.lists(st.integers(1, MOST), max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("report"), st.sampled_from(NAMES), NUMBERS, st.booleans(), st.booleans(), NUMBERS, st.booleans()),
    st.tuples(st.just("evict"), st.sampled_from(NAMES), NUMBERS.filter(bool)),
    st.tuples(st.just("miss"), st.sampled_from(NAMES), st.integers(1, MOST)),
    st.tuples(st.just("wipe"), st.sampled_from(NAMES)),
    st.tuples(st.just("sweep"), st.sampled_from(NAMES)),
    st.tuples(st.just("reconnect"), st.sampled_from(NAMES)),
    st.tuples(st.just("tick")),
)


@dataclass
class Model:
    """One endpoint, as the rules say it: a set."""

    held: set[int] = field(default_factory=set)
    pins: set[int] = field(default_factory=set)
    report: int = 0
    chunk: int = 0  # the next one of the report that is under way; 0: none is
    full: bool = False
    since: set[int] = field(default_factory=set)
    to_pin: set[int] = field(default_factory=set)

    def abandon(self) -> None:
        self.chunk, self.since, self.to_pin = 0, set(), set()

    def name(self, numbers: list[int], pins: list[int], *, last: bool) -> None:
        self.held |= set(numbers)
        self.since |= set(numbers)
        self.to_pin |= set(pins)
        self.chunk += 1
        if last:
            if self.full:
                self.held = set(self.since)
            self.pins = self.to_pin
            self.abandon()

    def drop(self, numbers: set[int]) -> None:
        self.held -= numbers
        self.since -= numbers


def play(steps: list[tuple], ends: Endpoints, models: dict[str, Model], *, look: bool) -> None:
    for name in NAMES:
        ends.connect(name)
        models[name] = Model()
    for kind, *rest in steps:
        if kind == "tick":
            ends.tick()
        else:
            name = rest[0]
            model = models[name]
            if kind == "report":
                _, numbers, last, full, pins, newer = rest
                if newer or not model.chunk:
                    model.abandon()
                    model.report, model.full = model.report + 1, full
                # A pin that stands in two chunks of a report counts twice: workers name each once.
                pins = [pin for pin in pins if pin not in model.to_pin]
                chunk, full = model.chunk, model.full
                ends.report(name, model.report, numbers, chunk=chunk, last=last, full=full, pins=pins)
                model.name(numbers, pins, last=last)
            elif kind == "evict":
                ends.evict(name, *rest[1])
                model.drop(set(rest[1]))
            elif kind == "miss":
                ends.miss(name, rest[1])
                model.drop({rest[1]})
            elif kind == "reconnect":
                ends.connect(name)
                model.abandon()
                model.report = 0
            else:
                if kind == "wipe":
                    ends.wipe(name, cause=WipeCause.NO_EPOCH)
                else:
                    ends.disconnect(name)
                    ends.sweep(name)
                ends.connect(name)
                models[name] = Model()
        if look:
            check(ends, models)


def check(ends: Endpoints, models: dict[str, Model]) -> None:
    for name, model in models.items():
        assert ends.held(name) == model.held
        assert ends.pins(name) == model.pins
        view = ends.view(name)
        assert (view.blobs, view.pins) == (len(model.held), len(model.pins))
        if model.chunk and model.full:
            assert view.named_since == len(model.since)
    for number in range(1, MOST + 1):
        assert ends.holders(number) == [name for name in NAMES if number in models[name].held]
    stats = ends.stats()
    assert stats.pairs == sum(len(model.held) for model in models.values())
    assert stats.pins == sum(len(model.pins) for model in models.values())
    assert stats.garbage == ends.garbage_stored()
    assert ends.stored(keys.PAIR) == stats.pairs + stats.garbage


@pytest.mark.parametrize("spare", [0, 10])
@settings(max_examples=200, deadline=None)
@given(steps=st.lists(STEPS, max_size=40))
def test_any_history_of_endpoints_is_that_of_sets(spare: int, steps: list[tuple]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("projections.inventory.SPARE_DIGESTS", spare)  # so that few blobs are many
        patch.setattr("projections.inventory.SPARE_FACTOR", 1)
        patch.setattr("projections.locality_fold.TICK_DIGESTS", 3)
        ends, models = Endpoints(MemoryRows()), {}
        play(steps, ends, models, look=True)
        others = (
            Endpoints(MemoryRows(), flush_always=False),
            Endpoints(MemoryRows(), flush_always=True, kept_rows=0),
        )
        for other in others:
            play(steps, other, {}, look=False)
            other.table.flush()
            assert isinstance(other.rows, MemoryRows)
            assert isinstance(ends.rows, MemoryRows)
            assert other.rows.by_key == ends.rows.by_key
        for name in NAMES:  # an unfinished full report is waited for
            ends.connect(name)
            models[name].abandon()
        ends.tick(100)
        check(ends, models)
        assert ends.stats().garbage == sum(ends.view(name).garbage for name in NAMES) == 0
        assert ends.stored(keys.PAIR) == sum(len(model.held) for model in models.values())
