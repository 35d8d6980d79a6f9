"""Attached clients send keepalives; an operation whose last client left or fell silent is abandoned (C1-C5)."""

from events import events as e
from events import facts as f
from events.reasons import Outcome, RunResult
from tests.stories.notation import (
    accept,
    advance,
    alive,
    configure,
    connect,
    fact,
    finish,
    heard,
    keepalive,
    left,
    restart,
    submit,
    tick,
)


def listening(*names, seconds):
    """Time passes and these clients are heard every ten seconds; workers too."""

    def step(story):
        for _ in range(seconds // 10):
            alive(10)(story)
            for name in names:
                heard(name)(story)

    return step


def test_an_attached_operation_nobody_is_heard_for_is_abandoned(story):
    story.given(submit("a", attached=True)).when(alive(60)).then()
    story.when(alive(0.5)).then("a left a: timeout", "a finished: abandoned")
    assert story.last(e.OperationFinished).message == "no more clients listening"
    assert story.last(e.ClientLeft).silent_us == 60_500_000


def test_an_operation_without_an_attached_client_is_never_abandoned(story):
    story.given(submit("a")).when(alive(1000)).then()
    assert story.stage("a") == "queued"


def test_a_client_that_is_heard_keeps_its_operation_alive(story):
    story.given(submit("a", attached=True)).when(listening("a", seconds=1000)).then()
    assert story.stage("a") == "queued"


def test_a_short_drop_of_the_client_changes_nothing(story):
    story.given(submit("a", attached=True), alive(58))
    since = story.rehearsal.shard.operations[story.operation_id("a")].queued_since_us
    story.when(heard("a"), alive(58)).then()
    assert story.rehearsal.shard.operations[story.operation_id("a")].queued_since_us == since


def test_a_running_operation_that_is_abandoned_is_killed_first(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, attached=True), accept("a"), alive(60))
    story.when(alive(0.5)).then("a left a: timeout", "w1 told to kill a: abandoned", "a finished: abandoned")
    assert story.free("w1") == 0
    story.when(finish("a", RunResult.KILLED)).then("w1 settled a: killed")
    assert story.free("w1") == 8000


def test_a_report_after_the_abandonment_frees_the_worker_and_changes_no_result(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, attached=True), alive(61))
    story.when(finish("a")).then("w1 settled a: exited")
    assert story.last(e.OperationFinished).outcome == Outcome.ABANDONED


def test_a_client_that_says_it_leaves_ends_what_only_it_waits_for(story):
    story.given(submit("a", attached=True)).when(left("a")).then("a left a: gone", "a finished: abandoned")


def test_an_operation_goes_on_while_one_client_is_left(story):
    story.given(submit("a", digest="x", attached=True), submit("b", digest="x", attached=True))
    story.when(left("a")).then("a left a: gone")
    story.when(listening("b", seconds=200)).then()
    story.when(left("b")).then("b left a: gone", "a finished: abandoned")


def test_a_silent_client_leaves_while_the_other_goes_on(story):
    story.given(submit("a", digest="x", attached=True), submit("b", digest="x", attached=True))
    story.when(listening("b", seconds=70)).then("a left a: timeout")
    assert story.stage("b") == "queued"


def test_a_joined_client_that_sends_no_keepalives_keeps_the_operation(story):
    story.given(submit("a", digest="x", attached=True), submit("b", digest="x"))
    story.when(alive(300)).then("a left a: timeout")
    assert story.stage("a") == "queued"


def test_an_operation_that_was_queued_unattached_stays_whoever_joins_and_leaves(story):
    story.given(submit("a", digest="x"), submit("b", digest="x", attached=True))
    story.when(left("b"), alive(100)).then("b left a: gone")
    assert story.stage("a") == "queued"


def test_joining_counts_as_being_heard(story):
    story.given(submit("a", digest="x", attached=True), alive(59), submit("b", digest="x", attached=True))
    story.when(alive(58)).then("a left a: timeout")
    assert story.stage("a") == "queued"


def test_a_client_that_comes_back_while_others_wait_counts_again(story):
    story.given(
        submit("a", digest="x", attached=True), submit("b", digest="x", attached=True), listening("b", seconds=70)
    )
    story.given(heard("a"), left("b")).when(alive(60)).then()
    story.when(alive(0.5)).then("a left a: timeout", "a finished: abandoned")


def test_a_client_that_said_it_leaves_is_not_heard_any_more(story):
    story.given(submit("a", digest="x", attached=True), submit("b", digest="x", attached=True), left("a"))
    story.when(heard("a"), left("a"))
    story.then("ClientHeard ignored: unknown_client", "ClientGone ignored: no_change")


def test_the_same_action_requested_after_an_abandonment_is_queued_and_alive(story):
    story.given(submit("a", digest="x", attached=True), alive(61))
    story.when(submit("b", digest="x", attached=True), tick()).then("b queued")
    assert story.stage("b") == "queued"


def test_after_the_end_a_client_is_told_that_it_is_over(story):
    story.given(connect("w1"), submit("a", attached=True), finish("a"))
    story.when(heard("a"), left("a"))
    story.then("ClientHeard ignored: operation_finished", "ClientGone ignored: operation_finished")


def test_a_client_nobody_knows_is_ignored(story):
    story.when(heard("nobody"), left("nobody"))
    story.then("ClientHeard ignored: unknown_client", "ClientGone ignored: unknown_client")


def test_a_client_that_is_not_attached_can_come_and_go(story):
    story.given(submit("a")).when(heard("a"), left("a"))
    story.then("ClientHeard ignored: no_change", "ClientGone ignored: no_change")


def test_a_client_of_an_unknown_instance_is_rejected(story):
    story.when(fact(f.ClientHeard("nowhere", "a"))).then("ClientHeard instance rejected: unknown_instance")


def test_a_shorter_timeout_counts_at_once(story):
    story.given(submit("a", attached=True), alive(20)).when(configure(client_action_timeout_s=15))
    story.then("main configured")
    story.when(tick()).then("a left a: timeout", "a finished: abandoned")


def test_a_restart_forgets_no_client_and_none_of_its_silence(story):
    story.given(
        submit("a", digest="x", attached=True), submit("b", digest="x", attached=True), listening("b", seconds=30)
    )
    story.given(restart()).when(listening("b", seconds=40)).then("a left a: timeout")


def test_an_outage_of_the_log_costs_no_client_its_operation(silent_story):
    story = silent_story.given(connect("w1"), submit("a", cpu=8, attached=True), advance(3600))
    story.when(keepalive("w1")).then("log silent for 3600 s")
    assert story.stage("a") == "queued"
