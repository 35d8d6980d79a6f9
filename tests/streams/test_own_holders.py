"""The decider's own fold of what endpoints hold: exact in the middle of a transaction, gone with an aborted one, and never in the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.deciding import placing
from events.payloads import command_bytes, digests_bytes
from events.values import Holding
from streams import own_holders
from streams.crashing_log import Crash, CrashingLog, ProcessDied, When
from streams.decider import Decider
from streams.errors import LogUnavailable, OutcomeUnknown, Refused
from streams.holders import FoldedHolders
from streams.own_holders import OwnHolders
from streams.store import Store, StoreDamaged
from streams.topics import EVENTS
from tests.streams.deciding import (
    DEADLINE_S,
    Clock,
    assert_exactly_once,
    configured,
    decide_all,
    decided,
    decider,
    leading,
    running,
    until,
)
from tests.streams.preferring import (
    CONNECTIONS,
    DO_NOT,
    PREFER,
    WORLD,
    D,
    E,
    action,
    assert_exact,
    below,
    cluster_with,
    dispatches,
    holds,
    went,
    worker,
)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders wait as long as it takes, so that a busy machine changes no test; the tests of not waiting set their own."""
    monkeypatch.setattr(own_holders, "WAIT_S", DEADLINE_S)


# -- exact ----------------------------------------------------------------------------------------------------------------


async def test_an_action_goes_where_its_inputs_are_in_the_very_transaction_that_said_so() -> None:
    cluster = await cluster_with(*WORLD)
    one = await decide_all(cluster)
    assert went(cluster) == {"a": "w2"}
    assert dispatches(cluster)["a"].holders == (Holding("w2", 1_000),)
    assert one.stats.holders_unanswered == 0
    assert one.stats.transactions == 2, "LeaderElected, and one for all five facts"
    assert_exact(cluster)
    assert_exactly_once(cluster)


async def test_what_was_wiped_by_the_same_fact_is_not_preferred() -> None:
    """A worker comes back with another boot epoch, and what its loss queues again is placed in the same fact (field failure 80)."""
    cluster = await cluster_with(*WORLD, worker("w2", boot_epoch=2, connection_id=80))
    await decide_all(cluster)
    again = dispatches(cluster)["a"]
    assert (again.endpoint, again.holders) == ("w1", ())
    assert_exact(cluster)


async def test_many_facts_in_many_transactions_are_answered_exactly() -> None:
    facts: list[f.Fact] = [PREFER, worker("w1"), worker("w2"), worker("w3")]
    for number in range(60):
        endpoint = f"w{1 + number % 3}"
        facts.append(holds(endpoint, *(D, E)[: 1 + number % 2], report=1 + number))
        facts.append(action(f"a{number}", D, E))
        if number % 7 == 0:
            facts.append(f.BlobsEvicted("main", endpoint, CONNECTIONS[endpoint], digests_bytes([D])))
            facts.append(action(f"b{number}", D))
        if number % 11 == 0:
            facts.append(f.Tick())
    cluster = await cluster_with(*facts)
    await decide_all(cluster, most_facts=7)
    assert_exact(cluster)
    assert len(dispatches(cluster)) == 69


# -- turned on, turned off ----------------------------------------------------------------------------------------------------


async def test_turned_on_while_it_runs_it_knows_what_was_said_before(tmp_path: Path) -> None:
    cluster = await cluster_with(DO_NOT, worker("w1"), worker("w2"), holds("w2", D), action("before", D))
    one = decider(cluster.log, data_dir=tmp_path)
    async with running(one):
        await decided(one, cluster)
        assert below(tmp_path) == [], "nothing is kept where nothing asks"
        assert one.stats.holders == "off"
        await cluster.put(PREFER, action("after", D))
        await decided(one, cluster)
        assert one.stats.holders == "ready"
        assert (tmp_path / "shard-0" / "0" / "rows").is_dir()
        await cluster.put(DO_NOT, action("at last", D))
        await decided(one, cluster)
        await until(lambda: one.stats.holders == "off")
        Store.open(tmp_path / "shard-0" / "0", cluster_id="memory", topic_id="elsewhere").close()  # it is free
    assert went(cluster)["after"] == "w2"
    assert one.stats.holders_unanswered == 0
    assert_exact(cluster)


async def test_the_pass_of_the_configuration_that_asks_first_is_answered_too() -> None:
    """A worker's `zone` differs, until it is no longer looked at: that configuration places, and asks as it does."""
    strict = configured(supported_platform_properties={"zone": "exact"})
    lax = configured(supported_platform_properties={"zone": "ignore"}, locality={"prefer_from_bytes": 1})
    needs = canonical_requirements([("cpu_millis", "100"), ("zone", "a")])
    queued = f.ActionQueued("main", "a", needs, command=command_bytes(["true"], (), [D]))
    cluster = await cluster_with(strict, worker("w1"), worker("w2"), holds("w2", D), queued, lax)
    one = await decide_all(cluster)
    assert went(cluster) == {"a": "w2"}
    assert one.stats.holders_unanswered == 0
    assert_exact(cluster)


# -- aborted, written off, unknown ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
async def test_what_an_unanswered_commit_held_counts_only_where_it_is_in_the_log(committed: bool) -> None:
    cluster = await cluster_with(PREFER, worker("w1"), worker("w2"))
    one = decider(cluster.log)
    async with running(one):
        await decided(one, cluster)
        cluster.log.fail_next_append(OutcomeUnknown, committed=committed)
        await cluster.put(holds("w2", D), action("a", D))
        await decided(one, cluster)
        await cluster.put(action("b", D))
        await decided(one, cluster)
    assert one.stats.unknown_outcomes == 1
    assert went(cluster) == {"a": "w2", "b": "w2"}
    assert one.stats.holders_dropped == {}
    assert_exact(cluster)
    assert_exactly_once(cluster)


async def test_what_an_aborted_transaction_held_is_never_kept_for_what_came_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One event was seen and aborted, and the one of its `seq` in the log is another: the next leader's election."""
    cluster = await cluster_with(PREFER, worker("w1"), worker("w2"))
    last: list[e.Event] = []
    kept: list[e.Event] = []
    fold, commit = FoldedHolders._fold, FoldedHolders.commit

    def noting(self: FoldedHolders, event: e.Event) -> None:
        last[:] = [event]
        fold(self, event)

    def keeping(self: FoldedHolders, chain: bytes, events: int) -> None:
        kept.extend(last)
        commit(self, chain, events)

    monkeypatch.setattr(FoldedHolders, "_fold", noting)
    monkeypatch.setattr(FoldedHolders, "commit", keeping)
    one = decider(cluster.log)
    async with running(one):
        await decided(one, cluster)
        cluster.log.fail_next_append(OutcomeUnknown, committed=False)
        await cluster.put(holds("w2", D))
        await decided(one, cluster)
        await cluster.put(action("a", D))
        await decided(one, cluster)
    in_log = cluster.events()
    assert kept
    assert kept == [in_log[event.seq - 1] for event in kept]


async def test_a_fact_that_is_written_off_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails after its events were seen: the blobs it spoke of are nobody's, and the next actions are answered exactly."""
    cluster = await cluster_with(PREFER, worker("w1"), worker("w2"), worker("w3"), holds("w3", D))
    preferred = placing.preferred

    def failing(instance, match, *held):
        if match.operation.client_operation_id == "poison":
            raise RuntimeError("cannot be placed")
        return preferred(instance, match, *held)

    monkeypatch.setattr(placing, "preferred", failing)
    one = decider(cluster.log)
    async with running(one):
        await decided(one, cluster)
        await cluster.put(holds("w2", E), action("poison", E), action("a", D, E), action("b", D))
        await decided(one, cluster)
    assert one.stats.undecidable == 1
    assert went(cluster) == {"a": "w2", "b": "w3"}
    assert one.stats.holders_dropped == {}
    assert_exact(cluster)


async def test_facts_that_the_log_refuses_together_are_answered_one_by_one() -> None:
    cluster = await cluster_with(PREFER, worker("w1"), worker("w2"))
    one = decider(cluster.log)
    async with running(one):
        await decided(one, cluster)
        cluster.log.fail_next_append(Refused)
        await cluster.put(holds("w2", D), action("a", D), action("b", D))
        await decided(one, cluster)
    assert one.stats.rebuilds == 1
    assert went(cluster) == {"a": "w2", "b": "w2"}
    assert one.stats.holders_dropped == {}
    assert_exact(cluster)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_death_at_any_commit_leaves_a_store_that_goes_on(when: When, tmp_path: Path) -> None:
    facts = [
        *WORLD,
        action("b", D),
        f.BlobsEvicted("main", "w2", CONNECTIONS["w2"], digests_bytes([D])),
        action("c", D),
    ]
    for nth in range(4):
        cluster = await cluster_with(*facts)
        directory = tmp_path / str(nth)
        log = CrashingLog(cluster.log, Crash(nth, when, of="append"))
        with pytest.raises(ProcessDied):
            async with running(decider(log, most_facts=3, data_dir=directory)):
                await until(log.is_dead)
        one = await decide_all(cluster, most_facts=3, data_dir=directory)
        assert one.stats.holders_dropped == {}, f"commit {nth}"
        assert one.stats.holders_unanswered == 0
        assert went(cluster)["b"] == "w2"
        assert dispatches(cluster)["c"].holders == ()
        assert_exact(cluster)
        assert_exactly_once(cluster)


# -- kept --------------------------------------------------------------------------------------------------------------------


async def test_after_a_restart_only_the_rest_of_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await cluster_with(*WORLD)
    await decide_all(cluster, data_dir=tmp_path)
    seen: list[int] = []
    fold = FoldedHolders._fold

    def noting(self: FoldedHolders, event: e.Event) -> None:
        seen.append(event.seq)
        fold(self, event)

    monkeypatch.setattr(FoldedHolders, "_fold", noting)
    known = cluster.fold().shard.seq
    await cluster.put(action("b", D))
    one = await decide_all(cluster, data_dir=tmp_path)
    assert seen[0] == known + 1, f"read again from event {seen[0]}"
    assert went(cluster) == {"a": "w2", "b": "w2"}
    assert one.stats.holders_dropped == {}
    assert_exact(cluster)


async def test_a_store_of_another_log_with_the_same_name_is_dropped_and_made_again(tmp_path: Path) -> None:
    other = await cluster_with(PREFER, worker("w1"), worker("w2"), holds("w1", D, E), action("a", D))
    await decide_all(other, data_dir=tmp_path)
    cluster = await cluster_with(*WORLD, action("b", D))
    await decide_all(cluster)
    await cluster.put(action("c", D))
    one = await decide_all(cluster, data_dir=tmp_path)
    assert one.stats.holders_dropped == {"other_chain": 1}
    assert went(cluster) == {"a": "w2", "b": "w2", "c": "w2"}
    assert one.stats.holders == "off", "closed in good order"
    assert_exact(cluster)


async def test_a_store_that_is_ahead_of_the_log_is_dropped_and_made_again(tmp_path: Path) -> None:
    """The log was restored from an older copy."""
    longer = await cluster_with(*WORLD, *(action(f"more{number}", D) for number in range(30)))
    await decide_all(longer, data_dir=tmp_path)
    cluster = await cluster_with(*WORLD)
    one = await decide_all(cluster, data_dir=tmp_path)
    assert one.stats.holders_dropped == {"ahead_of_log": 1}
    assert went(cluster) == {"a": "w2"}
    assert_exact(cluster)


async def test_a_store_that_is_ahead_is_found_also_where_the_log_has_as_many_offsets(tmp_path: Path) -> None:
    """Every transaction takes an offset more, so offsets alone do not say it: the log ends before the store's last event."""
    ahead = await cluster_with(*WORLD, *(action(f"more{number}", D) for number in range(5)))
    await decide_all(ahead, data_dir=tmp_path)
    cluster = await cluster_with(*WORLD, *[f.Tick()] * 6)
    await decide_all(cluster, most_facts=1)
    assert cluster.fold().shard.seq + 1 < ahead.fold().shard.seq
    assert cluster.records(EVENTS)[-1].offset > ahead.records(EVENTS)[-1].offset
    await cluster.put(action("b", D))
    one = await decide_all(cluster, data_dir=tmp_path)
    assert one.stats.holders_dropped == {"ahead_of_log": 1}
    assert went(cluster) == {"a": "w2", "b": "w2"}
    assert_exact(cluster)


async def test_a_store_of_another_cluster_is_dropped_and_made_again(tmp_path: Path) -> None:
    await decide_all(await cluster_with(*WORLD, cluster_id="elsewhere"), data_dir=tmp_path)
    cluster = await cluster_with(*WORLD)
    one = await decide_all(cluster, data_dir=tmp_path)
    assert one.stats.holders_dropped == {"other_log": 1}
    assert went(cluster) == {"a": "w2"}


async def test_a_torn_store_is_dropped_and_made_again(tmp_path: Path) -> None:
    cluster = await cluster_with(*WORLD)
    await decide_all(cluster, data_dir=tmp_path)
    rows = tmp_path / "shard-0" / "0" / "rows"
    for name in below(rows):
        if name.startswith(("MANIFEST", "CURRENT")):
            (rows / name).write_bytes(b"torn")
    await cluster.put(action("b", D))
    one = await decide_all(cluster, data_dir=tmp_path)
    assert one.stats.holders_dropped == {"unreadable": 1}
    assert went(cluster) == {"a": "w2", "b": "w2"}
    assert_exact(cluster)


# -- never in the way ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["asked", "told", "kept"])
async def test_a_store_that_fails_stops_no_decision_and_is_made_again(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await cluster_with(*WORLD)
    one = decider(cluster.log, data_dir=tmp_path)
    method = {"asked": "most_bytes", "told": "see", "kept": "commit"}[when]
    plain = getattr(FoldedHolders, method)
    failed = []

    def failing(self: FoldedHolders, *arguments: object) -> object:
        if not failed:
            failed.append(True)
            raise StoreDamaged(tmp_path, "read a row", "checksum mismatch")
        return plain(self, *arguments)

    async with running(one):
        await decided(one, cluster)
        monkeypatch.setattr(FoldedHolders, method, failing)
        await cluster.put(action("meanwhile", D))
        await decided(one, cluster)
        assert failed
        assert one.stats.holders_dropped["StoreDamaged"] == 1
        assert one.stats.holders_unanswered == (0 if when == "kept" else 1)
        await cluster.put(action("after", D))
        await decided(one, cluster)
    assert went(cluster)["after"] == "w2"
    assert dispatches(cluster)["meanwhile"].holders == ((Holding("w2", 1_000),) if when == "kept" else ())
    assert one.stats.undecidable == 0
    assert_exactly_once(cluster)


async def test_a_leader_does_not_wait_long_for_what_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_holders, "WAIT_S", 0.05)
    cluster = await cluster_with(*WORLD)
    one = decider(cluster.log)
    follow, blocked = OwnHolders._follow, asyncio.Event()

    async def late(self: OwnHolders, kept: FoldedHolders):
        await blocked.wait()
        return await follow(self, kept)

    monkeypatch.setattr(OwnHolders, "_follow", late)
    async with running(one):
        await decided(one, cluster)
        assert (one.stats.holders, one.stats.holders_unanswered) == ("behind", 1)
        assert dispatches(cluster)["a"].holders == ()
        blocked.set()
        await until(lambda: one.stats.holders_seq == one.stats.seq)
        await cluster.put(action("b", D))
        await decided(one, cluster)
    assert went(cluster)["b"] == "w2"
    assert one.stats.holders_dropped == {}


async def test_an_outage_of_the_log_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await cluster_with(*WORLD)
    one = decider(cluster.log)
    follow, outages = OwnHolders._follow, [1, 2]

    async def away(self: OwnHolders, kept: FoldedHolders):
        if outages:
            outages.pop()
            raise LogUnavailable("following", address="memory", waited_ms=1)
        return await follow(self, kept)

    monkeypatch.setattr(OwnHolders, "_follow", away)
    async with running(one):
        await decided(one, cluster)
        await until(lambda: one.stats.holders_seq == one.stats.seq)
        await cluster.put(action("b", D))
        await decided(one, cluster)
    assert went(cluster)["b"] == "w2"
    assert one.stats.holders_dropped == {}, "what was kept is as good as before"


async def test_no_free_directory_means_no_preference_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_holders, "MOST_DIRECTORIES", 2)
    monkeypatch.setattr(own_holders, "WAIT_S", 0.05)
    taken = [Store.open(tmp_path / "shard-0" / str(number), cluster_id="x", topic_id="y") for number in range(2)]
    cluster = await cluster_with(*WORLD)
    one = await decide_all(cluster, data_dir=tmp_path)
    for store in taken:
        store.close()
    assert one.stats.holders_dropped["NoFreeDirectory"] >= 1
    assert one.stats.holders_unanswered == 1
    assert list(went(cluster)) == ["a"]


# -- leader and standby ----------------------------------------------------------------------------------------------------------


async def test_leader_and_standby_share_a_home_and_the_standby_knows_what_the_leader_knew(tmp_path: Path) -> None:
    cluster = await cluster_with(*WORLD)
    clock = Clock()
    leader = decider(cluster.log, data_dir=tmp_path)
    standby = decider(cluster.log, claim=False, data_dir=tmp_path, monotonic_us=clock, rank=1)
    async with running(standby):
        async with running(leader):
            await decided(leader, cluster)
            await until(lambda: standby.stats.holders_seq == leader.stats.seq, "the standby has read what is held")
            assert below(tmp_path / "shard-0") == ["0", "1"]
        await cluster.put(holds("w1", E), action("b", E))
        await until(lambda: taking_over(standby, clock), "the standby leads")
        await leading(standby)
        await decided(standby, cluster)
    assert went(cluster) == {"a": "w2", "b": "w1"}
    assert standby.stats.holders_unanswered == 0
    assert standby.stats.holders_dropped == {}
    assert_exact(cluster)


def taking_over(standby: Decider, clock: Clock) -> bool:
    clock.now_us += 100_000
    return standby.stats.takeovers == 1
