"""The hold by drain time: the worker is held that is expected to have room soonest, by what the log knows of how long runs take."""

from collections.abc import Callable

import pytest

from events import events as e
from events.deciding import draining
from events.durations import middle_us, step_of
from events.reasons import DurationSource, HoldExclusion
from events.values import DrainBasis
from tests.stories.crowds import arrive, both
from tests.stories.notation import MAIN, Step, alive, cancel, configure, connect, finish, gone, restart, submit
from tests.stories.story import Story

S = 1_000_000


def policy(kind: str = "drain_time", **options: object) -> Step:
    """A hold as soon as the head is overtaken; three runs of a kind are enough to know it."""
    enough = {"min_runs": 3} if kind == "drain_time" else {}
    return configure(hold={"kind": kind, "after_s": 0, **enough, **options}, retain_completed_for_s=10_000)


def recorded(mnemonic: str, *lasted_s: int) -> Step:
    """Runs of a kind that ended after so many seconds each, on a worker that has left."""
    runs = (
        both(
            submit(f"{mnemonic}-{lasts}-{number}", cpu=1, mnemonic=mnemonic),
            alive(lasts),
            finish(f"{mnemonic}-{lasts}-{number}"),
        )
        for number, lasts in enumerate(lasted_s)
    )
    return both(connect("past", cpu=1), *runs, gone("past"))


def busy(endpoint: str, *runs: tuple[str, int], zone: str = "ab", **asked: object) -> Step:
    """A worker of twelve cores that runs these: (mnemonic, cores)."""
    started = (
        submit(f"{endpoint}{number}", cpu=cores, mnemonic=mnemonic, **asked)
        for number, (mnemonic, cores) in enumerate(runs, start=1)
    )
    return both(connect(endpoint, cpu=12, zone=zone), *started)


def overtaken(after_s: float = 1) -> Step:
    """Eight cores are asked for, and a small action that only the small worker `c` can run is placed past them."""
    return both(connect("c", cpu=1, zone="c"), alive(after_s), submit("big", cpu=8), arrive("s1", zone="c"))


LINKS, COMPILES = recorded("Link", 500, 500, 500), recorded("Compile", 10, 10, 10)

QUICK_BUT_FULL = busy("b", ("Compile", 6), ("Compile", 6))
"""It lacks eight of eight cores, and what it runs is over soon."""

SLOW_BUT_NEAR = busy("a", ("Link", 5))
"""It lacks one core of eight, and what it runs takes long."""


def lasts_us(seconds: int) -> int:
    """A recorded duration as it is remembered."""
    return middle_us(step_of(seconds * S))


@pytest.fixture
def told(story: Story) -> Callable[..., Story]:
    """A story after the history, with both workers busy; then the big action is overtaken."""

    def tell(chosen: Step, *, history: tuple[Step, ...] = (LINKS, COMPILES), after_s: float = 1) -> Story:
        return story.given(chosen, *history, QUICK_BUT_FULL, SLOW_BUT_NEAR, overtaken(after_s))

    return tell


def test_the_worker_whose_runs_end_first_is_held_however_much_it_lacks(told):
    story = told(policy())
    assert story.held() == ("b", "big")
    made = story.last(e.HoldMade)
    expected_us = story.now_us - 2 * S + lasts_us(10)  # both have run for two seconds
    assert made.free_at_us == expected_us
    assert made.basis == (DrainBasis(DurationSource.MNEMONIC, "Compile", 3, 2, expected_us),)
    assert [each.endpoint for each in made.candidates] == ["b", "a"]


def test_by_shortfall_the_other_one_is(told):
    story = told(policy("shortfall"))
    assert story.held() == ("a", "big")
    assert story.last(e.HoldMade).basis == ()
    assert story.last(e.HoldMade).free_at_us == 0


def test_the_action_is_placed_when_they_have_ended(told):
    story = told(policy()).when(finish("b1")).then("b1 finished: completed")
    story.when(finish("b2"))
    story.then("b2 finished: completed", "big to b", "hold of b for big released: placed")


def test_without_enough_history_the_smallest_shortfall_decides_and_the_event_says_so(told):
    story = told(policy(min_runs=7))
    assert story.held() == ("a", "big")
    made = story.last(e.HoldMade)
    assert made.basis == (DrainBasis(DurationSource.UNKNOWN, "", 6, 1, 0),)
    assert (made.free_at_us, [each.free_at_us for each in made.candidates]) == (0, [0, 0])


def test_of_a_kind_seen_too_rarely_all_kinds_together_say_how_long(told):
    story = told(policy(), history=(recorded("Test", 30, 30, 30),))
    assert {(each.source, each.kind) for each in story.last(e.HoldMade).basis} == {(DurationSource.EVERY_RUN, "")}
    assert story.last(e.HoldMade).free_at_us == story.now_us - 2 * S + lasts_us(30)


def test_the_producers_expectation_comes_before_all_kinds_together(story):
    story.given(policy(), recorded("Compile", 60, 60, 60), QUICK_BUT_FULL, busy("a", ("Link", 5), expected_s=9))
    story.given(overtaken())
    assert story.held() == ("a", "big")
    assert story.last(e.HoldMade).basis == (DrainBasis(DurationSource.PRODUCER, "", 0, 1, story.now_us + 7 * S),)


def test_who_is_known_of_comes_before_who_is_not(story):
    story.given(policy(min_runs=100), busy("b", ("Compile", 12), expected_s=900), SLOW_BUT_NEAR, overtaken())
    assert story.held() == ("b", "big")
    assert [each.free_at_us > 0 for each in story.last(e.HoldMade).candidates] == [True, False]


def test_a_run_that_has_gone_longer_than_any_of_its_kind_is_expected_to_go_as_long_again(told):
    """The runs on `b` ought to have ended long ago: whatever they do, they are none of the quick ones."""
    story = told(policy(), history=(recorded("Link", 250, 250, 250), COMPILES), after_s=200)
    assert story.held() == ("a", "big")
    assert [each.free_at_us - story.now_us for each in story.last(e.HoldMade).candidates] == [
        lasts_us(250) - 201 * S,
        201 * S,
    ]


def test_the_last_runs_count(told):
    story = told(policy(last_runs=3), history=(recorded("Compile", 900, 900, 900), LINKS, COMPILES))
    assert story.held() == ("b", "big")
    assert story.last(e.HoldMade).basis[0].samples == 3


def test_a_run_that_was_cancelled_says_nothing_of_its_kind(story):
    cut = both(submit("cut", cpu=1, mnemonic="Compile"), alive(1), cancel("cut"), finish("cut"))
    story.given(policy(), connect("past", cpu=1), cut, cut, cut, gone("past"))
    assert story.rehearsal.shard.instances[MAIN].durations.rows() == ()


def test_after_a_restart_the_same_is_known(told):
    story = told(policy(), history=(LINKS, COMPILES, restart()))
    assert story.held() == ("b", "big")
    assert story.last(e.HoldMade).basis[0].samples == 3


def test_a_log_that_had_another_policy_has_the_history(told):
    story = told(policy(), history=(policy("shortfall"), LINKS, COMPILES, policy()))
    assert story.held() == ("b", "big")


def test_the_last_worker_for_somebody_else_is_spared(story):
    story.given(policy(spare_last=True), LINKS, COMPILES)
    story.given(
        busy("b", ("Compile", 6), ("Compile", 6), zone="b", properties={"zone": "b"}), SLOW_BUT_NEAR, overtaken()
    )
    assert story.held() == ("a", "big")
    assert [(each.exclusion, each.workers) for each in story.last(e.HoldMade).excluded] == [
        (HoldExclusion.UNFIT, 1),
        (HoldExclusion.LAST, 1),
    ]


def test_a_hold_moves_to_who_is_expected_next_and_says_why(told):
    story = told(policy()).when(gone("b"))
    assert story.held() == ("a", "big")
    moved = story.last(e.HoldMoved)
    assert moved.basis == (DrainBasis(DurationSource.MNEMONIC, "Link", 3, 1, moved.free_at_us),)


def test_only_the_closest_by_shortfall_are_looked_at(told, monkeypatch):
    monkeypatch.setattr(draining, "MOST_CONSIDERED", 1)
    story = told(policy())
    assert story.held() == ("a", "big")
    assert (len(story.last(e.HoldMade).candidates), story.last(e.HoldMade).more_candidates) == (1, 1)


def test_an_action_that_is_not_overtaken_is_not_held_for(story):
    story.given(policy(), LINKS, COMPILES, QUICK_BUT_FULL, SLOW_BUT_NEAR, submit("big", cpu=8), alive(600))
    assert story.held() is None
