"""What changes the rows of a shard or an instance as a whole: leaders, time, refusals, parked keys, configurations, hints, checkpoints."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.config import parse_config, resolve
from projections import keys
from projections.row_access import instance_at
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import (
    CheckpointRow,
    CounterRow,
    DivergenceRow,
    InstanceRow,
    OperationRow,
    WorkerRow,
)


def _leader_elected(table: Table, event: e.LeaderElected) -> None:
    shard = table.shard
    shard.leader_epoch = event.leader_epoch
    shard.elections += 1
    shard.elected_at_us = event.at_us
    shard.elected_seq = event.seq
    shard.recovering = event.seq > 1  # before the first leader nothing was known
    shard.recovered_at_us = shard.unconfirmed = 0
    shard.cluster_id = event.cluster_id
    shard.facts_topic_id = event.facts_topic_id
    shard.events_topic_id = event.events_topic_id
    shard.build = event.build


def _recovery_completed(table: Table, event: e.RecoveryCompleted) -> None:
    shard = table.shard
    shard.recovering = False
    shard.recovered_at_us = event.at_us
    shard.unconfirmed = event.unconfirmed


def _ticked(table: Table, event: e.Ticked) -> None:
    """Only time passes, and that is the shard row's."""


def _log_silent(table: Table, event: e.LogSilent) -> None:
    table.flush()
    for key in [key for key, _ in table.scan(table.key(keys.WORKER))]:
        worker = table.row(key, WorkerRow)
        worker.last_seen_us += event.gap_us
        for run in worker.running:
            if run.revoked:
                run.kill_requested_at_us += event.gap_us
            run.heard_at_us += event.gap_us
            run.silent_us += event.gap_us
        table.put(key, worker)
    for key, value in list(table.scan(table.key(keys.OPERATION))):
        # Told from the bytes first: nearly no operation has clients that are listened for, and all of them are walked here.
        if OperationRow.FromString(value).clients:
            row = table.row(key, OperationRow)
            for client in row.clients:
                client.last_heard_us += event.gap_us
            table.put(key, row)
    for key in [key for key, _ in table.scan(table.key(keys.INSTANCE))]:
        instance = table.row(key, InstanceRow)
        for shortage in instance.unsatisfiable:
            shortage.since_us += event.gap_us
        table.put(key, instance)
    table.shard.silences += 1
    table.shard.silent_us += event.gap_us


def _fact_ignored(table: Table, event: e.FactIgnored) -> None:
    _count(table, b"i", event.reason, event.at_us)


def _fact_rejected(table: Table, event: e.FactRejected) -> None:
    _count(table, b"r", event.reason, event.at_us)


def _count(table: Table, letter: bytes, reason: int, at_us: int) -> None:
    key = table.key(keys.COUNTER, letter + int(reason).to_bytes(2, "big"))
    row = table.find(key, CounterRow) or CounterRow()
    row.count += 1
    row.last_at_us = at_us
    table.put(key, row)


def _key_parked(table: Table, event: e.KeyParked) -> None:
    table.put(table.key(keys.PARKED, event.key.encode()), keys.number(event.seq))


def _key_released(table: Table, event: e.KeyReleased) -> None:
    table.delete(table.key(keys.PARKED, event.key.encode()))


def _requirement_defined(table: Table, event: e.RequirementDefined) -> None:
    table.put(table.key(keys.REQUIREMENT, event.requirement_id.to_bytes(4, "big")), event.requirements)


def _configured(table: Table, event: e.Configured) -> None:
    key = table.key(keys.INSTANCE, event.instance.encode())
    row = table.find(key, InstanceRow) or InstanceRow(name=event.instance)
    row.config_json = event.config_json
    row.configured_at_us = event.at_us
    row.live_memory_veto = resolve(parse_config(event.config_json)).base.live_memory_veto or ""
    row.ClearField("unsatisfiable")  # said of another reading of the requirements
    table.put(key, row)


def _instance_paused(table: Table, event: e.InstancePaused) -> None:
    key, row = instance_at(table, event.instance)
    row.paused = True
    table.put(key, row)


def _instance_resumed(table: Table, event: e.InstanceResumed) -> None:
    key, row = instance_at(table, event.instance)
    row.paused = False
    table.put(key, row)


def _hints_loaded(table: Table, event: e.HintsLoaded) -> None:
    """How many there are and since when: the hints themselves are the core's, and stand in the event."""
    key, row = instance_at(table, event.instance)
    row.hints = len(event.hints)
    row.hints_loaded_at_us = event.at_us
    table.put(key, row)


def _state_digest_noted(table: Table, event: e.StateDigestNoted) -> None:
    """Nothing follows from one report: it waits for another fold's."""


def _checkpointed(table: Table, event: e.Checkpointed) -> None:
    shard = table.shard
    if shard.checkpoint is None or shard.checkpoint.seq < event.through_seq:
        shard.checkpoint = CheckpointRow(
            seq=event.through_seq,
            state_digest=event.state_digest,
            next_fact_offset=event.next_fact_offset,
            written_by=event.written_by,
            verified_by=event.verified_by,
            at_us=event.at_us,
        )


def _checkpoint_diverged(table: Table, event: e.CheckpointDiverged) -> None:
    shard = table.shard
    shard.divergence = DivergenceRow(seq=event.through_seq, by=event.by, other_by=event.other_by, at_us=event.at_us)
    if shard.checkpoint is not None and shard.checkpoint.seq == event.through_seq:
        shard.checkpoint = None


SHARD_FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.LeaderElected: _leader_elected,
    e.RecoveryCompleted: _recovery_completed,
    e.Ticked: _ticked,
    e.LogSilent: _log_silent,
    e.FactIgnored: _fact_ignored,
    e.FactRejected: _fact_rejected,
    e.KeyParked: _key_parked,
    e.KeyReleased: _key_released,
    e.Configured: _configured,
    e.InstancePaused: _instance_paused,
    e.InstanceResumed: _instance_resumed,
    e.RequirementDefined: _requirement_defined,
    e.HintsLoaded: _hints_loaded,
    e.StateDigestNoted: _state_digest_noted,
    e.Checkpointed: _checkpointed,
    e.CheckpointDiverged: _checkpoint_diverged,
}
