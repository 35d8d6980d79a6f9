"""Failures such schedulers had and this one cannot have: wake-ups, attempts, timeouts, matching, interfaces (9.3, 9.4, 9.5).

Numbers and promises: tests/fixtures/spec/defects.toml.
"""

import asyncio
import os
from pathlib import Path

import pytest

from events import events as e
from events import facts as f
from events import reasons
from events.codec import decode_event, decode_fact
from events.errors import UnknownEvent
from events.payloads import Command
from events.reasons import Outcome, RunResult, sentence
from events.state import Stage
from events.values import Usage
from projections import answers
from proto.gen.headway.v1 import events_pb2
from streams.client import FactPublisher
from streams.memory_log import MemoryLog
from streams.shard_map import read_shard_map
from streams.topics import FACTS
from streams.worker.capacity import Amounts, Ledger
from streams.worker.commands import Admitted, Evicted
from streams.worker.process import ProcessRun
from streams.worker.protocol import Connect, Identity, WorkerProtocol
from streams.worker.secret_source import SecretSource
from tests.reference.rows import rows_of
from tests.stories.client_words import configured, dispatches_of, hear, killed_for_memory, of_kind, row, submit
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
    remove,
    restart,
    resume,
    tick,
    undrain,
)
from tests.stories.read_side import table_of
from tests.streams.scheduling import scheduler, serving, until, worker

# -- 9.3 missed wake-ups --------------------------------------------------------------------------------------------------------------

OPENINGS = {
    "a finish": ((connect("w1", cpu=8), queue("x", cpu=8)), (finish("x"),)),
    "a failure": ((connect("w1", cpu=8), queue("x", cpu=8, priority=-1)), (fail("x"),)),
    "a settled kill": ((connect("w1", cpu=8), queue("x", cpu=8), cancel("x")), (finish("x", RunResult.KILLED),)),
    "a keepalive that lifts a pause": ((connect("w1", cpu=8), queue("x", cpu=8), decline("x"), cancel("x")), (keepalive("w1"),)),
    "an undrain": ((connect("w1", cpu=8), drain("w1")), (undrain("w1"),)),
    "a connect": ((), (connect("w1", cpu=8),)),
    "a resume": ((connect("w1", cpu=8), pause()), (resume(),)),
    "another configuration": ((connect("w1", cpu=8, note="x"),), (configure(supported_platform_properties={"note": "ignore"}),)),
    "a submission": ((connect("w1", cpu=8),), ()),
    "a requeue": ((connect("w0", cpu=8), queue("x", cpu=8), connect("w1", cpu=1)), (remove("w1"), finish("x"))),
    "a report of free memory": (
        (configure(live_memory_veto="memory_kib"), connect("w1", cpu=8, memory=100), keepalive("w1", 0)),
        (keepalive("w1", 100),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("opening", OPENINGS)
def test_9_3_1_whatever_opens_room_places_what_waits_in_the_same_fact(story, opening):
    before, then = OPENINGS[opening]
    asked = {"memory": 50} if "memory" in opening else {"note": "y"} if "configuration" in opening else {}
    story.given(*before, queue("a", cpu=8, **asked))
    if then:
        assert story.waiting() == ["a"]
    story.given(*then)
    assert row(story, "a").stage is Stage.EXECUTING


async def test_9_3_6_keepalives_go_on_while_reports_wait_for_the_log(monkeypatch):
    publish, taken = MemoryLog.publish, asyncio.Event()
    taken.set()

    async def slow(log: MemoryLog, partition: object, records: object) -> list[int]:
        task = asyncio.current_task()
        if task is not None and task.get_name() == "outbox":
            await taken.wait()
        return await publish(log, partition, records)

    monkeypatch.setattr(MemoryLog, "publish", slow)
    async with scheduler(worker_timeout_s=1) as log:
        one = worker()
        async with serving(log, one) as runtime, FactPublisher(log) as publisher:
            taken.clear()
            name = await publisher.queue(requirements={"cpu_millis": 1000})
            before = runtime.stats.keepalives
            await until(lambda: runtime.stats.keepalives >= before + 6, "more than a timeout's worth of keepalives")
            assert runtime.stats.connects == 1
            assert one.admitted
            taken.set()
            assert (await publisher.wait(name, timeout_s=20)).succeeded


# -- 9.4 attempts and timeouts --------------------------------------------------------------------------------------------------------


def test_9_4_1_failures_losses_and_free_causes_are_counted_apart_and_each_is_bounded(story):
    limits = {"max_job_retries": 2, "max_worker_loss_retries": 2, "max_free_requeues": 2}
    story.given(configure(**limits), connect("w1", cpu=8), queue("a", cpu=8))
    story.given(fail("a"), decline("a"), keepalive("w1"), gone("w1"), connect("w1", cpu=8))
    assert story.counters("a") == (1, 1, 1)
    story.given(fail("a"), decline("a"), keepalive("w1"), gone("w1"), connect("w1", cpu=8))
    assert story.counters("a") == (2, 2, 2)
    story.when(fail("a")).then("a finished: job_retries_exhausted")
    for name, loop, outcome in (
        ("b", (decline("b"), keepalive("w1")), Outcome.FREE_REQUEUES_EXHAUSTED),
        ("c", (gone("w1"), connect("w1", cpu=8)), Outcome.WORKER_LOSSES_EXHAUSTED),
    ):
        story.given(queue(name, cpu=8), *loop, *loop, *loop)
        assert row(story, name).outcome is outcome


def test_9_4_2_heartbeats_write_nothing_into_operations(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8), queue("b", cpu=8))
    before = rows_of(story.rehearsal.shard)["operations"]
    story.given(*(keepalive("w1", number) for number in range(50)), alive(30))
    assert rows_of(story.rehearsal.shard)["operations"] == before


def test_9_4_3_an_action_that_is_alive_but_stuck_times_out(story):
    story.given(configure(max_action_executing_timeout_s=60), connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    story.when(alive(60)).then()
    story.when(alive(1)).then("w1 told to kill a: action_timeout", "a requeued: executing_timeout")


def test_9_4_4_a_drain_finishes_what_runs_and_who_stops_does_not_come_back_meanwhile(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=4), drain("w1"), queue("b", cpu=4))
    story.when(connect("w1", cpu=8, running=("a",)), alive(20)).then("w1 admitted again with a")
    story.when(finish("a")).then("a finished: completed")
    assert story.waiting() == ["b"], "a reconnect of the same process does not end its drain"
    one = WorkerProtocol(Identity("main", "w1", 7, ()), Ledger(Amounts(1000, 1000), 0))
    one.connect(11, 0)
    one.command(Admitted(11, (), 10_000_000), 0)
    one.drain(0, None)
    assert one.stopped
    assert not [
        each for each in one.command(Evicted(11, reasons.DisconnectReason.GONE), 0) if isinstance(each, Connect)
    ]
    assert one.connect(22, 0) == []


def test_9_4_5_a_lost_connection_aborts_no_worker_and_stale_runs_are_fenced_by_their_id(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4), accept("b"))
    lost = story.dispatch_ids["a"]
    story.when(connect("w1", cpu=8, running=("b",)))
    story.then("a requeued: worker_replaced", "w1 admitted again with b", "a to w1")
    assert story.dispatch_ids["a"] != lost
    late = f.ActionFinished(MAIN, "w1", story.connections["w1"], lost)
    story.when(fact(late)).then("ActionFinished ignored: dispatch_not_current")
    story.when(finish("b"), finish("a")).then("b finished: completed", "a finished: completed")


def test_9_4_6_a_retry_has_a_directory_of_its_own(tmp_path: Path):
    def run(dispatch_id: int) -> str:
        command = Command(("/bin/sh", "-c", "pwd; ls -A; touch left-over"), ())
        report = ProcessRun(dispatch_id, command, root=tmp_path, secrets=SecretSource(), path=os.environ["PATH"]).run()
        return report.stdout_tail.decode().strip()

    assert [run(7), run(8)] == [str(tmp_path / "7"), str(tmp_path / "8")]


# -- 9.5 matching, interface, observability -------------------------------------------------------------------------------------------


def test_9_5_1_an_undeclared_property_neither_refuses_a_worker_nor_sticks_an_action(story):
    story.given(configure(supported_platform_properties={"os": "exact"}), connect("w1", cpu=8, os="mac", colour="red"))
    story.when(queue("a", cpu=1, os="mac", shape="round")).then("a queued", "a to w1")
    story.when(queue("b", cpu=1, os="mac", colour="blue"), connect("w2", cpu=8, os="mac"))
    story.then("b queued", "w2 admitted", "b to w2")


def test_9_5_2_decisions_come_from_the_state_alone_however_it_was_indexed(story):
    story.given(connect("w1", cpu=4), connect("w2", cpu=4), *(queue(f"a{number}", cpu=1) for number in range(11)))
    story.given(restart()).when(finish("a3"), finish("a0"))
    story.then("a3 finished: completed", "a8 to w2", "a0 finished: completed", "a9 to w1")
    assert dispatches_of(story, "a3") == ["w2"]


def test_9_5_3_a_record_of_another_version_is_refused_not_misread():
    newer = b"\xfa\x7f\x00"  # a kind that this build does not know
    with pytest.raises(UnknownEvent):
        decode_event(events_pb2.Event(seq=1).SerializeToString() + newer)
    read = decode_fact(newer)
    assert isinstance(read, f.Unreadable)
    assert read.reason is reasons.RejectReason.UNKNOWN_KIND


async def test_9_5_4_all_of_a_workers_facts_go_to_the_one_decider_that_owns_its_instance():
    async with scheduler("main", "night", shards=2) as log:
        shard = (await read_shard_map(log)).shard_of("night")
        other = 1 - shard
        before = len(log.records((FACTS, other)))
        async with serving(log, worker("w1", instance="night"), shard=shard) as runtime:
            await until(lambda: runtime.stats.keepalives >= 1)
        elsewhere = [record.key for record in log.records((FACTS, other))[before:]]
        assert b"w1" not in elsewhere
        assert b"w1" in [record.key for record in log.records((FACTS, shard))]


def test_9_5_5_a_name_with_slashes_is_split_at_the_last(story):
    story.given(configured({"kind": "simple"}, "team/a/b"), submit("x", cpu=1, instance="team/a/b"), submit("y", cpu=1))
    table = table_of(story)
    number = row(story, "x", "team/a/b").operation_id
    assert answers.lookup(table, f"team/a/b/op-{number}").client_operation_id == "x"
    assert answers.lookup(table, f"team/op-{number}") is None


def test_9_5_6_a_missing_input_is_a_failed_precondition_and_is_not_tried_again(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    story.when(finish("a", RunResult.FAILED_PRECONDITION, message="input 7f/3 is missing"))
    story.then("a finished: failed_precondition")
    assert story.last(e.OperationFinished).message == "input 7f/3 is missing"
    assert story.counters("a") == (0, 0, 0)


def test_9_5_7_capacity_comes_back_with_the_final_report_and_not_before(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), queue("b", cpu=8))
    story.when(accept("a"), keepalive("w1"), tick()).then("a accepted")
    assert story.free("w1") == 0
    story.when(finish("a")).then("a finished: completed", "b to w1")


def test_9_5_8_every_counter_that_is_offered_moves(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), fail("a"), finish("a"), finish("a"), queue("c", cpu=8))
    story.given(queue("b", cpu_millis="many"), queue("d", cpu=8), restart())
    told, (instance,) = answers.state(table_of(story)), answers.instances(table_of(story))
    for name in ("seq", "events", "elections", "queued", "executing", "finished", "workers", "dispatches"):
        assert told[name] > 0, name
    assert told["ignored"] == {"dispatch_not_current": 1}
    assert told["rejected"] == {"invalid_requirement": 1}
    assert (instance["outcomes"], instance["requeues"]) == ({"completed": 1}, {"job_error": 1})
    assert instance["dispatches"] == len(of_kind(story, e.OperationDispatched)) == 3


def test_9_5_9_what_a_run_used_stands_in_the_record_of_its_end(story):
    story.given(configure(memory_escalation={}), connect("w1", cpu=8, memory=900), queue("a", cpu=8, memory=300))
    usage = Usage(7, 6, 5)
    report = f.ActionFinished(MAIN, "w1", story.connections["w1"], story.dispatch_ids["a"], usage=usage)
    story.given(fact(report), fact(report), restart())
    assert [event.usage for event in of_kind(story, e.OperationFinished)] == [usage]
    assert answers.operation(table_of(story), answers.lookup(table_of(story), "a"))["usage"] == usage._asdict()


def test_9_5_10_every_refusal_and_failure_says_why(story):
    kinds = [kind for kind in vars(reasons).values() if isinstance(kind, type) and hasattr(kind, "UNSPECIFIED")]
    assert len(kinds) > 10
    assert [value for kind in kinds for value in kind if value and not sentence(value)] == []
    story.given(configure(max_job_retries=0, memory_escalation={}), connect("w1", cpu=8, memory=900))
    story.given(
        queue("a", cpu_millis="x"), queue("b", cpu=1, memory=900), killed_for_memory("b"), queue("c", cpu=1), fail("c")
    )
    (rejected,) = of_kind(story, e.FactRejected)
    assert all((rejected.field, rejected.value, rejected.rule))
    assert [bool(event.message) for event in of_kind(story, e.OperationFinished)] == [True, True]
    story.given(hear("nobody"), advance(1))
    assert story.last(e.FactIgnored).reason is reasons.IgnoreReason.UNKNOWN_CLIENT
