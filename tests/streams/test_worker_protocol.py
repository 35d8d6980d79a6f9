"""The worker's state machine, one transition a test. Time is a number and connection ids are chosen here."""

from __future__ import annotations

import pytest

from events import facts
from events.reasons import (
    DeclineReason,
    DisconnectReason,
    KillCause,
    Outcome,
    PlacementEnd,
    RefuseReason,
    RequeueCause,
    RunResult,
)
from streams.placements import ActionPlaced, PlacementEnded
from streams.worker.capacity import Amounts, Ledger, asked_by
from streams.worker.commands import Admitted, Evicted, KillRequested, Refused
from streams.worker.protocol import (
    CONNECT_AGAIN_US,
    MOST_ANSWERED,
    WAIT_FOR_ROOM_US,
    Connect,
    Identity,
    Output,
    Publish,
    RunReport,
    Standing,
    StartRun,
    Stop,
    StopRun,
    WorkerProtocol,
)

C1, C2 = 11, 22
EXITED = RunReport(RunResult.EXITED, 0)
KILLED = RunReport(RunResult.KILLED)


def new(cpu_millis: int = 4000, memory_kib: int = 1000, max_inflight: int = 0) -> WorkerProtocol:
    return WorkerProtocol(
        Identity("main", "w1", 7, (("cpu_millis", str(cpu_millis)),), max_inflight),
        Ledger(Amounts(cpu_millis, memory_kib), max_inflight),
    )


def serving(**of: int) -> WorkerProtocol:
    worker = new(**of)
    worker.connect(C1, 0)
    worker.command(Admitted(C1, (), 10_000_000), 0)
    return worker


def placed(
    dispatch_id: int, cpu: int = 1000, memory: int = 100, connection: int = C1, again: bool = False
) -> ActionPlaced:
    return ActionPlaced(
        "main",
        dispatch_id,
        f"c{dispatch_id}",
        dispatch_id,
        "w1",
        connection,
        requirements=(("cpu_millis", str(cpu)), ("memory_kib", str(memory))),
        redelivered=again,
    )


def ended(dispatch_id: int, end: PlacementEnd = PlacementEnd.FINISHED) -> PlacementEnded:
    return PlacementEnded("main", dispatch_id, f"c{dispatch_id}", dispatch_id, "w1", end, 1, 1, Outcome.COMPLETED)


def kill(dispatch_id: int) -> KillRequested:
    return KillRequested(C1, dispatch_id, KillCause.CANCELLED)


def published(outputs: list[Output]) -> list[facts.Fact]:
    return [output.fact for output in outputs if isinstance(output, Publish)]


def one(outputs: list[Output]) -> facts.Fact:
    (fact,) = published(outputs)
    return fact


def starts(outputs: list[Output]) -> list[int]:
    return [output.placed.dispatch_id for output in outputs if isinstance(output, StartRun)]


def stops(outputs: list[Output]) -> list[int]:
    return [output.dispatch_id for output in outputs if isinstance(output, StopRun)]


# -- connecting -------------------------------------------------------------------------------------------------------------


def test_a_connect_is_repeated_with_the_same_connection_id_until_it_is_admitted() -> None:
    worker = new()
    first = one(worker.connect(C1, 0))
    assert isinstance(first, facts.WorkerConnected)
    assert (first.connection_id, first.boot_epoch, first.endpoint, first.running) == (C1, 7, "w1", ())
    assert worker.timer(CONNECT_AGAIN_US - 1) == []
    assert one(worker.timer(CONNECT_AGAIN_US)) == first
    assert worker.deadline_us == 2 * CONNECT_AGAIN_US
    worker.command(Admitted(C1, (), 10_000_000), 0)
    assert worker.standing is Standing.SERVING
    assert worker.deadline_us is None
    assert worker.timer(9 * CONNECT_AGAIN_US) == []


def test_keepalives_are_said_only_while_admitted() -> None:
    worker = new()
    worker.connect(C1, 0)
    assert worker.keepalive(5) is None
    worker.command(Admitted(C1, (), 4_000_000), 0)
    assert worker.keepalive(5) == facts.WorkerReported("main", "w1", C1, 5)
    assert worker.worker_timeout_us == 4_000_000
    worker.command(Evicted(C1, DisconnectReason.TIMEOUT), 0)
    assert worker.keepalive(5) is None


def test_a_placement_read_before_its_admission_waits_for_it() -> None:
    worker = new()
    worker.connect(C1, 0)
    assert worker.placement(placed(5), 0) == []
    outputs = worker.command(Admitted(C1), 0)
    assert starts(outputs) == [5]
    assert one(outputs) == facts.DispatchAccepted("main", "w1", C1, 5)


def test_a_refused_worker_stops_with_the_reason() -> None:
    worker = new()
    worker.connect(C1, 0)
    (stop,) = worker.command(Refused(C1, RefuseReason.INVALID_PROPERTY, "properties.gpu", "x"), 0)
    assert isinstance(stop, Stop)
    assert stop.exit_code == 1
    assert "properties.gpu='x'" in stop.why
    assert worker.stopped


def test_an_evicted_worker_stops_its_runs_and_connects_again_listing_them() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    outputs = worker.command(Evicted(C1, DisconnectReason.TIMEOUT), 0)
    assert stops(outputs) == [5]
    assert isinstance(outputs[-1], Connect)
    again = one(worker.connect(C2, 0))
    assert isinstance(again, facts.WorkerConnected)
    assert (again.connection_id, again.boot_epoch, again.running) == (C2, 7, (5,))
    assert worker.command(Evicted(C1, DisconnectReason.TIMEOUT), 0) == []
    assert one(worker.run_ended(5, KILLED)) == facts.ActionFinished("main", "w1", C2, 5, RunResult.KILLED)


def test_an_eviction_of_a_connection_given_up_changes_nothing() -> None:
    worker = serving()
    assert worker.command(Evicted(99, DisconnectReason.TIMEOUT), 0) == []
    assert worker.admitted


def test_a_worker_removed_by_an_operator_does_not_come_back() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    assert stops(worker.command(Evicted(C1, DisconnectReason.REMOVED), 0)) == [5]
    assert not worker.stopped
    outputs = worker.run_ended(5, KILLED)
    assert published(outputs) == []
    assert [type(output) for output in outputs] == [Stop]
    assert worker.connect(C2, 0) == []


def test_a_worker_whose_name_another_one_took_stops() -> None:
    worker = serving()
    (stop,) = worker.command(Admitted(99), 0)
    assert isinstance(stop, Stop)
    assert stop.exit_code == 1
    assert "'w1'" in stop.why


def test_a_late_admission_of_the_predecessor_or_of_an_own_former_connection_is_no_takeover() -> None:
    worker = new()
    worker.connect(C1, 0)
    assert worker.command(Admitted(99), 0) == []
    worker.command(Admitted(C1), 0)
    worker.connect(C2, 0)
    assert worker.command(Admitted(C1), 0) == []
    assert not worker.admitted
    worker.command(Admitted(C2), 0)
    assert worker.command(Admitted(C1), 0) == []
    assert worker.standing is Standing.SERVING


def test_at_a_reconnect_what_is_kept_goes_on_and_what_is_not_is_stopped() -> None:
    worker = serving()
    for dispatch_id in (5, 6):
        worker.placement(placed(dispatch_id), 0)
    (again,) = worker.lose_position()
    assert isinstance(again, Connect)
    connected = one(worker.connect(C2, 0))
    assert isinstance(connected, facts.WorkerConnected)
    assert connected.running == (5, 6)
    outputs = worker.command(Admitted(C2, (6,)), 0)
    assert stops(outputs) == [5]
    assert worker.placement(placed(6, connection=C2, again=True), 0) == []
    assert one(worker.run_ended(6, EXITED)) == facts.ActionFinished("main", "w1", C2, 6, RunResult.EXITED)


# -- placements -------------------------------------------------------------------------------------------------------------


def test_a_placement_is_accepted_started_and_reported() -> None:
    worker = serving()
    outputs = worker.placement(placed(5), 0)
    assert [type(output) for output in outputs] == [Publish, StartRun]
    assert worker.running == (5,)
    report = RunReport(RunResult.EXITED, 3, "", b"out", b"err")
    fact = one(worker.run_ended(5, report))
    assert fact == facts.ActionFinished("main", "w1", C1, 5, RunResult.EXITED, 3, "", b"out", b"err")
    assert worker.running == ()
    assert worker.ledger.lent == Amounts(0, 0)


def test_a_placement_of_a_connection_given_up_is_dropped() -> None:
    worker = serving()
    assert worker.placement(placed(5, connection=99), 0) == []


def test_a_redelivered_placement_of_a_running_dispatch_is_ignored() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    assert worker.placement(placed(5, again=True), 0) == []


def test_a_redelivered_placement_of_a_finished_dispatch_is_answered_with_its_report_again() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    report = one(worker.run_ended(5, RunReport(RunResult.EXITED, 3)))
    assert worker.placement(placed(5, again=True), 0) == [Publish(report)]
    worker.connect(C2, 0)
    worker.command(Admitted(C2, (5,)), 0)
    (second,) = worker.placement(placed(5, connection=C2, again=True), 0)
    assert isinstance(second, Publish)
    assert second.fact == facts.ActionFinished("main", "w1", C2, 5, RunResult.EXITED, 3)
    assert isinstance(report, facts.ActionFinished)
    assert report.connection_id == C1, "what may still wait to be published is not changed under the outbox"


def test_a_finished_dispatch_is_listed_at_a_connect_until_its_end_is_in_the_log() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    worker.run_ended(5, EXITED)
    listed = one(worker.connect(C2, 0))
    assert isinstance(listed, facts.WorkerConnected)
    assert listed.running == (5,)
    worker.placement(ended(5), 0)
    listed = one(worker.connect(33, 0))
    assert isinstance(listed, facts.WorkerConnected)
    assert listed.running == ()


def test_a_redelivered_placement_that_was_declined_is_not_run() -> None:
    worker = serving(cpu_millis=1000)
    assert isinstance(one(worker.placement(placed(5, cpu=2000), 0)), facts.DispatchDeclined)
    assert worker.placement(placed(5, cpu=2000, again=True), 0) == []


def test_memory_of_ended_runs_is_bounded() -> None:
    worker = serving()
    for dispatch_id in range(1, MOST_ANSWERED + 10):
        worker.placement(placed(dispatch_id), 0)
        worker.run_ended(dispatch_id, EXITED)
    assert len(worker._answered) == MOST_ANSWERED


# -- capacity ---------------------------------------------------------------------------------------------------------------


def test_a_placement_that_does_not_fit_waits_for_a_run_that_ends() -> None:
    worker = serving(cpu_millis=1000)
    worker.placement(placed(5), 0)
    assert worker.placement(placed(6), 10) == []
    assert worker.deadline_us == 10 + WAIT_FOR_ROOM_US
    outputs = worker.run_ended(5, EXITED)
    assert starts(outputs) == [6]
    assert worker.deadline_us is None


@pytest.mark.parametrize(
    ("cpu", "memory", "reason", "needed", "free"),
    [(2000, 100, DeclineReason.FULL, 0, 0), (100, 950, DeclineReason.MEMORY, 950, 900)],
)
def test_a_placement_that_waited_for_room_in_vain_is_declined(
    cpu: int, memory: int, reason: DeclineReason, needed: int, free: int
) -> None:
    worker = serving(cpu_millis=2500)
    worker.placement(placed(5), 0)
    assert worker.placement(placed(6, cpu, memory), 0) == []
    assert worker.timer(WAIT_FOR_ROOM_US - 1) == []
    assert one(worker.timer(WAIT_FOR_ROOM_US)) == facts.DispatchDeclined("main", "w1", C1, 6, reason, needed, free)
    assert worker.running == (5,)


def test_the_limit_of_runs_at_once_holds_as_well() -> None:
    worker = serving(max_inflight=1)
    worker.placement(placed(5), 0)
    assert worker.placement(placed(6), 0) == []
    fact = one(worker.timer(WAIT_FOR_ROOM_US))
    assert isinstance(fact, facts.DispatchDeclined)
    assert fact.reason is DeclineReason.FULL


def test_what_can_never_fit_is_declined_at_once() -> None:
    worker = serving()
    fact = one(worker.placement(placed(5, memory=1001), 0))
    assert isinstance(fact, facts.DispatchDeclined)
    assert (fact.reason, fact.needed_kib, fact.free_kib) == (DeclineReason.MEMORY, 1001, 1000)
    fact = one(worker.placement(placed(6, cpu=4001), 0))
    assert isinstance(fact, facts.DispatchDeclined)
    assert fact.reason is DeclineReason.FULL


def test_a_machine_short_of_memory_declines_unless_it_is_idle() -> None:
    worker = serving()
    assert starts(worker.placement(placed(5), 0, free_kib=10)) == [5]
    fact = one(worker.placement(placed(6, memory=200), 0, free_kib=150))
    assert fact == facts.DispatchDeclined("main", "w1", C1, 6, DeclineReason.MEMORY, 200, 150)
    assert starts(worker.placement(placed(7, memory=150), 0, free_kib=150)) == [7]


def test_a_killed_run_holds_its_room_until_it_has_ended() -> None:
    worker = serving(cpu_millis=1000)
    worker.placement(placed(5), 0)
    assert stops(worker.command(kill(5), 0)) == [5]
    assert worker.placement(placed(6), 0) == []
    assert starts(worker.run_ended(5, KILLED)) == [6]


def test_requirements_that_are_no_numbers_ask_for_nothing() -> None:
    assert asked_by((("cpu_millis", "-3"), ("memory_kib", "١"))) == Amounts(0, 0)
    assert asked_by((("arch", "x86"), ("cpu_millis", "5"))) == Amounts(5, 0)


# -- kills ------------------------------------------------------------------------------------------------------------------


def test_a_kill_stops_the_run_once_and_is_reported() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    assert worker.command(kill(5), 0) == [StopRun(5)]
    assert worker.command(kill(5), 0) == []
    fact = one(worker.run_ended(5, KILLED))
    assert isinstance(fact, facts.ActionFinished)
    assert fact.result is RunResult.KILLED
    listed = one(worker.connect(C2, 0))
    assert isinstance(listed, facts.WorkerConnected)
    assert listed.running == (), "a revoked run has no end in the log to wait for"


def test_a_kill_read_before_its_placement_is_answered_and_the_placement_not_started() -> None:
    worker = serving()
    fact = one(worker.command(kill(5), 0))
    assert isinstance(fact, facts.ActionFinished)
    assert (fact.dispatch_id, fact.result) == (5, RunResult.KILLED)
    outputs = worker.placement(placed(5), 0)
    assert starts(outputs) == []


def test_a_kill_of_a_placement_that_waits_for_room_ends_it() -> None:
    worker = serving(cpu_millis=1000)
    worker.placement(placed(5), 0)
    worker.placement(placed(6), 0)
    fact = one(worker.command(kill(6), 0))
    assert isinstance(fact, facts.ActionFinished)
    assert fact.result is RunResult.KILLED
    assert starts(worker.run_ended(5, EXITED)) == []


def test_a_kill_of_what_was_reported_on_this_connection_is_not_answered_again() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    worker.run_ended(5, EXITED)
    assert worker.command(kill(5), 0) == []
    worker.connect(C2, 0)
    worker.command(Admitted(C2), 0)
    fact = one(worker.command(kill(5), 0))
    assert isinstance(fact, facts.ActionFinished)
    assert (fact.connection_id, fact.result) == (C2, RunResult.EXITED)


def test_an_end_in_the_log_does_not_stop_a_run_by_itself() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    requeued = ended(5, PlacementEnd.REQUEUED)._replace(cause=RequeueCause.ACTION_TIMEOUT)
    assert worker.placement(requeued, 0) == []
    worker.run_ended(5, EXITED)
    listed = one(worker.connect(C2, 0))
    assert isinstance(listed, facts.WorkerConnected)
    assert listed.running == ()


# -- leaving ----------------------------------------------------------------------------------------------------------------


def test_a_drain_takes_nothing_new_reports_what_runs_and_leaves() -> None:
    worker = serving(cpu_millis=2000)
    worker.placement(placed(5), 0)
    worker.placement(placed(6, cpu=1500), 0)
    drained, declined = published(worker.drain(0, 60_000_000))
    assert drained == facts.WorkerDrained("main", "w1")
    assert isinstance(declined, facts.DispatchDeclined)
    assert (declined.dispatch_id, declined.reason) == (6, DeclineReason.SHUTTING_DOWN)
    fact = one(worker.placement(placed(7), 0))
    assert isinstance(fact, facts.DispatchDeclined)
    assert fact.reason is DeclineReason.SHUTTING_DOWN
    assert worker.keepalive(1) is not None
    outputs = worker.run_ended(5, EXITED)
    report, gone = published(outputs)
    assert isinstance(report, facts.ActionFinished)
    assert gone == facts.WorkerGone("main", "w1", C1)
    assert outputs[-1] == Stop(0, "drained")


def test_a_drain_of_an_idle_worker_ends_at_once() -> None:
    worker = serving()
    outputs = worker.drain(0)
    assert [type(fact) for fact in published(outputs)] == [facts.WorkerDrained, facts.WorkerGone]
    assert worker.stopped
    assert worker.drain(0) == []
    assert worker.timer(10**12) == []


def test_a_drain_before_the_admission_leaves_as_well() -> None:
    worker = new()
    worker.connect(C1, 0)
    worker.placement(placed(5), 0)
    assert isinstance(worker.drain(0)[-1], Stop)


def test_a_drain_before_the_first_connect_says_nothing() -> None:
    worker = new()
    (stop,) = worker.drain(0)
    assert isinstance(stop, Stop)
    assert stop.exit_code == 0


def test_the_drain_timeout_abandons_what_runs() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    worker.drain(1_000, 60_000_000)
    assert worker.deadline_us == 60_001_000
    assert worker.timer(60_000_999) == []
    assert stops(worker.timer(60_001_000)) == [5]
    outputs = worker.run_ended(5, KILLED)
    assert published(outputs) == [facts.WorkerGone("main", "w1", C1)], "no report: the loss is the worker's"
    (stop,) = [output for output in outputs if isinstance(output, Stop)]
    assert stop.exit_code == 1


def test_an_abandoned_run_that_had_ended_by_itself_is_reported() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    worker.abandon("a second signal")
    report, gone = published(worker.run_ended(5, EXITED))
    assert isinstance(report, facts.ActionFinished)
    assert isinstance(gone, facts.WorkerGone)


def test_an_eviction_while_draining_stops_what_runs_and_ends_it() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    worker.drain(0)
    assert stops(worker.command(Evicted(C1, DisconnectReason.TIMEOUT), 0)) == [5]
    (stop,) = worker.run_ended(5, KILLED)
    assert isinstance(stop, Stop)
    assert stop.exit_code == 1


def test_a_draining_worker_that_lost_its_place_connects_again_and_says_the_drain_again() -> None:
    worker = serving()
    worker.placement(placed(5), 0)
    worker.drain(0)
    assert isinstance(worker.lose_position()[0], Connect)
    assert isinstance(one(worker.connect(C2, 0)), facts.WorkerConnected)
    assert isinstance(one(worker.timer(CONNECT_AGAIN_US)), facts.WorkerConnected)
    outputs = worker.command(Admitted(C2, (5,)), 0)
    assert published(outputs) == [facts.WorkerDrained("main", "w1")]
    assert worker.standing is Standing.DRAINING
