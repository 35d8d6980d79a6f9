"""The judge's own ledger: what takes a worker's room, what gives it back, and what it finds when that goes wrong."""

from __future__ import annotations

from itertools import count

import pytest

from events import events as e
from events.payloads import canonical_requirements
from events.reasons import DisconnectReason, KillCause, Outcome, RequeueCause, RunResult
from streams.torture.ledger import Excess, Ledger


class Log:
    """Events in a row, each numbered as it comes; a worker `w` of 2 cores is connected, every operation asks for one."""

    def __init__(self, *, max_inflight: int = 0) -> None:
        self.ledger = Ledger()
        self._seqs = count(1)
        self.add(e.RequirementDefined, 1, canonical_requirements([("cpu_millis", "1000")]))
        self.admit(max_inflight=max_inflight)

    def add(self, kind: type, *arguments: object, cause: int = 0, **named: object) -> int:
        seq = next(self._seqs)
        self.ledger.add(kind(seq, 0, cause, *arguments, **named))
        return seq

    def admit(self, *, kept: tuple[int, ...] = (), max_inflight: int = 0, cpu_millis: int = 2_000) -> int:
        properties = (("cpu_millis", str(cpu_millis)),)
        return self.add(e.WorkerAdmitted, "main", "w", 1, 7, properties, max_inflight, "", kept)

    def dispatch(self, operation_id: int, *, connection_id: int = 7, queue: bool = True) -> int:
        if queue:
            self.add(e.OperationQueued, "main", f"op-{operation_id}", 1, cause=operation_id)
        return self.add(e.OperationDispatched, operation_id, "w", connection_id)

    def requeue(self, operation_id: int, dispatch_id: int) -> int:
        return self.add(e.OperationRequeued, operation_id, dispatch_id, RequeueCause.WORKER_GONE, endpoint="w")

    def finish(self, operation_id: int, dispatch_id: int) -> int:
        return self.add(e.OperationFinished, operation_id, dispatch_id, Outcome.COMPLETED, endpoint="w")

    def revoke(self, operation_id: int, dispatch_id: int) -> int:
        return self.add(e.KillRequested, "main", "w", operation_id, dispatch_id, KillCause.CANCELLED)

    def settle(self, operation_id: int, dispatch_id: int) -> int:
        return self.add(e.DispatchSettled, "main", "w", operation_id, dispatch_id, RunResult.KILLED)

    def leave(self) -> int:
        return self.add(e.WorkerDisconnected, "main", "w", 7, DisconnectReason.TIMEOUT)

    @property
    def sound(self) -> bool:
        return not self.ledger.excesses and not self.ledger.unexplained


def full() -> tuple[Log, int, int]:
    log = Log()
    return log, log.dispatch(100), log.dispatch(101)


def test_a_full_worker_is_no_excess_and_one_more_dispatch_is():
    log, _, _ = full()
    assert log.sound
    seq = log.dispatch(102)
    assert log.ledger.excesses == [Excess(seq, "w", "cpu_millis", 3_000, 2_000)]
    assert not log.ledger.unexplained


@pytest.mark.parametrize("end", [Log.requeue, Log.finish])
def test_an_end_gives_the_room_back(end):
    log, first, _ = full()
    end(log, 100, first)
    log.dispatch(102)
    assert log.sound


def test_a_revoked_run_pays_until_it_is_settled():
    log, first, _ = full()
    log.revoke(100, first)
    log.finish(100, first)
    log.settle(100, first)
    log.dispatch(102)
    assert log.sound

    log, first, _ = full()
    log.revoke(100, first)
    log.finish(100, first)
    log.dispatch(102)
    assert [excess.held for excess in log.ledger.excesses] == [3_000]


def test_more_runs_than_a_worker_takes_at_once_are_an_excess():
    log = Log(max_inflight=1)
    log.dispatch(100)
    assert log.sound
    log.dispatch(101)
    assert [(excess.pool, excess.held, excess.capacity) for excess in log.ledger.excesses] == [("max_inflight", 2, 1)]


def test_a_worker_that_comes_back_smaller_with_its_runs_is_an_excess():
    log, first, second = full()
    log.admit(kept=(first, second), cpu_millis=1_000)
    assert [excess.capacity for excess in log.ledger.excesses] == [1_000]


def test_a_run_that_a_worker_keeps_still_pays():
    log, first, second = full()
    log.requeue(101, second)
    log.admit(kept=(first,))
    log.dispatch(102)
    assert log.sound
    log.dispatch(103)
    assert len(log.ledger.excesses) == 1


def test_a_run_that_vanishes_with_a_new_connection_is_unexplained():
    log, first, _ = full()
    log.admit(kept=(first,))
    assert log.ledger.unexplained == ["at event 7 dispatch 6 did not end before w connected without it"]


def test_a_run_that_is_kept_and_not_held_is_unexplained():
    log = Log()
    log.admit(kept=(99,))
    assert log.ledger.unexplained == ["at event 3 w keeps dispatch 99, which it does not hold"]


def test_a_run_that_vanishes_with_its_worker_is_unexplained_unless_it_was_revoked():
    log, first, second = full()
    log.requeue(101, second)
    log.revoke(100, first)
    log.finish(100, first)
    log.leave()
    assert log.sound

    log, first, second = full()
    log.requeue(101, second)
    log.leave()
    assert log.ledger.unexplained == ["at event 8 dispatch 4 did not end before w was out"]


def test_a_dispatch_on_a_connection_that_is_over_is_unexplained():
    log = Log()
    log.dispatch(100, connection_id=6)
    assert log.ledger.unexplained == ["at event 4 w got a dispatch on a connection that it does not have"]


def test_a_dispatch_of_what_was_never_queued_is_unexplained():
    log = Log()
    log.dispatch(100, queue=False)
    assert log.ledger.unexplained == ["at event 3 operation 100 was dispatched and never queued"]


def test_a_second_end_is_unexplained():
    log, first, _ = full()
    log.finish(100, first)
    log.finish(100, first)
    assert log.ledger.unexplained == ["at event 8 dispatch 4 ended on w, which does not hold it"]


def test_a_cancel_of_what_was_never_dispatched_ends_nothing():
    log = Log()
    log.add(e.OperationQueued, "main", "op", 1, cause=100)
    log.add(e.OperationFinished, 100, 0, Outcome.CANCELLED)
    assert log.sound
