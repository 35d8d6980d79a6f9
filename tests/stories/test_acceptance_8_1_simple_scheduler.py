"""The scheduler's own suite, first half: clients, dispatching, results. Names and promises: tests/fixtures/spec/acceptance.toml."""

import asyncio

import pytest

from events import events as e
from events import facts as f
from events.reasons import ClientLeaving, DisconnectReason, Outcome, PlacementEnd
from events.values import Usage
from projections import answers
from streams import rehearsal
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from tests.stories.client_words import (
    commands,
    dispatches_of,
    ended,
    hear,
    of_kind,
    placed,
    row,
    submit,
)
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    configure,
    connect,
    drain,
    fact,
    finish,
    gone,
    queue,
    remove,
    undrain,
)
from tests.stories.read_side import table_of
from tests.streams.scheduling import deciding, until


def test_basic_add_action_with_one_worker(story):
    story.given(connect("w1", cpu=8)).when(queue("a", cpu=8, queued_s=-2)).then("a queued", "a to w1")
    (sent,) = placed(story)
    assert (sent.client_operation_id, sent.endpoint) == ("a", "w1")
    assert sent.operation_id == row(story, "a").operation_id
    assert sent.connection_id == story.connections["w1"]
    assert sent.queued_at_us == story.now_us - 2_000_000
    assert answers.operation(table_of(story), answers.lookup(table_of(story), "a"))["stage"] == "executing"


def test_scheduler_start_execute_origin_event_includes_resource_hints(story):
    story.given(connect("w1", cpu=8, memory=5000))
    story.when(submit("a", cpu=2, memory=1000, target="//x:y", mnemonic="Compile", expected_s=3))
    (sent,) = placed(story)
    asked = {item.name: item.value for item in sent.requirements.items}
    assert asked == {"cpu_millis": "2000", "memory_kib": "1000"}
    assert (sent.target_id, sent.mnemonic, sent.expected_duration_us) == ("//x:y", "Compile", 3_000_000)


def test_client_does_not_receive_update_timeout(story):
    story.given(configure(worker_timeout_s=5), connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    story.when(advance(4.5)).then()
    story.when(advance(0.5)).then("a requeued: worker_timeout", "w1 out: timeout")
    assert [end.end for end in ended(story)] == [PlacementEnd.REQUEUED]


def test_find_executing_action(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8, attached=True), accept("a"))
    found = answers.operation(table_of(story), answers.lookup(table_of(story), "a"))
    assert (found["stage"], found["endpoint"]) == ("executing", "w1")
    story.when(finish("a")).then("a finished: completed")
    (end,) = ended(story)
    assert (end.client_operation_id, end.outcome) == ("a", Outcome.COMPLETED)


def test_remove_worker_reschedules_multiple_running_job(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4))
    before = [row(story, name).operation_id for name in "ab"]
    story.when(remove("w1"))
    story.then("a requeued: worker_gone", "b requeued: worker_gone", "w1 out: removed")
    assert commands(story)[-1].evicted.reason == DisconnectReason.REMOVED
    story.when(connect("w2", cpu=8)).then("w2 admitted", "a to w2", "b to w2")
    assert [sent.operation_id for sent in placed(story)[2:]] == before


def test_set_drain_worker_pauses_and_resumes_worker(story):
    story.given(connect("w1", cpu=8)).when(drain("w1"), queue("a", cpu=8)).then("w1 drained", "a queued")
    story.when(undrain("w1")).then("w1 undrained", "a to w1")


def test_worker_should_not_queue_if_properties_dont_match(story):
    story.given(configure(supported_platform_properties={"os": "exact"}), connect("w1", cpu=8, os="mac"))
    story.when(queue("a", cpu=1, os="linux"))
    assert story.waiting() == ["a"]
    story.when(connect("w2", cpu=8, os="linux"))
    assert dispatches_of(story, "a") == ["w2"]


def test_cacheable_items_join_same_action_queued(story):
    story.given(submit("first", "x", cpu=4, queued_s=-1), advance(0.2), submit("second", "x", cpu=4))
    operation_id = row(story, "first").operation_id
    assert row(story, "second").operation_id == operation_id
    story.given(connect("w1", cpu=8), submit("third", "x", cpu=4))
    assert row(story, "third") is row(story, "first")
    assert len(of_kind(story, e.OperationDispatched)) == 1
    (sent,) = placed(story)
    assert sent.queued_at_us == row(story, "first").queued_at_us == of_kind(story, e.OperationQueued)[0].queued_at_us
    for name in ("first", "second", "third"):
        assert answers.operation(table_of(story), answers.lookup(table_of(story), name))["stage"] == "executing"
    story.when(finish("first"))
    assert sorted(end.client_operation_id for end in ended(story)) == ["first", "second", "third"]
    assert {end.operation_id for end in ended(story)} == {operation_id}


def test_worker_disconnects_does_not_schedule_for_execution(story):
    story.given(connect("w1", cpu=8), gone("w1")).when(queue("a", cpu=8)).then("a queued")
    story.given(connect("w1", cpu=8))  # and one that goes before it has said a word about it
    story.when(gone("w1")).then("a requeued: worker_gone", "w1 out: gone")
    assert story.waiting() == ["a"]


def test_matching_engine_fails_sends_abort(story, monkeypatch):
    story.given(connect("w1", cpu=8))
    sent = len(story.rehearsal.outbounds)
    with monkeypatch.context() as broken:

        def fail(*_: object, **__: object) -> None:
            raise OSError("the record could not be written")

        broken.setattr(rehearsal, "encode_event", fail)
        with pytest.raises(OSError, match="could not be written"):
            queue("a", cpu=8)(story)
        assert len(story.rehearsal.outbounds) == sent, (
            "a worker was told of an assignment that does not stand in the log"
        )
    story.restart()
    story.given().when(queue("b", cpu=8))
    assert [each.client_operation_id for each in placed(story)] == ["b"]


def test_worker_timesout_reschedules_running_job(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"), advance(5), connect("w2", cpu=8))
    story.when(advance(5)).then("a requeued: worker_timeout", "w1 out: timeout", "a to w2")
    told = [each for each in commands(story) if each.WhichOneof("kind") == "evicted"]
    assert [(each.endpoint, each.evicted.reason) for each in told] == [("w1", DisconnectReason.TIMEOUT)]


def test_update_action_sends_completed_result_to_client(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    usage = Usage(wall_us=5, cpu_us=4, peak_memory_kib=3)
    report = f.ActionFinished(
        MAIN, "w1", story.connections["w1"], story.dispatch_ids["a"], exit_code=3, stdout_tail=b"\x00out",
        stderr_tail=b"err", usage=usage,
    )  # fmt: skip
    story.when(fact(report)).then("a finished: completed")
    finished = story.last(e.OperationFinished)
    assert (finished.exit_code, finished.stdout_tail, finished.stderr_tail, finished.usage) == (
        3,
        b"\x00out",
        b"err",
        usage,
    )
    (end,) = ended(story)
    assert (end.client_operation_id, end.exit_code, end.endpoint) == ("a", 3, "w1")


def test_update_action_sends_completed_result_after_disconnect(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, attached=True), advance(5), finish("a", exit_code=7))
    story.given(alive(30))
    table = table_of(story)
    found = answers.operation(table, answers.lookup(table, "a"))
    assert (found["stage"], found["exit_code"], found["outcome"]) == ("finished", 7, "completed")
    story.when(hear("a")).then("ClientHeard ignored: operation_finished")


def test_update_action_with_wrong_worker_id_errors(story):
    story.given(connect("w1", cpu=8), connect("w2", cpu=8), queue("a", cpu=8), queue("b", cpu=8))
    assert (story.endpoints["a"], story.endpoints["b"]) == ("w1", "w2")
    report = f.ActionFinished(MAIN, "w2", story.connections["w2"], story.dispatch_ids["a"])
    story.when(fact(report)).then("ActionFinished ignored: dispatch_not_current")
    assert story.connected() == ["w1", "w2"]
    story.when(finish("a"), finish("b")).then("a finished: completed", "b finished: completed")


def test_does_not_crash_if_operation_joined_then_relaunched(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8), submit("b", "x", cpu=8), finish("a"))
    story.when(submit("c", "x", cpu=8)).then("c queued", "c to w1")
    assert row(story, "c").operation_id != row(story, "a").operation_id


def test_run_two_jobs_on_same_worker_with_platform_properties_restrictions(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=5)).when(queue("b", cpu=5)).then("b queued")
    story.when(finish("a")).then("a finished: completed", "b to w1")


def test_run_jobs_in_the_order_they_were_queued(story):
    story.given(queue("late", cpu=8), queue("early", cpu=8, queued_s=-5))
    story.when(connect("w1", cpu=8)).then("w1 admitted", "early to w1")


async def test_ensure_scheduler_drops_inner_spawn():
    log = MemoryLog()
    await provision(log, {"main": None}, shards=1)
    before = asyncio.all_tasks()
    async with deciding(log) as one:
        await until(lambda: one.stats.leader_epoch >= 1)
        assert asyncio.all_tasks() > before
    assert asyncio.all_tasks() == before


def test_client_reconnect_keeps_action_alive(story):
    story.given(submit("a", cpu=8, attached=True))
    for _ in range(100):
        story.given(advance(10), hear("a"))
        table = table_of(story) if story.now_us % 250_000_000 == 0 else None
        if table is not None:
            assert [each["client_operation_id"] for each in answers.queue(table)] == ["a"]
    story.when(connect("w1", cpu=8)).then("w1 admitted", "a to w1")


def test_client_timesout_job_then_same_action_requested(story):
    story.given(configure(client_action_timeout_s=60), submit("a", "x", cpu=8, attached=True), advance(61))
    (left,) = of_kind(story, e.ClientLeft)
    assert left.reason is ClientLeaving.TIMEOUT
    assert row(story, "a").outcome is Outcome.ABANDONED
    story.given(submit("b", "x", cpu=8, attached=True), advance(59))
    assert story.waiting() == ["b"]


def test_late_client_drop_does_not_orphan_replacement_operation(story):
    story.given(configure(retain_completed_for_s=10), connect("w1", cpu=8))
    story.given(submit("a", "x", cpu=8), finish("a"), alive(4), submit("b", "x", cpu=8), alive(8))
    assert of_kind(story, e.OperationsForgotten), "a is forgotten"
    story.when(submit("c", "x", cpu=8))
    assert row(story, "c") is row(story, "b")
    assert len(of_kind(story, e.OperationQueued)) == 2
