"""Schedulers around the scheduler: property modifiers, resource hints, the action cache, another scheduler (1.5)."""

import pytest

from events import events as e
from events import facts as f
from events.reasons import CacheAnswer, Outcome, RunResult, UpstreamState
from events.values import ResourceHint
from tests.stories.notation import (
    MAIN,
    advance,
    alive,
    answer,
    cancel,
    configure,
    connect,
    fact,
    finish,
    queue,
    relay,
    restart,
    submit,
)

SIMPLE = {"kind": "simple"}


def modify(*modifications, inner=SIMPLE):
    return configure(kind="property_modifier", modifications=list(modifications), scheduler=inner)


def add(name, value):
    return {"kind": "add", "name": name, "value": value}


def remove(name):
    return {"kind": "remove", "name": name}


def replace(name, new_name, value=None, new_value=None):
    return {"kind": "replace", "name": name, "value": value, "new_name": new_name, "new_value": new_value}


@pytest.mark.parametrize(
    ("modifications", "asked", "becomes"),
    [
        ([add("zone", "a")], {}, {"zone": "a"}),
        ([add("zone", "a")], {"zone": "b"}, {"zone": "a"}),
        ([remove("zone")], {"zone": "b", "os": "x"}, {"os": "x"}),
        ([remove("zone"), add("zone", "c")], {"zone": "b"}, {"zone": "c"}),
        ([add("zone", "c"), remove("zone")], {"zone": "b"}, {}),
        ([replace("zone", "region")], {"zone": "b"}, {"region": "b"}),
        ([replace("zone", "region", value="b")], {"zone": "b"}, {"region": "b"}),
        ([replace("zone", "region", value="other")], {"zone": "b"}, {"zone": "b"}),
        ([replace("zone", "region", new_value="c")], {"zone": "b"}, {"region": "c"}),
        ([replace("zone", "region", new_value="c")], {}, {}),
    ],
)
def test_modifications_apply_in_the_order_of_the_list(story, modifications, asked, becomes):
    story.given(modify(*modifications), submit("a", properties=asked))
    assert story.asks("a") == becomes


def test_what_was_asked_stands_beside_what_became_of_it(story):
    story.given(
        modify(add("zone", "a")), submit("a", cpu=1), submit("b", properties={"cpu_millis": "1000", "zone": "a"})
    )
    requirements = story.rehearsal.shard.requirements
    first, second = (story.rehearsal.shard.operations[story.operation_id(name)] for name in ("a", "b"))
    assert first.requirement_id == second.requirement_id
    assert b"zone" not in requirements[first.asked_requirement_id]
    assert second.asked_requirement_id == 0


def test_a_number_that_a_modification_spoils_is_refused_with_its_value(story):
    story.given(modify(add("cpu_millis", "many"))).when(submit("a", cpu=1))
    story.then("ActionQueued requirements.cpu_millis rejected: invalid_requirement")


def test_a_number_that_a_modification_mends_is_taken(story):
    story.given(modify(add("cpu_millis", "1"))).when(submit("a", properties={"cpu_millis": "many"})).then("a queued")


def test_modifiers_nest_from_the_outside_in(story):
    inner = {"kind": "property_modifier", "modifications": [replace("zone", "region")], "scheduler": SIMPLE}
    story.given(modify(add("zone", "a"), inner=inner), submit("a"))
    assert story.asks("a") == {"region": "a"}


HINTS = (
    ResourceHint("//a", "Link", 3000, 500),
    ResourceHint("//a", "", 2000, 0),
    ResourceHint("", "Link", 0, 900),
)


@pytest.fixture
def hinted(story):
    return story.given(configure(kind="historical_resource", scheduler=SIMPLE), fact(f.HintsLoaded(MAIN, HINTS)))


@pytest.mark.parametrize(
    ("target", "mnemonic", "becomes"),
    [
        ("//a", "Link", {"cpu_millis": "3000", "memory_kib": "500"}),
        ("//a", "Compile", {"cpu_millis": "2000"}),
        ("//b", "Link", {"cpu_millis": "1000", "memory_kib": "900"}),
        ("//b", "Compile", {"cpu_millis": "1000"}),
        ("", "", {"cpu_millis": "1000"}),
    ],
)
def test_a_hint_is_that_of_the_target_and_mnemonic_else_the_target_else_the_mnemonic(hinted, target, mnemonic, becomes):
    hinted.given(submit("a", cpu=1, target_id=target, mnemonic=mnemonic))
    assert hinted.asks("a") == becomes


def test_a_hint_raises_and_never_lowers(hinted):
    hinted.given(submit("a", cpu=9, memory=100, target_id="//a", mnemonic="Link"))
    assert hinted.asks("a") == {"cpu_millis": "9000", "memory_kib": "500"}


def test_hints_are_replaced_as_a_whole_and_outlive_a_restart(hinted):
    hinted.given(fact(f.HintsLoaded(MAIN, (ResourceHint("", "Link", 7000, 0),))), restart())
    hinted.given(submit("a", cpu=1, target_id="//a", mnemonic="Link"))
    assert hinted.asks("a") == {"cpu_millis": "7000"}


def test_the_same_hints_again_change_nothing(hinted):
    hinted.when(fact(f.HintsLoaded(MAIN, HINTS))).then("HintsLoaded ignored: no_change")


def test_a_number_a_hint_cannot_read_is_refused_with_the_producers_value(hinted):
    hinted.when(submit("a", properties={"cpu_millis": "many"}, target_id="//a"))
    hinted.then("ActionQueued requirements.cpu_millis rejected: invalid_requirement")


@pytest.fixture
def cached(story):
    return story.given(configure(kind="cache_lookup", scheduler=SIMPLE), connect("w1", cpu=8))


def test_a_cacheable_action_is_looked_up_before_it_is_queued(cached):
    cached.when(submit("a", digest="x", cpu=1)).then("a queued", "a looked up")
    assert cached.stage("a") == "cache_check"


def test_a_hit_never_enters_the_queue(cached):
    cached.given(submit("a", digest="x")).when(answer("a", CacheAnswer.HIT, exit_code=3))
    cached.then("a answered: hit", "a finished: completed_from_cache")
    finished = cached.last(e.OperationFinished)
    assert (finished.exit_code, finished.dispatch_id) == (3, 0)


def test_a_miss_takes_the_place_it_would_have_had(cached):
    cached.given(connect("w1", cpu=1, boot=2), queue("busy", cpu=1))
    cached.given(submit("a", digest="x", cpu=1), advance(3), queue("b", cpu=1))
    cached.given(answer("a", CacheAnswer.MISS))
    assert cached.waiting() == ["a", "b"]


def test_a_miss_is_placed_at_once_where_there_is_room(cached):
    cached.given(submit("a", digest="x", cpu=1)).when(answer("a", CacheAnswer.MISS)).then("a answered: miss", "a to w1")


def test_a_failed_look_up_ends_it_for_everybody_who_waits(cached):
    cached.given(submit("a", digest="x"), submit("b", digest="x"))
    cached.when(answer("a", CacheAnswer.FAILED, message="cache is away"))
    cached.then("a answered: failed", "a finished: cache_lookup_failed")
    assert cached.last(e.OperationFinished).message == "cache is away"
    assert cached.ended() == [("a", "finished"), ("b", "finished")]


def test_identical_look_ups_are_one(cached):
    cached.when(submit("a", digest="x"), submit("b", digest="x")).then("a queued", "a looked up", "b joined a")
    cached.when(answer("a", CacheAnswer.HIT)).then("a answered: hit", "a finished: completed_from_cache")
    assert cached.ended() == [("a", "finished"), ("b", "finished")]


def test_who_skips_the_cache_goes_straight_to_the_queue(cached):
    cached.when(submit("a", digest="x", skip_cache_lookup=True)).then("a queued", "a to w1")


def test_what_is_not_cacheable_goes_straight_to_the_queue(cached):
    cached.when(submit("a", digest="x", cacheable=False), submit("b")).then(
        "a queued", "a to w1", "b queued", "b to w1"
    )


def test_an_answer_nobody_asked_for_changes_nothing(cached):
    cached.given(queue("a", cpu=1), submit("b", digest="x"), answer("b", CacheAnswer.HIT))
    cached.when(
        answer("a", CacheAnswer.HIT), answer("b", CacheAnswer.MISS), fact(f.CacheAnswered(MAIN, 4711, CacheAnswer.HIT))
    )
    cached.then(
        "CacheAnswered ignored: not_asked",
        "CacheAnswered ignored: operation_finished",
        "CacheAnswered ignored: unknown_operation",
    )


def test_an_operation_that_is_looked_up_can_be_cancelled_and_abandoned(cached):
    cached.given(submit("a", digest="x"), submit("b", digest="y", attached=True))
    cached.when(cancel("a")).then("a finished: cancelled")
    cached.given(alive(60)).when(alive(0.5)).then("b left b: timeout", "b finished: abandoned")


def test_a_look_up_outlives_a_restart(cached):
    cached.given(submit("a", digest="x", cpu=1), restart()).when(answer("a", CacheAnswer.MISS)).then(
        "a answered: miss", "a to w1"
    )


@pytest.fixture
def forwarding(story):
    return story.given(configure(kind="upstream", instance="there", bootstrap_servers="elsewhere:9092"))


def test_everything_is_handed_to_the_other_scheduler(forwarding):
    forwarding.given(connect("w1", cpu=8)).when(submit("a", cpu=1)).then(
        "a queued", "a forwarded to there@elsewhere:9092"
    )
    assert forwarding.stage("a") == "forwarded"


def test_what_becomes_of_it_there_is_relayed(forwarding):
    forwarding.given(submit("a"))
    forwarding.when(
        relay("a", UpstreamState.PLACED),
        relay("a", UpstreamState.REQUEUED),
        relay("a", UpstreamState.FINISHED, Outcome.JOB_RETRIES_EXHAUSTED, -178, "it broke"),
    )
    forwarding.then(
        "a upstream: placed", "a upstream: requeued", "a upstream: finished", "a finished: job_retries_exhausted"
    )
    finished = forwarding.last(e.OperationFinished)
    assert (finished.exit_code, finished.message) == (-178, "it broke")


def test_what_is_refused_there_fails_here_with_its_words(forwarding):
    forwarding.given(submit("a")).when(relay("a", UpstreamState.REFUSED, message="no such instance"))
    forwarding.then("a upstream: refused", "a finished: upstream_failed")
    assert forwarding.last(e.OperationFinished).message == "no such instance"


def test_nothing_forwarded_is_judged_or_placed_here(forwarding):
    forwarding.given(connect("w1", cpu=1), submit("a", cpu=99)).when(alive(100)).then()
    assert forwarding.verdicts() == []


def test_a_report_from_there_of_what_stays_here_changes_nothing(story):
    story.given(queue("a")).when(relay("a", UpstreamState.FINISHED)).then("UpstreamReported ignored: not_asked")


def test_a_forwarded_operation_is_cancelled_here_at_once(forwarding):
    forwarding.given(submit("a")).when(cancel("a")).then("a finished: cancelled")
    forwarding.when(relay("a", UpstreamState.FINISHED)).then("UpstreamReported ignored: operation_finished")


def test_a_cache_in_front_of_another_scheduler_forwards_misses_only(story):
    upstream = {"kind": "upstream", "instance": "there"}
    story.given(configure(kind="cache_lookup", scheduler=upstream), submit("a", digest="x"), submit("b", digest="y"))
    story.when(answer("a", CacheAnswer.HIT), answer("b", CacheAnswer.MISS))
    story.then("a answered: hit", "a finished: completed_from_cache", "b answered: miss", "b forwarded to there")


def test_what_was_forwarded_stays_there_when_the_configuration_changes(forwarding):
    forwarding.given(submit("a")).when(configure(), connect("w1")).then("main configured", "w1 admitted")
    forwarding.when(relay("a", UpstreamState.FINISHED, Outcome.COMPLETED)).then(
        "a upstream: finished", "a finished: completed"
    )


def test_a_run_that_began_here_ends_here_when_everything_else_is_forwarded(story):
    story.given(connect("w1"), queue("a"), configure(kind="upstream", instance="there"))
    story.when(finish("a", RunResult.EXITED), submit("b")).then(
        "a finished: completed", "b queued", "b forwarded to there"
    )
