"""Why is it pending: the field's questions as stories, each answered from the rows of the state table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, encode_event
from events.payloads import command_bytes
from events.reasons import DeclineReason
from events.values import Digest
from projections import answers
from projections.explain import explain_hold, explain_operation
from projections.explaining import queueing
from projections.fleet import instance_rows
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from streams.cli.explaining import hold_in_words, operation_in_words
from tests.stories.notation import (
    accept,
    advance,
    alive,
    configure,
    connect,
    decline,
    drain,
    finish,
    gone,
    keepalive,
    pause,
    queue,
)
from tests.stories.story import Story


def table_at(story: Story, seq: int | None = None) -> Table:
    """The rows that the story's events lead to, up to event `seq`."""
    table = Table(MemoryRows(), 0)
    chain = GENESIS_CHAIN
    for offset, event in enumerate(story.every_event()):
        if seq is None or event.seq <= seq:
            value, chain = encode_event(event, 1, chain)
            assert take(table, offset, value) is Taken.FOLDED
    table.flush()
    return table


def explain(story: Story, name: str, seq: int | None = None) -> dict[str, Any]:
    table = table_at(story, seq)
    row = answers.lookup(table, name)
    assert row is not None, name
    found = explain_operation(table, row)
    assert found["reasons"], "an explanation is never empty"
    assert all(reason["sentence"] for reason in found["reasons"])
    assert json.loads(json.dumps(found)) == found
    return found


def reasons(story: Story, name: str) -> list[str]:
    return [reason["reason"] for reason in explain(story, name)["reasons"]]


def words(story: Story, name: str, seq: int | None = None) -> str:
    return "\n".join(operation_in_words(explain(story, name, seq)))


def hold_of(story: Story, name: str | None = None) -> dict[str, Any]:
    table = table_at(story)
    (instance,) = instance_rows(table)
    found = explain_hold(table, instance, None if name is None else answers.lookup(table, name))
    assert json.loads(json.dumps(found)) == found
    return found


def counts(story: Story, name: str) -> dict[str, int]:
    return {each["standing"]: each["workers"] for each in explain(story, name)["waits"]["standings"]}


# -- the stories of field failures B2 ---------------------------------------------------------------------------------------


def starved() -> Story:
    """Eight one-core actions fill W1; b, of eight cores, waits; each core that frees goes to another small one."""
    small = [queue(f"s{number}", cpu=1) for number in range(8)]
    story = Story().given(connect("W1", cpu=8), *small, queue("b", cpu=8))
    for number in range(3):
        story.given(advance(1), queue(f"t{number}", cpu=1), finish(f"s{number}"))
    return story


def test_24_a_starved_action_names_the_head_the_overtakers_and_the_shortfall_of_each_worker():
    story = starved().given(connect("W2", cpu=4), queue("c", cpu=8))
    waits = explain(story, "c")["waits"]
    assert [each["client_operation_id"] for each in waits["first_ahead"]] == ["b"]
    assert (waits["place"], waits["ahead"]) == (2, 1)
    waits = explain(story, "b")["waits"]
    assert [each["client_operation_id"] for each in waits["overtaken"]["first"]] == ["t0", "t1", "t2"]
    assert waits["overtaken"]["running"] == 3
    (candidate,) = waits["closest"]
    assert candidate["endpoint"] == "W1"
    assert candidate["short"] == [{"name": "cpu_millis", "asked": 8000, "free": 0, "total": 8000, "lacks": 8000}]
    assert counts(story, "b") == {"too_small": 1, "short": 1}
    said = words(story, "b")
    assert "W1: short of cpu_millis 8000 (asks 8000, 0 of 8000 free), runs 8" in said
    assert "went past it and still run: 3" in said
    assert "hold: none, off: The configuration has no hold." in said


def test_25_without_workers_the_reason_is_that_no_worker_is_connected():
    story = Story().given(queue("a", cpu=1))
    assert reasons(story, "a") == ["no_worker"]
    assert "no_worker: No worker is connected." in words(story, "a")


def test_26_the_reason_names_the_resource_and_the_amounts_and_is_one_event_not_one_per_pass():
    story = Story().given(connect("W1", cpu=4), queue("x", cpu=3), queue("a", cpu=2))
    assert reasons(story, "a") == ["no_room"]
    assert "  cpu_millis: asks 2000, most free 1000 (on W1)" in words(story, "a").splitlines()
    a = next(event for event in story.every_event() if isinstance(event, e.OperationQueued) and event.seq > 5)
    story.given(*[keepalive("W1")] * 50, alive(4))
    about = [event for event in story.every_event() if getattr(event, "operation_id", None) == a.operation_id]
    assert len(about) == 1


def test_28_a_shortage_of_memory_is_told_from_one_of_cores():
    story = Story().given(
        connect("W1", cpu=4, memory=1000), queue("x", cpu=1, memory=900), queue("a", cpu=2, memory=200)
    )
    (candidate,) = explain(story, "a")["waits"]["closest"]
    assert [item["name"] for item in candidate["short"]] == ["memory_kib"]
    said = words(story, "a").splitlines()
    assert "  memory_kib: asks 200, most free 100 (on W1)" in said
    assert "  cpu_millis: asks 2000, most free 3000 (on W1)" in said


def test_29_a_property_that_does_not_match_is_named_with_what_there_is():
    story = Story().given(
        configure(supported_platform_properties={"zone": "exact"}),
        *(connect(f"W{n}", cpu=4, zone="west") for n in range(3)),
        connect("W4", cpu=4),
        queue("a", cpu=1, zone="east"),
    )
    assert reasons(story, "a") == ["unsatisfiable"]
    assert counts(story, "a") == {"other_properties": 4}
    assert "  zone: asks east, 0 of 4 workers have it; 3 with west, 1 without it" in words(story, "a").splitlines()


def test_a_property_that_is_not_declared_is_not_said_to_be_had():
    story = Story().given(connect("W1", cpu=4, zone="a"), connect("W2", cpu=4))
    story.given(queue("x", cpu=4, zone="c"), queue("a", cpu=1, zone="c"))
    (zone,) = explain(story, "a")["waits"]["properties"]
    assert (zone["workers_with"], zone["workers_undeclared"]) == (0, 1)
    said = "  zone: asks c, 0 of 2 workers have it; 1 with a, 1 does not declare it (which is not compared)"
    assert said in words(story, "a").splitlines()


def behind_one_that_nobody_can_run(**options: object) -> Story:
    """W1 is full; b waits behind huge, which is larger than W1, and t went past both."""
    story = Story().given(configure(hold={"kind": "shortfall", "after_s": 2}, **options), connect("W1", cpu=8))
    story.given(*(queue(f"s{number}", cpu=1) for number in range(8)), queue("huge", cpu=99), queue("b", cpu=8))
    return story.given(advance(5), queue("t", cpu=1), finish("s0"))


def test_a_head_that_nobody_could_ever_run_is_said_to_keep_the_hold_from_those_behind_it():
    absence = explain(behind_one_that_nobody_can_run(), "b")["waits"]["hold_absence"]
    assert (absence["reason"], absence["head"]["client_operation_id"]) == ("not_head", "huge")
    assert (absence["head_never"]["fails_at_us"], absence["head_never"]["properties"]) == (None, ["cpu_millis"])
    said = words(behind_one_that_nobody_can_run(), "b").splitlines()
    assert "  no connected worker could ever run that one, so nothing is held for anybody while it is first:" in said
    remedy = "  until it is cancelled or a worker that can run it connects"
    assert f"{remedy} (unsatisfiable_action_timeout_s is 0: it never fails of itself)" in said
    said = words(behind_one_that_nobody_can_run(unsatisfiable_action_timeout_s=30), "b").splitlines()
    assert f"{remedy} (unsatisfiable_action_timeout_s fails it 30.00s after no worker could any more)" in said
    possible = Story().given(configure(hold={"kind": "shortfall", "after_s": 2}), connect("W1", cpu=8))
    possible.given(queue("x", cpu=8), queue("large", cpu=8), queue("b", cpu=8))
    absence = explain(possible, "b")["waits"]["hold_absence"]
    assert (absence["reason"], absence["head_never"]) == ("not_head", None)


def test_30_a_placement_says_which_other_workers_there_were_and_why_not_those():
    story = Story().given(connect("W1", cpu=4), connect("W2", cpu=4), queue("x", cpu=3), queue("a", cpu=2))
    dispatched = story.last(e.OperationDispatched)
    assert dispatched.endpoint == "W2"
    waits = explain(story, "a", dispatched.seq - 1)["waits"]
    said = [each["reason"] for each in explain(story, "a", dispatched.seq - 1)["reasons"]]
    assert said == ["room"]  # not also that those that could run it have none
    assert [(each["endpoint"], each["standing"]) for each in waits["closest"]] == [("W2", "room"), ("W1", "short")]
    assert "W1: short of cpu_millis 1000 (asks 2000, 1000 of 4000 free), runs 1" in words(
        story, "a", dispatched.seq - 1
    )


@pytest.mark.parametrize(
    ("strategy", "chosen"),
    [
        ("least_recently_used", ["W1", "W2", "W3"]),
        ("most_recently_used", ["W3", "W2", "W1"]),
        ("least_loaded", ["W1", "W2", "W3"]),
        ("best_fit", ["W2", "W3", "W1"]),
    ],
)
def test_30_of_several_with_room_the_one_the_strategy_takes_stands_first(strategy, chosen):
    story = Story().given(
        configure(allocation_strategy=strategy),
        *(connect(name, cpu=cpu) for name, cpu in (("W1", 8), ("W2", 4), ("W3", 6))),
        queue("a", cpu=2),
    )
    dispatched = story.last(e.OperationDispatched)
    found = [each["endpoint"] for each in explain(story, "a", dispatched.seq - 1)["waits"]["closest"]]
    assert found == chosen
    assert dispatched.endpoint == chosen[0]
    assert f"of those with room {strategy} takes {chosen[0]} first" in words(story, "a", dispatched.seq - 1)


def test_the_strategy_is_said_to_yield_to_holders_where_the_configuration_prefers_them():
    def line(inputs: tuple[Digest, ...], **options: object) -> str:
        story = Story().given(configure(**options), connect("W1", cpu=8), connect("W2", cpu=8))
        story.take(f.ActionQueued("main", "a", command=command_bytes(("true",), inputs=inputs)))
        dispatched = story.last(e.OperationDispatched)
        return next(each for each in words(story, "a", dispatched.seq - 1).splitlines() if "of those with room" in each)

    plain = "  of those with room least_recently_used takes W1 first"
    blob = (Digest(b"\1" * 32, 5000),)
    preferring = {"locality": {"prefer_from_bytes": 4096}}
    assert line(blob) == plain
    assert line((), **preferring) == plain
    assert line(blob, **preferring) == f"{plain}, unless one holds at least 4.0 KiB of its inputs"


def test_33_what_no_worker_can_match_says_so_and_when_it_fails_and_then_why_it_failed():
    story = Story().given(configure(unsatisfiable_action_timeout_s=20), connect("W1", cpu=8), queue("a", cpu=99))
    story.given(alive(5))
    waits = explain(story, "a")["waits"]
    assert waits["never"]["properties"] == ["cpu_millis"]
    assert waits["never"]["fails_at_us"] - waits["never"]["since_us"] == 20_000_000
    said = words(story, "a")
    assert "unsatisfiable: No connected worker could run it even if idle." in said
    assert "so for 5.00s, fails 20.00s after that" in said
    assert "cpu_millis: asks 99000, largest registered 8000" in said
    story.given(alive(20))
    found = explain(story, "a")
    assert (found["ended"]["outcome"], found["reasons"][0]["reason"]) == ("unsatisfiable", "finished")
    assert "cpu_millis 99000 (the largest registered is 8000)" in found["ended"]["message"]


def test_35_the_reason_is_the_same_with_a_hold_configured_and_without():
    found = []
    for options in ({}, {"hold": {"kind": "shortfall", "after_s": 3600}}):
        story = Story().given(configure(**options), connect("W1", cpu=4), queue("x", cpu=3), queue("a", cpu=2))
        explained = explain(story, "a")
        for name in ("hold_absence", "queued_since_us"):
            explained["waits"].pop(name)
        found.append((explained["reasons"], explained["waits"]))
    assert found[0] == found[1]
    assert found[0][0][0]["reason"] == "no_room"


def test_37_the_explanation_and_the_events_do_not_grow_with_the_fleet():
    def story_of(workers: int) -> Story:
        fleet = [connect(f"W{n}", cpu=2) for n in range(workers)]
        return Story().given(*fleet, *(queue(f"a{n}", cpu=4) for n in range(20)))

    few, many = story_of(10), story_of(300)
    assert len(json.dumps(explain(few, "a0"))) == pytest.approx(len(json.dumps(explain(many, "a0"))), abs=40)
    beside_the_fleet = [
        sum(not isinstance(event, e.WorkerAdmitted) for event in story.every_event()) for story in (few, many)
    ]
    assert beside_the_fleet[0] == beside_the_fleet[1]
    assert counts(many, "a0") == {"too_small": 300}


# -- every standing, every reason -------------------------------------------------------------------------------------------


def standing(story: Story, name: str, endpoint: str) -> str:
    return next(each["standing"] for each in explain(story, name)["waits"]["closest"] if each["endpoint"] == endpoint)


def test_workers_that_take_nothing_are_told_apart():
    story = Story().given(
        configure(max_unaccepted_dispatches=1),
        connect("drained", cpu=1),
        drain("drained"),
        connect("full", cpu=2, inflight=1),
        queue("x", cpu=1),
        accept("x"),
        connect("unaccepted", cpu=2),
        queue("y", cpu=1),
        queue("a", cpu=1),
    )
    assert reasons(story, "a") == ["not_taking"]
    assert counts(story, "a") == {"draining": 1, "full": 1, "unaccepted": 1}
    assert standing(story, "a", "full") == "full"
    assert "full: full (1 of 1), runs 1" in words(story, "a")


def test_a_worker_that_declined_is_paused_and_later_not_offered_as_much():
    story = Story().given(
        configure(live_memory_veto="memory_kib"),
        connect("W", cpu=4, memory=1000),
        keepalive("W", 900),
        queue("a", cpu=1, memory=600),
        decline("a", DeclineReason.MEMORY, needed_kib=600, free_kib=100),
    )
    assert standing(story, "a", "W") == "paused"
    assert "requeued last from W, declined" in words(story, "a")
    story.given(keepalive("W"))
    assert (reasons(story, "a"), standing(story, "a", "W")) == (["no_room"], "declined")


def test_a_worker_that_reports_too_little_free_memory_is_told_from_one_that_is_full():
    story = Story().given(
        configure(live_memory_veto="memory_kib"),
        connect("W", cpu=4, memory=1000),
        keepalive("W", 300),
        queue("a", cpu=1, memory=600),
    )
    assert (reasons(story, "a"), standing(story, "a", "W")) == (["no_room"], "vetoed")
    assert "memory_kib: asks 600, most free 1000 (on W), most reported free 300" in words(story, "a")
    assert "W: vetoed, reports 300 KiB free, runs 0" in words(story, "a")


def test_a_paused_instance_says_so_first_and_that_there_would_be_room():
    story = Story().given(connect("W", cpu=4), pause(), queue("a", cpu=1))
    assert reasons(story, "a") == ["instance_paused", "room"]


def test_what_each_has_and_nobody_has_together_is_said():
    story = Story().given(connect("cores", cpu=8, memory=10), connect("memory", cpu=1, memory=1000))
    story.given(queue("a", cpu=4, memory=500))
    assert explain(story, "a")["waits"]["impossible_together"] is True
    assert "each of these some worker has, and no worker has all of them" in words(story, "a")


def test_an_executing_operation_says_where_and_whom_it_overtook():
    story = Story().given(connect("W", cpu=4), queue("x", cpu=3), queue("b", cpu=4), queue("a", cpu=1))
    found = explain(story, "a")
    assert found["reasons"][0]["reason"] == "placed"
    assert (found["runs"]["endpoint"], found["runs"]["overtook"]["client_operation_id"]) == ("W", "b")
    assert "past main/op-" in words(story, "a")
    story.given(accept("a"))
    assert reasons(story, "a") == ["accepted"]
    story.given(finish("a", exit_code=3))
    assert explain(story, "a")["ended"]["exit_code"] == 3
    assert "ran on W for" in words(story, "a")


def test_a_looked_up_and_a_forwarded_operation_say_who_has_them():
    story = Story(configured=False)
    story.take(f.Configured("main", json.dumps({"kind": "cache_lookup", "scheduler": {"kind": "simple"}})))
    story.take(f.ActionQueued("main", "a", b"", cacheable=True, action_digest=Digest(b"\x01" * 32, 1)))
    assert reasons(story, "a") == ["cache_lookup"]
    forwarding = Story(configured=False)
    forwarding.take(f.Configured("main", json.dumps({"kind": "upstream", "instance": "elsewhere"})))
    forwarding.take(f.ActionQueued("main", "a", b""))
    assert reasons(forwarding, "a") == ["forwarded"]
    assert "handed to elsewhere, which has not answered" in words(forwarding, "a")


def test_a_place_far_behind_is_not_counted_out(monkeypatch):
    monkeypatch.setattr(queueing, "PLACES_COUNTED", 3)
    story = Story().given(*(queue(f"a{n}", cpu=1) for n in range(5)))
    assert explain(story, "a2")["waits"]["place"] == 3
    waits = explain(story, "a4")["waits"]
    assert (waits["place"], waits["ahead"]) == (None, 3)
    assert "behind the first 3 in the queue" in words(story, "a4")


def test_only_the_closest_runs_are_looked_at_for_overtakers_and_that_is_said(monkeypatch):
    monkeypatch.setattr(queueing, "RUNS_LOOKED_AT", 2)
    overtaken = explain(starved(), "b")["waits"]["overtaken"]
    assert (overtaken["running"], overtaken["complete"]) == (2, False)
    assert "at least 2" in words(starved(), "b")


# -- holds ------------------------------------------------------------------------------------------------------------------


def held(after_s: int = 2, **policy: object) -> Story:
    """W1 and W2 are full of small ones; b, of eight cores, was overtaken after `after_s` and holds one of them."""
    small = [queue(f"s{number}", cpu=1) for number in range(24)]
    story = Story().given(
        configure(hold={"kind": "shortfall", "after_s": after_s, **policy}),
        connect("W1", cpu=12),
        connect("W2", cpu=12),
        *small,
        queue("b", cpu=8),
        alive(after_s + 1),
        queue("late", cpu=1),
        finish("s0"),
    )
    assert story.held() is not None
    return story


def test_a_hold_says_for_whom_why_what_it_lacks_and_what_it_costs():
    story = held(max_hold_s=60)
    endpoint, _ = story.held()
    found = hold_of(story)
    assert found["hold"]["operation_id"] == found["operation"]["operation_id"]
    assert found["overtaken_by"]["client_operation_id"] == "late"
    assert found["worker"]["endpoint"] == endpoint
    assert found["worker"]["running"] == 12
    assert found["worker"]["short"][0]["asked"] == 8000
    assert found["given_back_at_us"] - found["hold"]["made_at_us"] == 60_000_000
    other = next(name for name in ("W1", "W2") if name != endpoint)
    said = "\n".join(hold_in_words(found))
    assert "made after it had waited 3.0" in said
    assert "(late, asks cpu_millis=1000) was placed past it" in said
    assert f"could have been held instead: {other}" in said
    assert "given back by max_hold_s 1m00s after it was made" in said
    waits = explain(story, "b")["waits"]
    assert waits["hold"]["endpoint"] == endpoint
    assert f"hold: {endpoint} is held for main/op-" in words(story, "b")


def test_what_is_refused_by_a_held_worker_says_for_whom_it_is_held():
    story = held()
    endpoint, _ = story.held()
    running = next(name for name, where in story.endpoints.items() if where == endpoint)
    story.given(queue("small", cpu=1), finish(running))
    assert "worker_held" in reasons(story, "small")
    assert standing(story, "small", endpoint) == "held"
    assert explain(story, "small")["waits"]["other_hold"]["endpoint"] == endpoint
    assert hold_of(story)["worker"]["idle"] == [{"name": "cpu_millis", "amount": 1000}]


def absence(story: Story, name: str | None = None) -> str:
    return hold_of(story, name)["absence"]["reason"]


def test_why_nobody_is_held_is_told_from_off_to_not_overtaken():
    hold = {"kind": "shortfall", "after_s": 20}
    assert absence(Story()) == "off"
    story = Story().given(configure(hold=hold))
    assert absence(story) == "nothing_waits"
    story.given(connect("W", cpu=4), queue("x", cpu=3), queue("b", cpu=4), queue("c", cpu=4))
    assert absence(story, "x") == "not_queued"
    assert absence(story, "c") == "not_head"
    assert absence(story, "b") == "too_early"
    story.given(alive(21))
    assert absence(story, "b") == "not_overtaken"
    said = "\n".join(hold_in_words(hold_of(story)))
    assert "none, not_overtaken: It has waited long enough" in said
    story.given(pause())
    assert absence(story, "b") == "instance_paused"


def test_a_head_for_which_nobody_can_be_held_says_who_was_left_out_and_why():
    story = Story().given(
        configure(hold={"kind": "shortfall", "after_s": 0, "spare_last": True}),
        connect("W", cpu=4),
        queue("x", cpu=1),
        queue("b", cpu=4),
        advance(1),
        queue("c", cpu=1),
    )
    found = hold_of(story)
    assert found["absence"]["reason"] == "no_candidate"
    assert [(each["exclusion"], each["workers"]) for each in found["absence"]["excluded"]] == [("last", 1)]
    assert "1 last: It is the last worker" in "\n".join(hold_in_words(found))


def test_after_a_hold_that_expired_it_says_from_when_on_it_may_be_held_for_again():
    story = held(max_hold_s=5).given(alive(6))
    assert story.held() is None
    found = hold_of(story, "b")["absence"]
    assert found["reason"] == "expired"
    assert found["again_at_us"] - found["expired_at_us"] == 5_000_000


def test_a_hold_for_one_behind_serves_the_one_ahead_and_says_so():
    story = held().given(queue("first", cpu=8, priority=1), alive(3))
    assert absence(story, "first") == "other_held"
    assert hold_of(story, "first")["other_hold"]["client_operation_id"] == "b"
    assert hold_of(story)["hold"]["client_operation_id"] == "b"


def test_a_hold_that_moved_says_why():
    story = held()
    endpoint, _ = story.held()
    story.given(gone(endpoint))
    found = hold_of(story)
    assert found["hold"]["endpoint"] != endpoint
    assert "moves: 1, the last one because: The held worker left." in "\n".join(hold_in_words(found))
