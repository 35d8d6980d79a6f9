"""What is answered from the rows of one shard: the queue, operations, instances and the state of the shard, as plain JSON values.

Times are microseconds since 1970 (`_at_us`) or durations in microseconds (`_us`) in the scheduler's own time, the shard's `now_us`; enums
are lower case; an absent value is null. Nothing here changes a row.
"""

import json
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from events.codec import command_of
from events.reasons import (
    ClientLeaving,
    HoldEnd,
    IgnoreReason,
    Outcome,
    RejectReason,
    RequeueCause,
    UpstreamState,
    sentence,
)
from events.values import Digest
from projections import keys
from projections.ending import exit_code_of
from projections.fleet import config_of, instance_rows, worker_rows
from projections.holding import hold_of, no_candidate_of
from projections.row_access import named_values, queued_rows, requirements_of_row
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import (
    STAGE_CACHE_CHECK,
    STAGE_EXECUTING,
    STAGE_FINISHED,
    STAGE_FORWARDED,
    STAGE_QUEUED,
    CheckpointRow,
    ClientRow,
    CounterRow,
    DispatchRow,
    DivergenceRow,
    InstanceRow,
    OperationRow,
)

STAGES: dict[int, str] = {
    STAGE_QUEUED: "queued",
    STAGE_EXECUTING: "executing",
    STAGE_FINISHED: "finished",
    STAGE_CACHE_CHECK: "cache_check",
    STAGE_FORWARDED: "forwarded",
}


def queue(table: Table, instance: str | None = None) -> Iterator[dict[str, Any]]:
    """What waits, in dispatch order, instance by instance; `place` counts from 1 within the instance.

    `held_worker` is the worker held for it, and `unsatisfiable_since_us` since when no connected worker could ever run it, if so.
    """
    for row in instance_rows(table, instance):
        held_for = row.hold.operation_id if row.HasField("hold") else None
        never = {shortage.requirement_id: shortage.since_us for shortage in row.unsatisfiable}
        for place, operation_row in enumerate(queued_rows(table, row.name), start=1):
            yield {
                "place": place,
                **operation(table, operation_row),
                "held_worker": row.hold.endpoint if operation_row.operation_id == held_for else None,
                "unsatisfiable_since_us": never.get(operation_row.requirement_id),
            }


def operations(
    table: Table, *, stage: str | None = None, instance: str | None = None, after: int = -1
) -> Iterator[dict[str, Any]]:
    """Operations: queued ones in dispatch order, finished ones as they finished, executing ones by id within their instance.

    Without a stage all of them, by id, and only those above `after`: pages.
    """
    for row in _selected(table, stage, instance, after):
        yield operation(table, row)


def _selected(table: Table, stage: str | None, instance: str | None, after: int) -> Iterator[OperationRow]:
    if stage is None:
        yield from (row for row in _all(table, after) if instance is None or row.instance == instance)
        return
    for named in instance_rows(table, instance):
        match stage:
            case "queued":
                yield from queued_rows(table, named.name)
            case "executing":
                running = (run for worker in worker_rows(table, named.name) for run in worker.running)
                for identity in sorted({run.operation_id for run in running}):
                    row = find(table, identity)
                    if row is not None and row.stage == STAGE_EXECUTING:
                        yield row
            case "finished":
                yield from _indexed(table, table.key(keys.FINISHED, keys.named(named.name)))
            case _:  # waits for an edge: few, or nearly all of an instance that forwards
                yield from (row for row in _all(table) if row.instance == named.name and STAGES[row.stage] == stage)


def _all(table: Table, after: int = -1) -> Iterator[OperationRow]:
    begin = table.key(keys.OPERATION, keys.number(after)) if after >= 0 else b""
    for _, value in table.scan(table.key(keys.OPERATION), begin):
        yield OperationRow.FromString(value)


def _indexed(table: Table, prefix: bytes) -> Iterator[OperationRow]:
    for _, identity in table.scan(prefix):
        yield table.row(table.key(keys.OPERATION, identity), OperationRow)


def find(table: Table, operation_id: int) -> OperationRow | None:
    """The operation with this id, or None (forgotten, or never there)."""
    if not 0 <= operation_id < 1 << 63:
        return None
    return table.find(table.key(keys.OPERATION, keys.number(operation_id)), OperationRow)


def lookup(table: Table, name: str, instance: str | None = None) -> OperationRow | None:
    """The operation a person means: its client_operation_id, `INSTANCE/op-N`, `op-N` or N, in this order."""
    for row in instance_rows(table, instance):
        key = table.key(keys.CLIENT, keys.named(row.name) + name.encode())
        identity = table.find_bytes(key)
        if identity is not None:
            return find(table, int.from_bytes(identity, "big"))
    owner, _, last = name.rpartition("/")
    number = last.removeprefix("op-")
    if not (number.isascii() and number.isdigit()) or (owner and number == last):
        return None
    found = find(table, int(number))
    wanted = owner or instance
    return None if found is None or (wanted and found.instance != wanted) else found


def operation(table: Table, row: OperationRow) -> dict[str, Any]:
    """An operation without its command and output."""
    dispatch = row.dispatch if row.HasField("dispatch") else None
    finished = row.stage == STAGE_FINISHED
    now_us = table.shard.now_us
    return {
        "id": f"{row.instance}/op-{row.operation_id}",
        "operation_id": row.operation_id,
        "instance": row.instance,
        "client_operation_id": row.client_operation_id,
        "stage": STAGES[row.stage],
        "priority": row.priority,
        "queued_at_us": row.queued_at_us,
        "queued_since_us": row.queued_since_us,
        "clamped_us": row.clamped_us,
        "waiting_us": max(0, now_us - row.queued_at_us) if row.stage == STAGE_QUEUED else None,
        "requirements": _requirements(table, row.requirement_id),
        # Before modifiers, hints and escalations; null where it is what the producer asked for.
        "asked_requirements": _requirements(table, row.asked_requirement_id) if row.asked_requirement_id else None,
        "order": _order(row),
        "endpoint": dispatch.endpoint if dispatch else None,
        "dispatch_id": dispatch.dispatch_id if dispatch else None,
        "dispatched_at_us": dispatch.dispatched_at_us if dispatch else None,
        "accepted": dispatch.accepted if dispatch else False,
        "accepted_at_us": (dispatch.accepted_at_us or None) if dispatch else None,
        "backfilled": dispatch.backfilled if dispatch else False,
        "overtook": dispatch.overtook if dispatch and dispatch.HasField("overtook") else None,
        "holders": holders_of(dispatch) if dispatch else [],
        "saved_bytes": dispatch.saved_bytes if dispatch else 0,
        "dispatches": row.dispatches,
        "job_failures": row.job_failures,
        "worker_losses": row.worker_losses,
        "free_requeues": row.free_requeues,
        "escalations": row.escalations,
        "requeue_cause": _named(RequeueCause(row.requeue_cause)),
        "requeue_reason": sentence(RequeueCause(row.requeue_cause)) or None,
        "requeue_message": row.requeue_message or None,
        "requeue_endpoint": row.requeue_endpoint or None,
        "outcome": _named(Outcome(row.outcome)),
        "outcome_reason": sentence(Outcome(row.outcome)) or None,
        "exit_code": exit_code_of(Outcome(row.outcome), row.exit_code) if finished else None,
        "message": row.message or None,
        "finished_at_us": row.finished_at_us if finished else None,
        "usage": _usage(row) if finished else None,
        "client_id": row.client_id or None,
        "invocation_id": row.invocation_id or None,
        "attached": row.attached,
        "clients": [_client(client) for client in row.clients],
        "upstream": row.upstream or None,
        "upstream_state": _named(UpstreamState(row.upstream_state)),
        "target_id": row.target_id or None,
        "mnemonic": row.mnemonic or None,
        "action_digest": str(Digest(row.action_digest.hash, row.action_digest.size_bytes))
        if row.action_digest.hash
        else None,
        "cacheable": row.cacheable,
        "skip_cache_lookup": row.skip_cache_lookup,
        "timeout_us": row.timeout_us or None,
        "expected_duration_us": row.expected_duration_us or None,
    }


def operation_in_full(table: Table, row: OperationRow) -> dict[str, Any]:
    """An operation with its command (argv, env, inputs) and the tails of its output as text."""
    command = command_of(row.command)
    return {
        **operation(table, row),
        "argv": list(command.argv),
        "env": [
            {"name": v.name, "secret": v.secret} if v.secret else {"name": v.name, "value": v.value}
            for v in command.env
        ],
        "inputs": [str(digest) for digest in command.inputs],
        "stdout_tail": row.stdout_tail.decode(errors="replace"),
        "stderr_tail": row.stderr_tail.decode(errors="replace"),
    }


def instances(table: Table, instance: str | None = None) -> list[dict[str, Any]]:
    """The instances with their configuration and counts; `outcomes`, `requeues` and `dispatches` count since the log began."""
    return [
        {
            "name": row.name,
            "shard": table.number,
            "paused": row.paused,
            "configured_at_us": row.configured_at_us,
            "config": json.loads(row.config_json) if row.config_json else config_of(row).model_dump(mode="json"),
            "queued": row.queued,
            "executing": row.executing,
            "finished": row.finished,
            "cache_check": row.checking,
            "forwarded": row.forwarded,
            "workers": row.workers,
            "dispatches": row.dispatches,
            "outcomes": {_named(Outcome(item.outcome)): item.count for item in row.outcomes},
            "requeues": {_named(RequeueCause(item.cause)): item.count for item in row.requeues},
            "hold": hold_of(table, row),
            "no_candidate": no_candidate_of(table, row),
            "holds": row.holds,
            "hold_moves": row.hold_moves,
            "hold_ends": {
                HoldEnd(item.reason).name.lower(): {"count": item.count, "held_us": item.held_us}
                for item in row.hold_ends
            },
            "unsatisfiable": _unsatisfiable(table, row),
            "hints": row.hints,
            "hints_loaded_at_us": row.hints_loaded_at_us or None,
            "forgotten_through_seq": row.forgotten_through_seq,
        }
        for row in instance_rows(table, instance)
    ]


def holds(table: Table, instance: str | None = None) -> list[dict[str, Any]]:
    """The holds in force, at most one per instance: who is held for whom, since when and why."""
    found = (hold_of(table, row) for row in instance_rows(table, instance))
    return [hold for hold in found if hold is not None]


def state(table: Table) -> dict[str, Any]:
    """The state of the shard: position, leader, sums over its instances, ignored and rejected facts by reason."""
    row = table.shard
    sums = {"queued": 0, "executing": 0, "finished": 0, "workers": 0, "dispatches": 0}
    for instance in instance_rows(table):
        for name in sums:
            sums[name] += getattr(instance, name)
    return {
        "shard": table.number,
        "seq": row.seq,
        "next_offset": row.next_offset,
        "events": row.events,
        "chain": row.chain.hex(),
        "now_us": row.now_us,
        "facts_position": row.facts_position,
        "leader_epoch": row.leader_epoch,
        "elections": row.elections,
        "elected_at_us": row.elected_at_us,
        "elected_seq": row.elected_seq,
        "recovering": row.recovering,
        "recovered_at_us": row.recovered_at_us or None,
        "unconfirmed_at_recovery": row.unconfirmed,
        "leader_build": row.build,
        "cluster_id": row.cluster_id,
        "facts_topic_id": row.facts_topic_id,
        "events_topic_id": row.events_topic_id,
        "stale_events": row.stale_events,
        "silences": row.silences,
        "silent_us": row.silent_us,
        "checkpoint": _checkpoint(row.checkpoint),
        "divergence": _divergence(row.divergence),
        **sums,
        "ignored": _counters(table, b"i", IgnoreReason),
        "rejected": _counters(table, b"r", RejectReason),
        "parked_keys": [key[5:].decode() for key, _ in table.scan(table.key(keys.PARKED))],
    }


def _checkpoint(row: CheckpointRow | None) -> dict[str, Any] | None:
    """The newest state that two folds of the log agree on."""
    if row is None:
        return None
    return {
        "seq": row.seq,
        "state_digest": row.state_digest.hex(),
        "next_fact_offset": row.next_fact_offset,
        "written_by": row.written_by,
        "verified_by": row.verified_by,
        "at_us": row.at_us,
    }


def _divergence(row: DivergenceRow | None) -> dict[str, Any] | None:
    """The last state that two folds of the log differed in."""
    return None if row is None else {"seq": row.seq, "by": row.by, "other_by": row.other_by, "at_us": row.at_us}


def _counters(table: Table, letter: bytes, reasons: type[IgnoreReason] | type[RejectReason]) -> dict[str, int]:
    prefix = table.key(keys.COUNTER, letter)
    return {
        reasons(int.from_bytes(key[len(prefix) :], "big")).name.lower(): CounterRow.FromString(value).count
        for key, value in table.scan(prefix)
    }


def holders_of(dispatch: DispatchRow) -> list[dict[str, Any]]:
    """Who held how many bytes of its inputs when it was dispatched, the most first; empty where that decided nothing."""
    return [{"endpoint": held.endpoint, "bytes": held.bytes} for held in dispatch.holders]


def _named(reason: IntEnum) -> str | None:
    return reason.name.lower() if reason else None


def _requirements(table: Table, requirement_id: int) -> list[dict[str, str]]:
    return named_values(requirements_of_row(table, requirement_id))


def _order(row: OperationRow) -> dict[str, Any] | None:
    """Where fairness or aging put it; null: by priority and queued time."""
    if not row.HasField("order"):
        return None
    order = row.order
    share = {"share_of": order.share_of or None, "cost_us": order.cost_us or None}
    return {"priority": order.priority, "time_us": order.time_us, **share}


def _client(row: ClientRow) -> dict[str, Any]:
    return {
        "client_operation_id": row.client_operation_id,
        "client_id": row.client_id or None,
        "attached": row.attached,
        "last_heard_us": row.last_heard_us,
        "left": _named(ClientLeaving(row.left)),
    }


def _unsatisfiable(table: Table, row: InstanceRow) -> list[dict[str, Any]]:
    return [
        {
            "requirements": _requirements(table, shortage.requirement_id),
            "since_us": shortage.since_us,
            "properties": list(shortage.properties),
            "no_workers": shortage.no_workers,
        }
        for shortage in row.unsatisfiable
    ]


def _usage(row: OperationRow) -> dict[str, int] | None:
    if not row.HasField("usage"):
        return None
    usage = row.usage
    return {"wall_us": usage.wall_us, "cpu_us": usage.cpu_us, "peak_memory_kib": usage.peak_memory_kib}
