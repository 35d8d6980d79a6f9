"""What a restart, an undecidable fact and the form of a fact may not change."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from events import decide as deciding
from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, check_chain, decode_event, decode_fact, encode_event, encode_fact
from events.jsonform import fact_from_json, fact_to_json
from streams.rehearsal import Rehearsal
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    cancel,
    configure,
    connect,
    decline,
    drain,
    fact,
    fail,
    finish,
    gone,
    keepalive,
    pause,
    queue,
    reprioritise,
    restart,
    resume,
    tick,
    undrain,
)
from tests.stories.story import Story

OPERATIONS = ("a", "b", "c", "d")
WORKERS = ("w1", "w2")


def if_placed(step):
    """A step about an operation's dispatch, left out where it never had one."""

    def named(name):
        def guarded(story):
            if name in story.dispatch_ids:
                step(name)(story)

        return guarded

    return named


def if_known(step):
    """A step about a worker's connection, left out where it never connected."""

    def named(endpoint):
        def guarded(story):
            if endpoint in story.connections:
                step(endpoint)(story)

        return guarded

    return named


def reconnect(endpoint):
    """The same process comes back with what it had."""

    def step(story):
        listed = tuple(name for name in sorted(story.dispatch_ids) if story.endpoints[name] == endpoint)
        connect(endpoint, cpu=8, running=listed)(story)

    return step


named = st.sampled_from(OPERATIONS)
endpoints = st.sampled_from(WORKERS)
steps = st.one_of(
    st.builds(
        lambda n, c, p: (f"queue {n}", queue(n, cpu=c, priority=p)),
        named,
        st.sampled_from([1, 4, 8]),
        st.integers(0, 2),
    ),
    st.builds(lambda w, b: (f"connect {w}", connect(w, cpu=8, boot=b)), endpoints, st.integers(0, 2)),
    st.builds(lambda w: (f"reconnect {w}", reconnect(w)), endpoints),
    *[
        st.builds(lambda n, word=word, step=step: (f"{word} {n}", if_placed(step)(n)), named)
        for word, step in (("accept", accept), ("finish", finish), ("fail", fail), ("decline", decline))
    ],
    *[
        st.builds(lambda w, word=word, step=step: (f"{word} {w}", if_known(step)(w)), endpoints)
        for word, step in (("keepalive", keepalive), ("gone", gone), ("drain", drain), ("undrain", undrain))
    ],
    st.builds(lambda n: (f"cancel {n}", cancel(n)), named),
    st.builds(lambda n, p: (f"reprioritise {n}", reprioritise(n, p)), named, st.integers(0, 3)),
    st.sampled_from([("pause", pause()), ("resume", resume()), ("tick", tick())]),
    st.builds(lambda s: (f"advance {s}", advance(s)), st.sampled_from([0.1, 3, 11, 70])),
    st.builds(lambda s: (f"alive {s}", alive(s)), st.sampled_from([2, 20])),
    st.just(("configure", configure(allocation_strategy="most_recently_used", worker_timeout_s=5))),
)


def told(history, restart_before=()):
    """The lines of a history, restarted before the steps with these numbers; leaders left out."""
    story = Story()
    for number, (_, step) in enumerate(history):
        if number in restart_before:
            restart()(story)
        step(story)
    kept = [event for event in story.every_event() if not isinstance(event, e.LeaderElected | e.RecoveryCompleted)]
    return story, story.lines(kept), [(type(event), event.at_us, event.cause_offset) for event in kept]


@settings(max_examples=120, deadline=None)
@given(st.lists(steps, max_size=40), st.sets(st.integers(0, 39), max_size=5))
def test_restarts_anywhere_change_nothing_but_the_leader(history, restart_before):
    note(" · ".join(name for name, _ in history))
    _, lines, envelopes = told(history)
    _, lines_restarted, envelopes_restarted = told(history, restart_before)
    assert lines_restarted == lines
    assert envelopes_restarted == envelopes


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=40))
def test_every_history_is_one_chain_without_gaps_and_every_fact_has_an_event(history):
    story, _, _ = told(history)
    chain = GENESIS_CHAIN
    for number, event in enumerate(story.every_event(), start=1):
        assert event.seq == number
        value, next_chain = (
            encode_event(event, 1, chain)
            if not isinstance(event, e.LeaderElected)
            else encode_event(event, event.leader_epoch, chain)
        )
        assert check_chain(value, chain) == next_chain
        assert decode_event(value) == event
        chain = next_chain
    causes = {event.cause_offset for event in story.every_event()}
    assert causes == set(range(story.rehearsal.next_offset))


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=30))
def test_the_form_of_the_facts_changes_nothing(history):
    told_story, calls = Story(configured=False), []
    rehearsal = told_story.rehearsal
    take, run_until = rehearsal.take, rehearsal.run_until

    def noted_take(fact, at_us, key=None):
        calls.append((fact, at_us, key))
        return take(fact, at_us, key)

    def noted_run_until(at_us, *, including=True):
        if including:  # the others are `take`'s own
            calls.append((None, at_us, None))
        return run_until(at_us, including=including)

    rehearsal.take, rehearsal.run_until = noted_take, noted_run_until
    told_story.configure({})
    for _, step in history:
        step(told_story)
    for form in (lambda fact: decode_fact(encode_fact(fact)), lambda fact: fact_from_json(fact_to_json(fact))):
        copy = Rehearsal()
        for taken, at_us, key in calls:
            if taken is None:
                copy.run_until(at_us)
            else:
                copy.take(form(taken), at_us, key)
        assert copy.events == told_story.every_event()


def test_a_restart_elects_a_new_leader_and_sends_running_placements_again(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    before = len(story.rehearsal.outbounds)
    story.when(restart()).then("leader 2 elected")
    sent = story.rehearsal.outbounds[before:]
    assert [out.kind for out in sent] == ["ActionPlaced"]
    story.when(finish("a")).then("a finished: completed")


def test_a_restart_before_anything_happened_is_an_election():
    story = Story(configured=False)
    story.when(restart()).then("leader 1 elected", "leader 2 elected")


@pytest.fixture
def broken_priority(monkeypatch):
    """A build that fails on priority 13."""
    sound = deciding.RULES[f.PriorityRequested]

    def reprioritise_or_fail(step, fact):
        sound(step, fact)
        if fact.priority == 13:
            raise ZeroDivisionError("unlucky")

    monkeypatch.setitem(deciding.RULES, f.PriorityRequested, reprioritise_or_fail)


def test_a_fact_that_cannot_be_decided_parks_its_key_and_the_rest_goes_on(story, broken_priority):
    story.given(queue("a", cpu=8), queue("b", cpu=8))
    story.when(reprioritise("a", 13)).then("PriorityRequested rejected: undecidable", "key a parked")
    assert story.last(e.FactRejected).value == "ZeroDivisionError: unlucky"
    story.when(cancel("a"), cancel("b")).then("CancelRequested ignored: key_parked", "b finished: cancelled")
    assert story.waiting() == ["a"]
    assert story.rehearsal.shard.operations[story.last(e.OperationQueued).operation_id].priority == 0


def test_a_parked_key_is_taken_again_once_it_is_released(story, broken_priority):
    story.given(queue("a", cpu=8), reprioritise("a", 13))
    story.when(restart(), cancel("a")).then("leader 2 elected", "CancelRequested ignored: key_parked")
    story.when(fact(f.KeyReleased("a")), cancel("a")).then("key a released", "a finished: cancelled")


def test_releasing_what_is_not_parked_changes_nothing(story):
    story.when(fact(f.KeyReleased("a"))).then("KeyReleased ignored: no_change")


def test_an_unreadable_record_is_rejected_and_the_next_fact_is_decided(story):
    unreadable = decode_fact(b"\xff\xff")
    story.when(fact(unreadable), queue("a")).then(" rejected: undecodable", "a queued")


def test_a_configuration_that_breaks_a_rule_leaves_the_one_in_force(story):
    story.given(configure(worker_timeout_s=5), connect("w1"))
    story.when(configure(worker_timeout_s=0), configure(worker_timeout="1"))
    story.then(
        "Configured worker_timeout_s rejected: invalid_configuration",
        "Configured worker_timeout rejected: invalid_configuration",
    )
    story.when(advance(5.5)).then("w1 out: timeout")


def test_a_configuration_under_which_rows_could_not_be_read_is_refused(story):
    story.given(connect("w1", pool="blue"), queue("a", tier="gold"))
    story.when(configure(supported_platform_properties={"pool": "minimum"}))
    story.then("Configured supported_platform_properties.pool rejected: invalid_configuration")
    story.when(configure(supported_platform_properties={"tier": "minimum"}))
    story.then("Configured supported_platform_properties.tier rejected: invalid_configuration")


def test_an_instance_comes_into_being_with_its_first_configuration():
    story = Story(configured=False)
    story.when(queue("a")).then("leader 1 elected", "ActionQueued instance rejected: unknown_instance")
    story.when(configure(), queue("a")).then("main configured", "a queued")


def test_instances_of_one_shard_share_nothing_but_the_order(story):
    story.given(fact(f.Configured("other", '{"kind":"simple"}')), connect("w1", cpu=8))
    story.when(fact(f.ActionQueued("other", "a")), queue("a")).then("a queued", "a queued", "a to w1")
    story.when(fact(f.InstancePaused("other")), queue("b")).then("other paused", "b queued", "b to w1")
    story.when(fact(f.CancelRequested("other", None, "b"))).then("CancelRequested ignored: unknown_operation")
    assert story.counters("a") == (0, 0, 0)
    assert MAIN in story.rehearsal.shard.instances
