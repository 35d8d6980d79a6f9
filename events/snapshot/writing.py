"""Rows to bytes, in canonical order: equal states give equal bytes, however each was reached and whether or not its indexes are live.

Order is the state's own wherever something depends on it (a dictionary that is walked, the runs of a worker, what finished first), so it is
the order of the events. Each part fills a message of its own: a reused one keeps the memory of every text it ever held.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, TypeVar

from events.config import canonical_config
from events.snapshot.derived import FORMAT
from events.state import Client, Dispatch, Endpoint, Instance, Operation, Shard, Worker
from events.values import NO_DIGEST
from proto.gen.headway.v1.snapshots_pb2 import SnapshotCheckpoint, SnapshotDivergence, SnapshotRows

PART_BYTES: Final = 512 * 1024
"""About how large a part is. A single row may add as much as one fact or configuration holds."""

DIGEST_BYTES: Final = 16
STRETCH: Final = 4096
"""Entries in one row of client ids or finished operations."""

Item = TypeVar("Item")
Fill = Callable[[Any, Item], None]
"""Puts an item into an empty row."""


def state_digest(shard: Shard) -> bytes:
    """The digest of the state: 16 bytes. Two states with the same digest decide every later fact the same. O(rows)."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in parts_of(shard):
        digest.update(part)
    return digest.digest()


def parts_of(shard: Shard, part_bytes: int = PART_BYTES) -> Iterator[bytes]:
    """The rows of `shard` as the parts of a snapshot, in order; blake2b-128 over all of them is `state_digest`.

    Between two parts the caller may do other things, but not fold: the rows have to stay as they are until the last part is made.

    Raises:
        RuntimeError: an event was folded in between.
    """
    seq = shard.seq
    packing = _Packing(part_bytes)
    _fill_header(packing.part.header, shard)
    instances = list(shard.instances.values())
    places = {instance.name: place for place, instance in enumerate(instances)}
    for section in _sections(packing, shard, instances, places):
        for part in section:
            yield part
            if shard.seq != seq:
                raise RuntimeError(f"event {shard.seq} was folded while the state after event {seq} was written")
    yield packing.take()


class _Packing:
    """The part in the making."""

    __slots__ = ("bytes", "limit", "part")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.part = SnapshotRows()
        self.bytes = 0

    def rows(self, name: str, items: Iterable[Item], fill: Fill[Item]) -> Iterator[bytes]:
        """Put every item into a row of the field `name`; gives the parts that became full on the way."""
        add = getattr(self.part, name).add
        for item in items:
            row = add()
            fill(row, item)
            self.bytes += row.ByteSize()
            if self.bytes >= self.limit:
                yield self.take()
                add = getattr(self.part, name).add

    def take(self) -> bytes:
        """The part, closed; the next one begins."""
        data: bytes = self.part.SerializeToString(deterministic=True)
        self.part = SnapshotRows()
        self.bytes = 0
        return data


def _sections(
    packing: _Packing, shard: Shard, instances: list[Instance], places: dict[str, int]
) -> Iterator[Iterator[bytes]]:
    """The fields of SnapshotRows one after another, in the order of their numbers."""
    numbered = list(enumerate(instances))
    rows = packing.rows
    yield rows("requirements", shard.requirements.items(), _fill_requirement)
    yield rows("instances", instances, _fill_instance)
    yield rows("hints", ((p, *hint) for p, i in numbered for hint in i.hints.items()), _fill_hint)
    yield rows("durations", ((p, *kind) for p, i in numbered for kind in i.durations.rows()), _fill_durations)
    yield rows("tags", ((p, *tag) for p, i in numbered for tag in i.shares.tags.items()), _fill_tag)
    fill_operation = _operation_filler(instances, places)
    yield rows("operations", shard.operations.values(), fill_operation)
    yield rows("forgotten", _forgotten(shard, instances), fill_operation)
    yield rows("client_ids", (s for p, i in numbered for s in _stretches(p, i.by_client.items())), _fill_client_ids)
    yield rows("finished", (s for p, i in numbered for s in _stretches(p, i.finished)), _fill_finished)
    yield rows("workers", ((p, worker) for p, i in numbered for worker in i.workers.values()), _fill_worker)
    yield rows("endpoints", ((p, endpoint) for p, i in numbered for endpoint in i.endpoints.values()), _fill_endpoint)
    yield rows("stable", ((p, chunk) for p, i in numbered for chunk in i.stable.values()), _fill_stable)
    yield rows("broadcasts", ((p, *b) for p, i in numbered for b in i.broadcasts.items()), _fill_broadcast)
    yield rows("unsatisfiable", ((p, *s) for p, i in numbered for s in i.unsatisfiable.items()), _fill_shortage)
    yield rows("holds", ((p, i) for p, i in numbered if i.hold is not None), _fill_hold)


def _fill_header(row: Any, shard: Shard) -> None:
    row.format = FORMAT
    row.seq = shard.seq
    row.now_us = shard.now_us
    row.position = shard.position
    row.leader_epoch = shard.leader_epoch
    row.elected_seq = shard.elected_seq
    if shard.recovers_at is not None:
        row.recovers_at = shard.recovers_at
    row.recovered_at_us = shard.recovered_at_us
    row.cluster_id = shard.cluster_id
    row.facts_topic_id = shard.facts_topic_id
    row.events_topic_id = shard.events_topic_id
    row.parked_keys.extend(shard.parked_keys)
    for counts, counted in ((row.ignored, shard.ignored), (row.rejected, shard.rejected)):
        for reason, count in sorted(counted.items()):
            counts.add(reason=reason, count=count)
    for seq, report in shard.digests.items():
        row.digests.add(seq=seq, **report._asdict())
    if shard.checkpoint is not None:
        row.checkpoint.MergeFrom(SnapshotCheckpoint(**shard.checkpoint._asdict()))
    if shard.divergence is not None:
        row.divergence.MergeFrom(SnapshotDivergence(**shard.divergence._asdict()))


def _fill_requirement(row: Any, item: tuple[int, bytes]) -> None:
    row.requirement_id, row.requirements = item


def _fill_instance(row: Any, instance: Instance) -> None:
    row.name = instance.name
    row.config_json = canonical_config(instance.scheduler)
    row.paused = instance.paused
    if instance.no_candidate_for is not None:
        row.no_candidate_for = instance.no_candidate_for
    row.virtual_us = instance.shares.virtual_us
    row.last_runs = instance.durations.last_runs


def _fill_hint(row: Any, item: tuple[int, tuple[str, str], tuple[int, int]]) -> None:
    row.instance, (row.target_id, row.mnemonic), (row.cpu_millis, row.memory_kib) = item


def _fill_durations(row: Any, item: tuple[int, tuple[int, str], tuple[int, ...]]) -> None:
    row.instance, (row.source, row.kind), steps = item
    row.steps.extend(steps)


def _fill_tag(row: Any, item: tuple[int, str, int]) -> None:
    row.instance, row.share_of, row.tag_us = item


def _operation_filler(instances: list[Instance], places: dict[str, int]) -> Fill[Operation]:
    joinable = [instance.by_action for instance in instances]

    def fill(row: Any, operation: Operation) -> None:
        command, client_operation_id = operation.command, operation.client_operation_id
        queued_at_us = operation.queued_at_us
        row.operation_id = operation.operation_id
        place = places[operation.instance]
        if place:
            row.instance = place
        row.client_operation_id = client_operation_id
        row.requirement_id = operation.requirement_id
        row.queued_at_us = queued_at_us
        if operation.queued_since_us != queued_at_us:
            row.queued_since_us = operation.queued_since_us
        row.stage = operation.stage
        if operation.cacheable and joinable[place].get(operation.action_key()) is operation:
            row.joinable = True
        if command:
            row.command = command
        if (
            operation.mnemonic
            or operation.target_id
            or operation.priority
            or operation.timeout_us
            or operation.expected_duration_us
            or operation.attached
            or operation.cacheable
            or operation.client_id
            or operation.invocation_id
            or operation.skip_cache_lookup
            or operation.asked_requirement_id
            or operation.order is not None
            or operation.action_digest != NO_DIGEST
        ):
            _fill_asked(row.asked, operation)
        if (
            operation.outcome
            or operation.job_failures
            or operation.worker_losses
            or operation.free_requeues
            or operation.escalations
            or operation.hold_expired_at_us
            or operation.clients is not None
        ):
            _fill_past(row.past, operation)

    return fill


def _fill_asked(row: Any, operation: Operation) -> None:
    digest = operation.action_digest
    if digest is not NO_DIGEST:
        row.digest_hash, row.digest_size_bytes = digest
    row.priority = operation.priority
    row.cacheable = operation.cacheable
    row.skip_cache_lookup = operation.skip_cache_lookup
    row.attached = operation.attached
    row.timeout_us = operation.timeout_us
    row.expected_duration_us = operation.expected_duration_us
    row.client_id = operation.client_id
    row.invocation_id = operation.invocation_id
    row.target_id = operation.target_id
    row.mnemonic = operation.mnemonic
    row.asked_requirement_id = operation.asked_requirement_id
    if operation.order is not None:
        order = row.order
        order.SetInParent()
        order.priority, order.time_us, order.share_of, order.cost_us = operation.order


def _fill_past(row: Any, operation: Operation) -> None:
    row.SetInParent()
    row.job_failures = operation.job_failures
    row.worker_losses = operation.worker_losses
    row.free_requeues = operation.free_requeues
    row.escalations = operation.escalations
    row.hold_expired_at_us = operation.hold_expired_at_us
    row.outcome = operation.outcome
    for client in (operation.clients or {}).values():
        _fill_client(row.clients.add(), client)


def _fill_client(row: Any, client: Client) -> None:
    row.client_operation_id = client.client_operation_id
    row.client_id = client.client_id
    row.attached = client.attached
    row.last_heard_us = client.last_heard_us
    row.left = client.left


def _forgotten(shard: Shard, instances: list[Instance]) -> Iterator[Operation]:
    """Operations that the shard has forgotten and a run, or for the rest of a fact a hold, still refers to."""
    found: dict[int, Operation] = {}
    for instance in instances:
        for worker in instance.workers.values():
            for dispatch in worker.running.values():
                if dispatch.operation_id not in shard.operations:
                    found[dispatch.operation_id] = dispatch.operation
        hold = instance.hold
        if hold is not None and hold.operation.operation_id not in shard.operations:
            found[hold.operation.operation_id] = hold.operation
    return (found[operation_id] for operation_id in sorted(found))


def _stretches(place: int, items: Iterable[Item]) -> Iterator[tuple[int, list[Item]]]:
    entries = iter(items)
    while stretch := list(islice(entries, STRETCH)):
        yield place, stretch


def _fill_client_ids(row: Any, item: tuple[int, list[tuple[str, Operation]]]) -> None:
    row.instance, stretch = item
    row.operations.extend([operation.operation_id for _, operation in stretch])
    for at, (client_operation_id, operation) in enumerate(stretch):
        if client_operation_id != operation.client_operation_id:
            row.others.add(at=at, client_operation_id=client_operation_id)


def _fill_finished(row: Any, item: tuple[int, list[tuple[int, int, Operation]]]) -> None:
    row.instance, stretch = item
    row.seqs.extend([seq for seq, _, _ in stretch])
    row.at_us.extend([at_us for _, at_us, _ in stretch])
    row.operations.extend([operation.operation_id for _, _, operation in stretch])


def _fill_worker(row: Any, item: tuple[int, Worker]) -> None:
    row.instance, worker = item
    row.endpoint = worker.endpoint
    row.boot_epoch = worker.boot_epoch
    row.connection_id = worker.connection_id
    for name, value in worker.properties:
        row.properties.add(name=name, value=value)
    row.max_inflight = worker.max_inflight
    row.build = worker.build
    row.connected_at_us = worker.connected_at_us
    row.last_seen_us = worker.last_seen_us
    row.recency = worker.recency
    row.draining = worker.draining
    row.paused = worker.paused
    row.admits_when_idle = worker.admits_when_idle
    if worker.free_memory_kib is not None:
        row.free_memory_kib = worker.free_memory_kib
    row.lent_kib = worker.lent_kib
    if worker.idle_free_kib is not None:
        row.idle_free_kib = worker.idle_free_kib
    if worker.idle_declined_kib is not None:
        row.idle_declined_kib = worker.idle_declined_kib
    row.resume_at_kib = worker.resume_at_kib
    for dispatch in worker.running.values():
        _fill_dispatch(row.running.add(), dispatch)


def _fill_dispatch(row: Any, dispatch: Dispatch) -> None:
    row.dispatch_id = dispatch.dispatch_id
    row.operation_id = dispatch.operation_id
    row.requirement_id = dispatch.demand.requirement_id
    row.connection_id = dispatch.connection_id
    row.dispatched_at_us = dispatch.dispatched_at_us
    row.current = dispatch.operation.dispatch is dispatch
    row.accepted = dispatch.accepted
    row.revoked = dispatch.revoked
    row.heard_at_us = dispatch.heard_at_us
    row.silent_us = dispatch.silent_us
    row.kill_requested_at_us = dispatch.kill_requested_at_us


def _fill_endpoint(row: Any, item: tuple[int, Endpoint]) -> None:
    row.instance, endpoint = item
    row.endpoint = endpoint.endpoint
    row.boot_epoch = endpoint.boot_epoch
    row.connection_id = endpoint.connection_id
    row.confirmed_in = endpoint.confirmed_in
    row.gone_at_us = endpoint.gone_at_us
    row.advertised = endpoint.advertised
    report = endpoint.report
    row.report = report.number
    row.next_chunk = report.next_chunk
    row.full = report.full
    row.open = report.open
    row.unacknowledged.extend(endpoint.unacknowledged or ())
    row.due.extend(endpoint.due)
    row.resent_through = endpoint.resent_through
    row.owed_through = endpoint.owed_through
    row.changes.extend(endpoint.changes)
    if endpoint.flapped_at_us is not None:
        row.flapped_at_us = endpoint.flapped_at_us


def _fill_stable(row: Any, item: tuple[int, Any]) -> None:
    row.instance, chunk = item
    row.seq = chunk.seq
    row.broadcast = chunk.broadcast
    row.sequence = chunk.sequence
    row.last = chunk.last
    row.store = chunk.store
    row.digests = chunk.digests
    row.waiting = chunk.waiting


def _fill_broadcast(row: Any, item: tuple[int, int, tuple[int, str, bool]]) -> None:
    row.instance, row.broadcast, (row.next_sequence, row.store, row.finished) = item


def _fill_shortage(row: Any, item: tuple[int, int, tuple[int, bool]]) -> None:
    row.instance, row.requirement_id, (row.since_us, row.no_workers) = item


def _fill_hold(row: Any, item: tuple[int, Instance]) -> None:
    row.instance, instance = item
    hold = instance.hold
    assert hold is not None, "only instances with a hold have such a row"
    row.operation_id = hold.operation.operation_id
    row.endpoint = hold.worker.endpoint
    row.requirement_id = hold.requirement_id
    row.made_at_us = hold.made_at_us
    row.waited_us = hold.waited_us
    row.free_at_us = hold.free_at_us
    row.worker_gone = instance.workers.get(hold.worker.endpoint) is not hold.worker
