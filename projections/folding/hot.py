"""The four kinds of a life cycle that goes well, folded straight from their messages: a third of what the plain folds cost.

Queued, dispatched, accepted and completed are nearly all traffic, and most of what the plain folds pay for them is not the change of the
rows: an event object, calls, keys made again for each event, counters read and set in messages. Here the rows are the same messages in the
same `Table`, but what is asked for again and again is kept beside them (`Lane`, `Tally`), and two things wait until somebody could look:
the counts of an instance, and the place in the queue of what was queued, which a dispatch in the same batch makes needless.

A fold here answers False, having changed nothing, where the event has more in it than the plain case; the plain fold then takes it
(`projections.position`). A test holds both to the same rows, byte for byte, over every history.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from events.reasons import Outcome
from projections import keys
from projections.row_access import queue_key
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import (
    STAGE_EXECUTING,
    STAGE_FINISHED,
    STAGE_QUEUED,
    InstanceRow,
    OperationRow,
    OutcomeCount,
    WorkerRow,
)

HotFold = Callable[[Any], bool]
"""Parsed `Event` message to whether it was folded; where not, nothing has changed."""


@dataclass(slots=True, eq=False)
class Lane:
    """A worker beside its row: the ids of its runs in their order, since finding one in the message takes longer than folding the event.

    What every event of a worker changes in its row waits here as well, once an event has `touched` it.
    """

    key: bytes
    row: WorkerRow
    runs: Any
    dispatch_ids: list[int]
    seen_us: int
    recency: int = 0
    dispatches: int = 0
    touched: bool = False


@dataclass(slots=True, eq=False)
class Live:
    """An operation beside its row, queued (`dispatch_id` is 0) or executing: where to go from it without looking anything up."""

    row: OperationRow
    instance: str
    requirement_id: int
    dispatch_id: int = 0
    dispatch: Any = None
    lane: Any = None
    run: Any = None


@dataclass(slots=True, eq=False)
class Tally:
    """What an instance's row has to be changed by, and what is read of it with every event."""

    key: bytes
    row: InstanceRow
    clients: bytes
    workers: bytes
    finished_places: bytes
    held_for: int
    queued: int = 0
    executing: int = 0
    dispatches: int = 0
    completed: int = 0
    touched: bool = False


class HotFolds:
    """The hot folds of one table. `settle` before anything else reads or changes its rows."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._waiting: dict[bytes, Live] = {}  # queued, without their place in the queue yet, by key
        self._tallies: dict[str, Tally] = {}
        self._touched: list[Lane] = []
        self.folds: dict[str, HotFold] = {
            "operation_queued": self._queued(),
            "operation_dispatched": self._dispatched(),
            "operation_accepted": self._accepted(),
            "operation_finished": self._finished(),
        }
        """By the name of the oneof field."""

    def settle(self) -> None:
        """Bring the rows of instances and workers, and the queue, up to the last event folded here."""
        table, dirty = self._table, self._table.dirty
        for lane in self._touched:
            worker = lane.row
            if lane.recency:
                worker.recency = lane.recency
            worker.last_seen_us = lane.seen_us
            if lane.dispatches:
                worker.dispatches += lane.dispatches
            lane.recency = lane.dispatches = 0
            lane.touched = False
            dirty[lane.key] = False
        self._touched.clear()
        for key, live in self._waiting.items():
            table.put(queue_key(table, live.row), key[-8:])
        self._waiting.clear()
        for tally in self._tallies.values():
            if tally.touched:
                row = tally.row
                row.queued += tally.queued
                row.executing += tally.executing
                row.finished += tally.completed
                row.dispatches += tally.dispatches
                if tally.completed:
                    _count_completed(row, tally.completed)
                table.put(tally.key, row)
        self._tallies.clear()

    def _tally(self, instance: str) -> Tally | None:
        table = self._table
        key = table.prefix + keys.of_instance(instance)
        row = table.find(key, InstanceRow)
        if row is None:
            return None
        named = keys.named(instance)
        tally = self._tallies[instance] = Tally(
            key,
            row,
            table.key(keys.CLIENT, named),
            table.key(keys.WORKER, named),
            table.key(keys.FINISHED, named),
            row.hold.operation_id if row.HasField("hold") else -1,
        )
        return tally

    def _lane(self, key: bytes) -> Lane | None:
        table = self._table
        row = table.find(key, WorkerRow)
        if row is None:
            return None
        runs = row.running
        lane = table.beside[key] = Lane(key, row, runs, [run.dispatch_id for run in runs], row.last_seen_us)
        return lane

    def _live(self, key: bytes) -> Live | None:
        """What stands beside an operation that was last changed elsewhere; None where the plain folds have to go on with it."""
        table = self._table
        row = table.find(key, OperationRow)
        if row is None:
            return None
        live = Live(row, row.instance, row.requirement_id)
        if row.stage == STAGE_EXECUTING:
            dispatch = row.dispatch
            tally = self._tallies.get(live.instance) or self._tally(live.instance)
            if tally is None:
                return None
            worker_key = tally.workers + dispatch.endpoint.encode()
            lane = table.beside.get(worker_key) or self._lane(worker_key)
            if lane is None:
                return None
            dispatch_id = dispatch.dispatch_id
            at = bisect_left(lane.dispatch_ids, dispatch_id)
            if at == len(lane.dispatch_ids) or lane.dispatch_ids[at] != dispatch_id or lane.runs[at].revoked:
                return None
            live.dispatch_id, live.dispatch, live.lane, live.run = dispatch_id, dispatch, lane, lane.runs[at]
        elif row.stage != STAGE_QUEUED or row.HasField("order"):
            return None
        table.beside[key] = live
        return live

    def _queued(self) -> HotFold:
        table, waiting, tallies = self._table, self._waiting, self._tallies
        cached, dirty, beside = table.cached, table.dirty, table.beside
        operations = table.key(keys.OPERATION)

        def fold(message: Any) -> bool:
            part = message.operation_queued
            if part.attached or part.HasField("order"):
                return False
            instance = part.instance
            tally = tallies.get(instance) or self._tally(instance)
            if tally is None:
                return False
            operation_id = message.cause_offset
            requirement_id = part.requirement_id
            row = OperationRow()
            row.operation_id = operation_id
            row.instance = instance
            row.client_operation_id = client_operation_id = part.client_operation_id
            row.requirement_id = requirement_id
            row.queued_at_us = row.queued_since_us = part.queued_at_us
            row.stage = STAGE_QUEUED
            # Setting a field costs more than looking whether it is the default, and most are.
            if value := part.priority:
                row.priority = value
            if part.HasField("command"):
                row.command = part.command.SerializeToString()
            if value := part.timeout_us:
                row.timeout_us = value
            if value := part.expected_duration_us:
                row.expected_duration_us = value
            if value := part.client_id:
                row.client_id = value
            if value := part.invocation_id:
                row.invocation_id = value
            if value := part.target_id:
                row.target_id = value
            if value := part.mnemonic:
                row.mnemonic = value
            if part.cacheable:
                row.cacheable = True
            if part.skip_cache_lookup:
                row.skip_cache_lookup = True
            if value := part.clamped_us:
                row.clamped_us = value
            if value := part.asked_requirement_id:
                row.asked_requirement_id = value
            if part.HasField("action_digest"):
                digest = part.action_digest
                if digest.hash:
                    row.action_digest.hash = digest.hash
                    row.action_digest.size_bytes = digest.size_bytes
            tally.touched = True
            tally.queued += 1
            identity = operation_id.to_bytes(8, "big")
            key = operations + identity
            cached[key] = row
            beside[key] = waiting[key] = Live(row, instance, requirement_id)
            client = tally.clients + client_operation_id.encode()
            cached[client] = identity
            dirty[key], dirty[client] = False, True
            return True

        return fold

    def _dispatched(self) -> HotFold:
        table, waiting, tallies, touched = self._table, self._waiting, self._tallies, self._touched
        dirty, beside = table.dirty, table.beside
        operations = table.key(keys.OPERATION)

        def fold(message: Any) -> bool:
            part = message.operation_dispatched
            operation_id = part.operation_id
            key = operations + operation_id.to_bytes(8, "big")
            live = beside.get(key) or self._live(key)
            if live is None or live.dispatch_id or part.holders:
                return False
            tally = tallies.get(live.instance) or self._tally(live.instance)
            if tally is None or tally.held_for == operation_id:
                return False
            endpoint = part.endpoint
            worker_key = tally.workers + endpoint.encode()
            lane = beside.get(worker_key) or self._lane(worker_key)
            if lane is None:
                return False
            row = live.row
            if waiting.pop(key, None) is None:
                table.delete(queue_key(table, row))
            tally.touched = True
            tally.queued -= 1
            tally.executing += 1
            tally.dispatches += 1
            seq, at_us = message.seq, message.at_us
            row.stage = STAGE_EXECUTING
            before = row.dispatches
            if before:
                row.ClearField("dispatch")
            row.dispatches = before + 1
            dispatch = row.dispatch
            dispatch.dispatch_id = seq
            dispatch.endpoint = endpoint
            dispatch.connection_id = part.connection_id
            dispatch.dispatched_at_us = at_us
            if part.HasField("overtook"):
                dispatch.overtook = part.overtook
            if part.backfilled:
                dispatch.backfilled = True
            run = lane.runs.add()
            run.dispatch_id = seq
            run.operation_id = operation_id
            run.requirement_id = live.requirement_id
            run.since_us = run.heard_at_us = at_us
            lane.dispatch_ids.append(seq)
            lane.dispatches += 1
            lane.recency = seq  # promoted, but not heard
            if not lane.touched:
                lane.touched = True
                touched.append(lane)
            live.dispatch_id, live.dispatch, live.lane, live.run = seq, dispatch, lane, run
            dirty[key] = False
            return True

        return fold

    def _accepted(self) -> HotFold:
        table, touched = self._table, self._touched
        dirty, beside = table.dirty, table.beside
        operations = table.key(keys.OPERATION)

        def fold(message: Any) -> bool:
            part = message.operation_accepted
            key = operations + part.operation_id.to_bytes(8, "big")
            live = beside.get(key) or self._live(key)
            if live is None or live.dispatch_id != part.dispatch_id:
                return False
            lane = live.lane
            if beside.get(lane.key) is not lane:  # somebody else has changed the worker since
                live = self._live(key)
                if live is None:
                    return False
                lane = live.lane
            at_us = message.at_us
            dispatch, run = live.dispatch, live.run
            dispatch.accepted = run.accepted = True
            dispatch.accepted_at_us = run.heard_at_us = at_us
            lane.recency = message.seq
            if lane.seen_us < at_us:
                lane.seen_us = at_us
            if not lane.touched:
                lane.touched = True
                touched.append(lane)
            dirty[key] = False
            return True

        return fold

    def _finished(self) -> HotFold:
        table, tallies, touched = self._table, self._tallies, self._touched
        cached, dirty, beside = table.cached, table.dirty, table.beside
        operations = table.key(keys.OPERATION)
        completed = int(Outcome.COMPLETED)

        def fold(message: Any) -> bool:
            part = message.operation_finished
            if part.outcome != completed:
                return False
            identity = part.operation_id.to_bytes(8, "big")
            key = operations + identity
            live = beside.get(key) or self._live(key)
            if live is None or not live.dispatch_id:
                return False
            lane = live.lane
            if beside.get(lane.key) is not lane:  # somebody else has changed the worker since
                live = self._live(key)
                if live is None:
                    return False
                lane = live.lane
            tally = tallies.get(live.instance) or self._tally(live.instance)
            if tally is None:
                return False
            at = bisect_left(lane.dispatch_ids, live.dispatch_id)
            del lane.runs[at], lane.dispatch_ids[at]
            del beside[key]
            seq, at_us = message.seq, message.at_us
            lane.recency = seq
            if lane.seen_us < at_us:
                lane.seen_us = at_us
            if not lane.touched:
                lane.touched = True
                touched.append(lane)
            row = live.row
            row.stage = STAGE_FINISHED
            row.outcome = completed
            row.finished_at_us = at_us
            row.finished_seq = seq
            if value := part.exit_code:
                row.exit_code = value
            if value := part.message:
                row.message = value
            if value := part.stdout_tail:
                row.stdout_tail = value
            if value := part.stderr_tail:
                row.stderr_tail = value
            if (value := part.job_failures) or row.job_failures:
                row.job_failures = value
            if (value := part.worker_losses) or row.worker_losses:
                row.worker_losses = value
            if part.HasField("usage"):
                used = part.usage
                usage = (used.wall_us, used.cpu_us, used.peak_memory_kib)
                if any(usage):
                    row.usage.wall_us, row.usage.cpu_us, row.usage.peak_memory_kib = usage
            tally.touched = True
            tally.executing -= 1
            tally.completed += 1
            finished = tally.finished_places + seq.to_bytes(8, "big")
            cached[finished] = identity
            dirty[key] = dirty[finished] = True
            return True

        return fold


def _count_completed(row: InstanceRow, by: int) -> None:
    for counted in row.outcomes:
        if counted.outcome == Outcome.COMPLETED:
            counted.count += by
            return
    row.outcomes.append(OutcomeCount(outcome=int(Outcome.COMPLETED), count=by))
