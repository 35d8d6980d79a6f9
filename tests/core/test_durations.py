"""What is remembered of how long runs took: steps, the mean of what is left, what is forgotten."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.durations import MOST_KINDS, Durations, Known, kind_of, middle_us, step_of
from events.reasons import DurationSource

S = 1_000_000
LINK = (DurationSource.MNEMONIC, "Link")


def named(number: int) -> tuple[DurationSource, str]:
    return DurationSource.TARGET, f"//{number}"


@dataclass
class Asked:
    mnemonic: str = ""
    target_id: str = ""


@dataclass
class Run:
    operation: Asked
    demand: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(requirement_id=12))


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (Asked("Link", "//a"), (DurationSource.MNEMONIC, "Link")),
        (Asked("", "//a"), (DurationSource.TARGET, "//a")),
        (Asked(), (DurationSource.REQUIREMENT, "12")),
    ],
)
def test_a_kind_is_the_mnemonic_else_the_target_else_the_requirements(asked, kind):
    assert kind_of(Run(asked)) == kind


@given(st.integers(0, 2**62))
def test_a_step_stands_for_a_duration_within_a_sixteenth(duration_us):
    assert abs(middle_us(step_of(duration_us)) - duration_us) * 16 <= duration_us
    assert step_of(middle_us(step_of(duration_us))) == step_of(duration_us)


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_a_longer_duration_is_never_an_earlier_step(one_us, other_us):
    assert (step_of(one_us) <= step_of(other_us)) or one_us > other_us


@given(st.lists(st.integers(0, 1000 * S), min_size=1, max_size=60), st.integers(0, 1200 * S))
def test_what_is_left_is_the_mean_of_the_longer_ones_or_as_long_again(lasted_us, ran_us):
    durations = Durations(1_000)
    for duration_us in lasted_us:
        durations.add(LINK, duration_us)
    longer = [middle_us(step_of(each)) for each in lasted_us if middle_us(step_of(each)) > ran_us]
    known = durations.of(LINK)
    assert known.samples == len(lasted_us)
    assert known.left_us(ran_us) == (sum(longer) // len(longer) - ran_us if longer else ran_us)


def test_a_run_that_has_outlasted_the_short_ones_is_one_of_the_long_ones():
    known = Known({step_of(10 * S): 9, step_of(100 * S): 1})
    at_first, later = known.left_us(0), known.left_us(20 * S)
    assert at_first < 20 * S
    assert later == middle_us(step_of(100 * S)) - 20 * S


def test_of_each_kind_the_last_runs_count():
    durations = Durations(3)
    for duration_us in (1, 2, 3, 4):
        durations.add(LINK, duration_us)
    durations.add(named(1), 9)
    assert durations.rows() == ((LINK, (2, 3, 4)), (named(1), (9,)))
    assert durations.of(LINK).samples == 3
    assert durations.of(LINK).left_us(0) == 3
    assert durations.of_all().samples == 4
    durations.keep(2)
    assert durations.rows() == ((LINK, (3, 4)), (named(1), (9,)))
    assert durations.of(LINK).left_us(0) == 3
    assert durations.of_all().left_us(0) == 16 // 3
    durations.add(LINK, 5)
    assert durations.rows() == ((named(1), (9,)), (LINK, (4, 5)))


def test_past_the_most_kinds_the_one_goes_whose_last_run_ended_longest_ago():
    durations = Durations(3)
    for number in range(MOST_KINDS):
        durations.add(named(number), 1)
    durations.add(named(0), 2)
    durations.add(LINK, 3)
    assert len(durations.rows()) == MOST_KINDS
    assert durations.of(named(1)) is None
    assert durations.of(named(0)).samples == 2
    assert durations.of(LINK).samples == 1


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.booleans()), max_size=40))
def test_what_is_remembered_does_not_depend_on_who_asks_when(told):
    """Each is a number of runs that end, how many more are remembered from then on, and whether somebody asks."""
    asked, unasked, last_runs = Durations(2), Durations(2), 2
    ended: list[int] = []
    for number, (runs, more, asks) in enumerate(told):
        for duration_us in range(runs):
            ended = [*ended, step_of(number + duration_us)][-last_runs:]
            asked.add(LINK, number + duration_us)
            unasked.add(LINK, number + duration_us)
        if asks:
            assert asked.of(LINK).samples == asked.of_all().samples == len(ended)
        last_runs = 2 + more
        ended = ended[-last_runs:]
        asked.keep(last_runs)
        unasked.keep(last_runs)
    assert asked.rows() == unasked.rows() == (((LINK, tuple(ended)),) if told else ())
