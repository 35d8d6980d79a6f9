"""The roles of a decider, and when a standby ends a silence."""

from __future__ import annotations

import itertools

import pytest

from streams.ownership import MOVES, IllegalMove, Ownership, Role, Watch

S = 1_000_000


def watch(rank: int = 0) -> Watch:
    return Watch(rank, began_at_us=0)


@pytest.mark.parametrize(("role", "to"), itertools.product(Role, Role))
def test_only_the_declared_moves_are_made(role: Role, to: Role) -> None:
    ownership = Ownership(role)
    if to in MOVES[role]:
        assert ownership.move(to) is role
        assert ownership.role is to
        assert ownership.moves == {to: 1}
    else:
        with pytest.raises(IllegalMove, match=f"{role.value} cannot become {to.value}"):
            ownership.move(to)
        assert ownership.role is role


def test_a_fenced_decider_never_opens_again_by_itself() -> None:
    assert Role.OPENING not in MOVES[Role.FENCED]
    assert Role.LEADING not in MOVES[Role.FENCED]


def test_every_role_but_stopped_can_stop_and_is_reachable() -> None:
    assert all(Role.STOPPED in MOVES[role] for role in Role if role is not Role.STOPPED)
    assert {to for moves in MOVES.values() for to in moves} == set(Role)


def test_without_a_waiting_fact_there_is_no_silence() -> None:
    assert not watch().takeover_due(3600 * S)


def test_a_fact_without_an_event_for_a_second_is_a_silence() -> None:
    standby = watch()
    standby.facts_seen(5, 2 * S)
    assert not standby.takeover_due(3 * S - 1)
    assert standby.takeover_due(3 * S)


def test_a_decided_fact_is_no_silence_and_a_later_one_counts_from_when_it_was_seen() -> None:
    standby = watch()
    standby.facts_seen(5, 0)
    standby.facts_seen(9, S)
    standby.events_seen(5, S // 2)
    assert not standby.takeover_due(2 * S - 1)
    assert standby.takeover_due(2 * S)


def test_a_leader_that_is_behind_but_at_work_is_left_alone() -> None:
    standby = watch()
    standby.facts_seen(1_000_000, 0)
    for second in range(1, 30):
        standby.events_seen(second * 1000, second * S)
        assert not standby.takeover_due(second * S + S - 1)
    assert standby.takeover_due(30 * S)


def test_ranks_take_over_three_tenths_of_a_second_apart() -> None:
    due = []
    for rank in range(4):
        standby = watch(rank)
        standby.facts_seen(1, 0)
        due.append(next(at for at in range(0, 4 * S, 1000) if standby.takeover_due(at)))
    assert due == [S, S + 300_000, S + 600_000, S + 900_000]


def test_silence_is_never_counted_from_before_the_watch_began() -> None:
    standby = Watch(0, began_at_us=100 * S)
    standby.facts_seen(1, 50 * S)
    assert not standby.takeover_due(101 * S - 1)
    assert standby.takeover_due(101 * S)


def test_a_fact_that_is_decided_before_it_is_seen_does_not_wait() -> None:
    standby = watch()
    standby.events_seen(7, 0)
    standby.facts_seen(7, 0)
    assert not standby.takeover_due(9 * S)


def test_what_a_standby_remembers_is_bounded_by_time_not_by_facts() -> None:
    standby = watch()
    for offset in range(10_000):
        standby.facts_seen(offset, offset * 100)  # a second of facts, 100 us apart
    assert len(standby._undecided) <= 21
    standby.events_seen(9_999, S)
    assert not standby._undecided


def test_a_standby_ticks_when_nobody_did_for_a_second() -> None:
    standby = watch()
    assert not standby.tick_due(S - 1)
    assert standby.tick_due(S)
    standby.tick_seen(S)
    assert not standby.tick_due(2 * S - 1)
    assert standby.tick_due(2 * S)
