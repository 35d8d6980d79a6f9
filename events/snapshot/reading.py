"""Bytes to rows: the state after a snapshot's last event, not live, as a fold of the log up to there gives it.

Whoever restores many rows keeps the cycle collector off meanwhile, as with any replay.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from events.config import parse_config, resolve
from events.errors import SnapshotUnreadable
from events.evolving.rows import charge, demand_of
from events.fitting import Demand, StaticNeed, worker_totals
from events.reasons import ClientLeaving, DigestRole, Outcome
from events.snapshot.derived import FORMAT
from events.snapshot.writing import DIGEST_BYTES
from events.state import (
    Broadcast,
    Checkpoint,
    Client,
    DigestReport,
    Dispatch,
    Divergence,
    Endpoint,
    Hold,
    Instance,
    Operation,
    Report,
    Shard,
    Shortage,
    StableChunk,
    Stage,
    Worker,
    sort_key,
)
from events.values import Digest, QueueOrder
from proto.gen.headway.v1.snapshots_pb2 import SnapshotRows

_STAGES = {int(stage): stage for stage in Stage}
_OUTCOMES = {int(outcome): outcome for outcome in Outcome}
_ASKS_NOTHING = StaticNeed((), (), ())


def restore(parts: Iterable[bytes], digest: bytes) -> Shard:
    """The state that `parts` hold, in order and complete; `digest` is the one their manifest names.

    It is not live: `indexing.build_indexes` makes what is derived, and what is decided from there on is what a fold of the log from its
    first event would decide.

    Raises:
        SnapshotUnreadable: a part is missing, damaged or of another format, or all of them together are not what was digested.
    """
    restoring = Restoring()
    for part in parts:
        restoring.take(part)
    return restoring.finish(digest)


class Restoring:
    """A state in the making, part by part: for whoever has other things to do between two parts."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        self._shard = Shard()
        self._parts = 0
        self._instances: list[Instance] = []
        self._forgotten: dict[int, Operation] = {}
        self._spent: dict[int, Demand] = {}  # of finished operations, by requirement_id
        self._texts: dict[str, str] = {}  # one object for each text that comes again and again
        # The fields of SnapshotRows behind the header, in the order of their numbers: a row refers only to rows before it.
        self._takers = (
            ("requirements", self._take_requirements),
            ("instances", self._take_instances),
            ("hints", self._take_hints),
            ("durations", self._take_durations),
            ("tags", self._take_tags),
            ("operations", self._take_operations),
            ("forgotten", self._take_forgotten),
            ("client_ids", self._take_client_ids),
            ("finished", self._take_finished),
            ("workers", self._take_workers),
            ("endpoints", self._take_endpoints),
            ("stable", self._take_stable),
            ("broadcasts", self._take_broadcasts),
            ("unsatisfiable", self._take_shortages),
            ("holds", self._take_holds),
        )

    def take(self, part: bytes) -> None:
        """Take the next part. Raises SnapshotUnreadable; the state is of no use then."""
        number = self._parts
        self._digest.update(part)
        try:
            message = SnapshotRows.FromString(part)
            if message.HasField("header") != (number == 0):
                raise SnapshotUnreadable(
                    "the header stands in the first part and in no other: one is missing or doubled"
                )
            if number == 0:
                self._take_header(message.header)
            for name, take in self._takers:
                rows = getattr(message, name)
                if rows:
                    take(rows)
        except SnapshotUnreadable:
            raise
        except Exception as error:  # whatever damaged bytes lead to: nothing of them is used
            told = f"part {number} of the snapshot ({len(part)} bytes) cannot be read: {type(error).__name__}: {error}"
            raise SnapshotUnreadable(told) from error
        self._parts += 1

    def finish(self, digest: bytes) -> Shard:
        """The state, once every part was taken. Raises SnapshotUnreadable where its digest is another than `digest`."""
        found = self._digest.digest()
        if found != digest:
            raise SnapshotUnreadable(
                f"the {self._parts} parts of the snapshot at event {self._shard.seq} have digest {found.hex()}, not {digest.hex()}: "
                "one is missing or changed"
            )
        return self._shard

    def _take_header(self, row: Any) -> None:
        if row.format != FORMAT:
            raise SnapshotUnreadable(f"the snapshot has format {row.format}; this build reads {FORMAT}")
        shard = self._shard
        shard.seq = row.seq
        shard.now_us = row.now_us
        shard.position = row.position
        shard.leader_epoch = row.leader_epoch
        shard.elected_seq = row.elected_seq
        shard.recovers_at = row.recovers_at if row.HasField("recovers_at") else None
        shard.recovered_at_us = row.recovered_at_us
        shard.cluster_id = row.cluster_id
        shard.facts_topic_id = row.facts_topic_id
        shard.events_topic_id = row.events_topic_id
        shard.parked_keys = dict.fromkeys(row.parked_keys)
        for counted, counts in ((shard.ignored, row.ignored), (shard.rejected, row.rejected)):
            for count in counts:
                counted[count.reason] = count.count
        for report in row.digests:
            shard.digests[report.seq] = DigestReport(
                report.state_digest,
                report.format,
                report.next_fact_offset,
                report.by,
                DigestRole(report.role),
                report.agreed if report.HasField("agreed") else None,
            )
        if row.HasField("checkpoint"):
            shard.checkpoint = Checkpoint(*[getattr(row.checkpoint, name) for name in Checkpoint._fields])
        if row.HasField("divergence"):
            shard.divergence = Divergence(*[getattr(row.divergence, name) for name in Divergence._fields])

    def _take_requirements(self, rows: Any) -> None:
        shard = self._shard
        for row in rows:
            requirement_id, requirements = row.requirement_id, row.requirements
            shard.requirements[requirement_id] = requirements
            shard.requirement_ids[requirements] = requirement_id

    def _take_instances(self, rows: Any) -> None:
        for row in rows:
            instance = Instance(row.name)
            instance.scheduler = parse_config(row.config_json)
            instance.steps, instance.config, instance.upstream = resolve(instance.scheduler)
            instance.pools = instance.config.pools()
            instance.paused = row.paused
            instance.no_candidate_for = row.no_candidate_for if row.HasField("no_candidate_for") else None
            instance.shares.virtual_us = row.virtual_us
            instance.durations.keep(row.last_runs)
            self._shard.instances[row.name] = instance
            self._instances.append(instance)

    def _take_hints(self, rows: Any) -> None:
        for row in rows:
            hint = (row.cpu_millis, row.memory_kib)
            self._instances[row.instance].hints[row.target_id, row.mnemonic] = hint

    def _take_durations(self, rows: Any) -> None:
        for row in rows:
            self._instances[row.instance].durations.put((row.source, row.kind), row.steps)

    def _take_tags(self, rows: Any) -> None:
        for row in rows:
            self._instances[row.instance].shares.tags[row.share_of] = row.tag_us

    def _take_operations(self, rows: Any) -> None:
        self._put_operations(rows, self._shard.operations)

    def _take_forgotten(self, rows: Any) -> None:
        self._put_operations(rows, self._forgotten)

    def _put_operations(self, rows: Any, operations: dict[int, Operation]) -> None:
        instances = self._instances
        finished = Stage.FINISHED
        for row in rows:
            instance = instances[row.instance]
            operation_id, requirement_id = row.operation_id, row.requirement_id
            queued_at_us = row.queued_at_us
            stage = _STAGES[row.stage]
            if stage is finished:
                demand = self._spent_demand(requirement_id)
            else:
                known = instance.demands.get(requirement_id)
                demand = demand_of(self._shard, instance, requirement_id) if known is None else known
            operation = operations[operation_id] = Operation(
                operation_id,
                instance.name,
                row.client_operation_id,
                requirement_id,
                0,
                queued_at_us,
                sort_key(0, queued_at_us, operation_id),
                row.queued_since_us if row.HasField("queued_since_us") else queued_at_us,
                demand,
                row.command,
                stage=stage,
            )
            if row.HasField("asked"):
                self._put_asked(operation, row.asked)
            if row.HasField("past"):
                _put_past(operation, row.past)
            if row.joinable:
                instance.by_action[operation.action_key()] = operation

    def _spent_demand(self, requirement_id: int) -> Demand:
        """What a finished operation asks for: nothing any more. Its requirements may be none that this configuration can read."""
        demand = self._spent.get(requirement_id)
        if demand is None:
            demand = self._spent[requirement_id] = Demand(requirement_id, _ASKS_NOTHING, ())
        return demand

    def _put_asked(self, operation: Operation, row: Any) -> None:
        texts = self._texts
        digest_hash, digest_size_bytes = row.digest_hash, row.digest_size_bytes
        if digest_hash or digest_size_bytes:
            operation.action_digest = Digest(digest_hash, digest_size_bytes)
        operation.priority = row.priority
        operation.cacheable = row.cacheable
        operation.skip_cache_lookup = row.skip_cache_lookup
        operation.attached = row.attached
        operation.timeout_us = row.timeout_us
        operation.expected_duration_us = row.expected_duration_us
        operation.client_id = texts.setdefault(text := row.client_id, text)
        operation.invocation_id = texts.setdefault(text := row.invocation_id, text)
        operation.target_id = texts.setdefault(text := row.target_id, text)
        operation.mnemonic = texts.setdefault(text := row.mnemonic, text)
        operation.asked_requirement_id = row.asked_requirement_id
        if row.HasField("order"):
            order = row.order
            operation.order = QueueOrder(order.priority, order.time_us, order.share_of, order.cost_us)
        operation.sort_key = operation.order_key()

    def _take_client_ids(self, rows: Any) -> None:
        operations = self._shard.operations
        for row in rows:
            by_client = self._instances[row.instance].by_client
            others = {other.at: other.client_operation_id for other in row.others}
            for at, operation_id in enumerate(row.operations):
                operation = operations[operation_id]
                by_client[others.get(at, operation.client_operation_id)] = operation

    def _take_finished(self, rows: Any) -> None:
        operation_of = self._shard.operations.__getitem__
        for row in rows:
            entries = zip(row.seqs, row.at_us, map(operation_of, row.operations), strict=True)
            self._instances[row.instance].finished.extend(entries)

    def _take_workers(self, rows: Any) -> None:
        for row in rows:
            instance = self._instances[row.instance]
            properties = tuple([(item.name, item.value) for item in row.properties])
            totals = worker_totals(properties, instance.pools)
            worker = instance.workers[row.endpoint] = Worker(
                instance.name,
                row.endpoint,
                row.boot_epoch,
                row.connection_id,
                properties,
                row.max_inflight,
                row.build,
                row.connected_at_us,
                row.last_seen_us,
                row.recency,
                totals,
                list(totals),
                row.draining,
                row.paused,
                row.admits_when_idle,
                row.free_memory_kib if row.HasField("free_memory_kib") else None,
                row.lent_kib,
                row.idle_free_kib if row.HasField("idle_free_kib") else None,
                row.idle_declined_kib if row.HasField("idle_declined_kib") else None,
                row.resume_at_kib,
                max_unaccepted=instance.config.max_unaccepted_dispatches,
            )
            for run in row.running:
                self._put_run(instance, worker, run)

    def _put_run(self, instance: Instance, worker: Worker, row: Any) -> None:
        operation = self._operation(row.operation_id)
        demand = demand_of(self._shard, instance, row.requirement_id)
        dispatch = Dispatch(
            row.dispatch_id,
            operation.operation_id,
            operation,
            worker,
            row.connection_id,
            row.dispatched_at_us,
            demand,
            row.accepted,
            row.revoked,
            row.heard_at_us,
            row.silent_us,
            row.kill_requested_at_us,
        )
        if row.current:
            operation.dispatch = dispatch
        worker.running[dispatch.dispatch_id] = dispatch
        worker.unaccepted += not dispatch.accepted and not dispatch.revoked
        charge(worker, demand)

    def _operation(self, operation_id: int) -> Operation:
        operation = self._shard.operations.get(operation_id)
        return self._forgotten[operation_id] if operation is None else operation

    def _take_endpoints(self, rows: Any) -> None:
        for row in rows:
            instance = self._instances[row.instance]
            instance.endpoints[row.endpoint] = Endpoint(
                instance.name,
                row.endpoint,
                row.boot_epoch,
                row.connection_id,
                row.confirmed_in,
                row.gone_at_us,
                row.advertised,
                Report(row.report, row.next_chunk, row.full, row.open),
                dict.fromkeys(row.unacknowledged) or None,
                tuple(row.due),
                row.resent_through,
                row.owed_through,
                tuple(row.changes),
                row.flapped_at_us if row.HasField("flapped_at_us") else None,
            )

    def _take_stable(self, rows: Any) -> None:
        for row in rows:
            self._instances[row.instance].stable[row.seq] = StableChunk(
                row.seq, row.broadcast, row.sequence, row.last, row.store, row.digests, row.waiting
            )

    def _take_broadcasts(self, rows: Any) -> None:
        for row in rows:
            broadcast = Broadcast(row.next_sequence, row.store, row.finished)
            self._instances[row.instance].broadcasts[row.broadcast] = broadcast

    def _take_shortages(self, rows: Any) -> None:
        for row in rows:
            shortage = Shortage(row.since_us, row.no_workers)
            self._instances[row.instance].unsatisfiable[row.requirement_id] = shortage

    def _take_holds(self, rows: Any) -> None:
        for row in rows:
            instance = self._instances[row.instance]
            worker = _worker_gone(instance.name, row.endpoint) if row.worker_gone else instance.workers[row.endpoint]
            operation = self._operation(row.operation_id)
            instance.hold = Hold(operation, worker, row.requirement_id, row.made_at_us, row.waited_us, row.free_at_us)


def _put_past(operation: Operation, row: Any) -> None:
    operation.job_failures = row.job_failures
    operation.worker_losses = row.worker_losses
    operation.free_requeues = row.free_requeues
    operation.escalations = row.escalations
    operation.hold_expired_at_us = row.hold_expired_at_us
    operation.outcome = _OUTCOMES[row.outcome]
    if row.clients:
        operation.clients = {
            client.client_operation_id: Client(
                client.client_operation_id,
                client.client_id,
                client.attached,
                client.last_heard_us,
                ClientLeaving(client.left),
            )
            for client in row.clients
        }


def _worker_gone(instance: str, endpoint: str) -> Worker:
    """Stands for a held worker that has left: the hold moves or ends before anything else is asked of it."""
    return Worker(instance, endpoint, 0, 0, (), 0, "", 0, 0, 0, [], [])
