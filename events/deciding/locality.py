"""What endpoints hold, and what becomes of endpoints (6.1, 6.2, 6.6, 6.7). Digests pass through as bytes: a projection keeps them.

An endpoint has something to lose while it has advertised blobs or owes acknowledgements. Only then are its confirmation, its wipe and its
sweep worth an event.
"""

from events import events as e
from events import facts as f
from events.config import SECOND_US
from events.deciding.step import Step
from events.indexing import has_something, is_unconfirmed, is_waited_for
from events.reasons import FetchFailure, IgnoreReason, RejectReason, SweepCause, WipeCause
from events.state import Endpoint, Instance, Worker

PROVES_LOSS = frozenset({FetchFailure.NOT_FOUND, FetchFailure.DATA_LOSS})
"""Failures of a fetch that prove that the peer does not hold the blob; every other one is transient (PM11)."""


def advertise(step: Step, fact: f.BlobsAvailable) -> None:
    """Take a chunk of a report, in order only (PM8)."""
    worker = step.worker_of(fact.instance, fact.endpoint, fact.connection_id)
    if worker is None:
        return
    endpoint = endpoint_of(step, worker)
    report = endpoint.report
    begun = fact.report == report.number
    due = report.next_chunk if begun else 0
    if fact.report < report.number:
        step.ignore(IgnoreReason.STALE_REPORT, fact.instance, fact.endpoint)
    elif fact.chunk < due:
        step.ignore(IgnoreReason.DUPLICATE_CHUNK, fact.instance, fact.endpoint)
    elif fact.chunk > due or (begun and not report.open):
        step.ignore(IgnoreReason.CHUNK_OUT_OF_ORDER, fact.instance, fact.endpoint)
    elif begun and fact.full != report.full:
        rule = "the same on every chunk of a report"
        shown = str(fact.full).lower()
        step.reject(RejectReason.INVALID_FIELD, "full", shown, rule, fact.instance, fact.endpoint)
    else:
        _confirm(step, endpoint)
        step.emit(
            e.BlobsAvailable,
            fact.instance,
            fact.endpoint,
            fact.connection_id,
            fact.report,
            fact.chunk,
            fact.last,
            fact.full,
            fact.added,
            fact.ac_pins,
            fact.mirror_pending,
            fact.mirror_pinned,
            fact.mirror_pinned_bytes,
        )


def evict(step: Step, fact: f.BlobsEvicted) -> None:
    """The worker no longer holds these blobs."""
    worker = step.worker_of(fact.instance, fact.endpoint, fact.connection_id)
    if worker is not None:
        confirm(step, worker)
        step.emit(e.BlobsEvicted, fact.instance, fact.endpoint, fact.connection_id, fact.digests)


def note_failed_fetch(step: Step, fact: f.PeerFetchFailed) -> None:
    """A peer was asked for a blob in vain: it counts only where that proves that this process of the peer lost it (PM11)."""
    instance = step.instance_of(fact.instance, fact.endpoint)
    if instance is None:
        return
    endpoint = instance.endpoints.get(fact.endpoint)
    if endpoint is None:
        step.ignore(IgnoreReason.UNKNOWN_ENDPOINT, fact.instance, fact.endpoint)
    elif fact.boot_epoch not in (0, endpoint.boot_epoch):
        step.ignore(IgnoreReason.STALE_EPOCH, fact.instance, fact.endpoint)
    elif fact.failure not in PROVES_LOSS:
        step.ignore(IgnoreReason.TRANSIENT_FAILURE, fact.instance, fact.endpoint)
    else:
        step.emit(
            e.PeerFetchFailed,
            fact.instance,
            fact.endpoint,
            fact.digest,
            fact.failure,
            fact.boot_epoch,
            fact.reporter,
        )


def endpoint_of(step: Step, worker: Worker) -> Endpoint:
    """The endpoint of a connected worker: every one has a row."""
    return step.shard.instances[worker.instance].endpoints[worker.endpoint]


def confirm(step: Step, worker: Worker) -> None:
    """The worker spoke on the connection that owns its endpoint: a restart of the scheduler has broken nothing (10.1)."""
    endpoint = endpoint_of(step, worker)
    if endpoint.confirmed_in != step.shard.leader_epoch and has_something(endpoint):
        _confirm(step, endpoint)


def _confirm(step: Step, endpoint: Endpoint) -> None:
    if endpoint.confirmed_in != step.shard.leader_epoch:
        step.emit(e.EndpointConfirmed, endpoint.instance, endpoint.endpoint, endpoint.boot_epoch)


def is_another_process(instance: Instance, fact: f.WorkerConnected) -> bool:
    """Whether the endpoint is known, and by another process than the one that connects (E2, E3)."""
    endpoint = instance.endpoints.get(fact.endpoint)
    return endpoint is not None and endpoint.is_left_by(fact.boot_epoch)


def wipe_for(step: Step, instance: Instance, fact: f.WorkerConnected) -> None:
    """Another process connects: what the last one held goes before the new one is admitted (E2, E4); with epoch 0 always.

    The last epoch is that of the endpoint's row, which outlives the connection: a process that dies and comes back after its connection
    has ended is another one too (6.9).
    """
    if is_another_process(instance, fact):
        cause = WipeCause.EPOCH_CHANGED if fact.boot_epoch else WipeCause.NO_EPOCH
        _wipe(step, instance.endpoints[fact.endpoint], cause)


def wipe_gone(step: Step, worker: Worker) -> None:
    """The owning connection has ended: what it said goes (O1). Of an endpoint not heard since a restart, it waits for the sweep."""
    endpoint = endpoint_of(step, worker)
    if endpoint.advertised and not is_unconfirmed(step.shard, endpoint):
        _wipe(step, endpoint, WipeCause.DISCONNECTED)


def _wipe(step: Step, endpoint: Endpoint, cause: WipeCause) -> None:
    if has_something(endpoint):
        step.emit(e.LocalityWiped, endpoint.instance, endpoint.endpoint, endpoint.boot_epoch, cause)


def note_flap(step: Step, instance: Instance, name: str) -> None:
    """Warn of an endpoint whose process restarts over and over, once per cool-down (F-2, F-3). Called once another one is admitted."""
    config = instance.config.locality
    endpoint = instance.endpoints[name]
    since_us = step.now_us - config.flap_window_s * SECOND_US
    recent = [at_us for at_us in endpoint.changes if at_us >= since_us]
    if len(recent) < config.flap_threshold:
        return
    flapped_at_us = endpoint.flapped_at_us
    if flapped_at_us is None or step.now_us - flapped_at_us >= config.flap_cooldown_s * SECOND_US:
        step.emit(e.WorkerFlapping, instance.name, name, len(recent), step.now_us - recent[0])


def complete_recovery(step: Step) -> None:
    """At the first fact that came after this leader was elected: unconfirmed endpoints are waited for from now on (PM9)."""
    shard = step.shard
    if shard.recovers_at is None or step.offset < shard.recovers_at:
        return
    unconfirmed = sum(
        has_something(endpoint) and is_unconfirmed(shard, endpoint)
        for instance in shard.instances.values()
        for endpoint in instance.endpoints.values()
    )
    step.emit(e.RecoveryCompleted, shard.elected_seq, unconfirmed)


def sweep(step: Step, endpoint: Endpoint) -> None:
    """Nobody came back for it: forget it (PM9)."""
    shard = step.shard
    if is_waited_for(shard, endpoint):
        cause, since_us = SweepCause.NEVER_RECONNECTED, shard.recovered_at_us
    else:
        cause, since_us = SweepCause.GONE, endpoint.gone_at_us
    waited_us = step.now_us - since_us
    step.emit(e.EndpointSwept, endpoint.instance, endpoint.endpoint, endpoint.boot_epoch, cause, waited_us)
