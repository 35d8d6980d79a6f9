"""Folds of what is known of endpoints: their reports, the chunks they owe acknowledgements for, their process, and their end."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from events import events as e
from events.indexing import arm_endpoint, arm_endpoints
from events.reasons import WipeCause
from events.state import Broadcast, Endpoint, Instance, Report, Shard, StableChunk, Worker

RESENT_AT_ONCE = 8
"""Chunks sent again when a worker reconnects; each acknowledgement brings the next, so that no transaction grows with what waits."""

BROADCASTS_KEPT = 64
"""Broadcasts whose progress is remembered, finished ones too: a chunk of an older one that comes twice counts as a new one."""


def admit_endpoint(shard: Shard, instance: Instance, event: e.WorkerAdmitted) -> None:
    """The connection owns the endpoint from now on, and its process is known (E2, F-2)."""
    endpoint = instance.endpoints.get(event.endpoint)
    if endpoint is None:
        endpoint = instance.endpoints[event.endpoint] = Endpoint(
            event.instance, event.endpoint, event.boot_epoch, event.connection_id, shard.leader_epoch
        )
    elif endpoint.is_left_by(event.boot_epoch):
        endpoint.changes = (*endpoint.changes, event.at_us)[-instance.config.locality.flap_threshold :]
    endpoint.boot_epoch = event.boot_epoch
    endpoint.connection_id = event.connection_id
    endpoint.confirmed_in = shard.leader_epoch
    endpoint.gone_at_us = 0
    endpoint.report = Report()  # report numbers begin anew with the connection; an unfinished report is abandoned
    waiting = endpoint.unacknowledged
    endpoint.due = () if waiting is None else tuple(islice(waiting, RESENT_AT_ONCE))
    endpoint.resent_through = endpoint.due[-1] if endpoint.due else 0
    endpoint.owed_through = next(reversed(waiting)) if waiting else 0


def leave_endpoint(shard: Shard, instance: Instance, worker: Worker, at_us: int) -> None:
    """Nobody owns the endpoint any more; its row stays, with its last epoch (6.9) and its flaps (F-1)."""
    endpoint = instance.endpoints[worker.endpoint]
    endpoint.connection_id = 0
    endpoint.gone_at_us = at_us
    if shard.live:
        arm_endpoint(shard, instance, endpoint)


def silence_endpoints(instance: Instance, gap_us: int) -> None:
    """Nobody could write for so long: nobody could come back either."""
    for endpoint in instance.endpoints.values():
        if endpoint.gone_at_us:
            endpoint.gone_at_us += gap_us


def _blobs_available(shard: Shard, event: e.BlobsAvailable) -> None:
    endpoint = shard.instances[event.instance].endpoints[event.endpoint]
    endpoint.advertised = True
    endpoint.report = Report(event.report, event.chunk + 1, event.full, not event.last)


def _blobs_evicted(shard: Shard, event: e.BlobsEvicted) -> None:
    """Which blobs an endpoint holds is no part of this state."""


def _peer_fetch_failed(shard: Shard, event: e.PeerFetchFailed) -> None:
    """Which blobs an endpoint holds is no part of this state."""


def _blobs_stable(shard: Shard, event: e.BlobsStable) -> None:
    instance = shard.instances[event.instance]
    broadcasts = instance.broadcasts
    broadcasts.pop(event.broadcast, None)  # the latest stands last
    broadcasts[event.broadcast] = Broadcast(event.sequence + 1, event.store, event.last)
    if len(broadcasts) > BROADCASTS_KEPT:
        del broadcasts[next(iter(broadcasts))]
    chunk = StableChunk(
        event.seq, event.broadcast, event.sequence, event.last, event.store, event.digests, len(instance.workers)
    )
    for worker in instance.workers.values():
        endpoint = instance.endpoints[worker.endpoint]
        if endpoint.unacknowledged is None:
            endpoint.unacknowledged = {}
        endpoint.unacknowledged[event.seq] = None
    if chunk.waiting:
        instance.stable[event.seq] = chunk


def _acknowledged(shard: Shard, event: e.BlobsStableAcknowledged) -> None:
    instance = shard.instances[event.instance]
    endpoint = instance.endpoints[event.endpoint]
    _let_go(instance, endpoint, (event.chunk_seq,))
    _resend_next(endpoint, int(event.chunk_seq <= endpoint.resent_through))


def _chunks_dropped(shard: Shard, event: e.StableChunksDropped) -> None:
    instance = shard.instances[event.instance]
    endpoint = instance.endpoints[event.endpoint]
    dropped = [seq for seq in endpoint.unacknowledged or () if seq <= event.through_seq]
    _let_go(instance, endpoint, dropped)
    # Nobody will acknowledge those that were on their way again, so others go out in their place.
    _resend_next(endpoint, sum(seq <= endpoint.resent_through for seq in dropped))


def _resend_next(endpoint: Endpoint, chunks: int) -> None:
    """So many of those sent again wait no more: as many others that were sent before this connection go out (S-5)."""
    waiting = endpoint.unacknowledged or ()
    later = (seq for seq in waiting if endpoint.resent_through < seq <= endpoint.owed_through)
    endpoint.due = tuple(islice(later, chunks))
    if endpoint.due:
        endpoint.resent_through = endpoint.due[-1]


def _let_go(instance: Instance, endpoint: Endpoint, seqs: Iterable[int]) -> None:
    """These chunks no longer wait for the endpoint; one that waits for nobody is forgotten, and so is an empty list (S-4)."""
    waiting = endpoint.unacknowledged
    if waiting is None:
        return
    for seq in seqs:
        del waiting[seq]
        chunk = instance.stable[seq]
        chunk.waiting -= 1
        if not chunk.waiting:
            del instance.stable[seq]
    if not waiting:
        endpoint.unacknowledged = None
    endpoint.due = ()


def _locality_wiped(shard: Shard, event: e.LocalityWiped) -> None:
    instance = shard.instances[event.instance]
    endpoint = instance.endpoints[event.endpoint]
    endpoint.advertised = False
    if event.cause is not WipeCause.DISCONNECTED:  # the process is gone, and what it kept for others with it (S-6)
        _let_go(instance, endpoint, list(endpoint.unacknowledged or ()))


def _endpoint_confirmed(shard: Shard, event: e.EndpointConfirmed) -> None:
    shard.instances[event.instance].endpoints[event.endpoint].confirmed_in = shard.leader_epoch


def _endpoint_swept(shard: Shard, event: e.EndpointSwept) -> None:
    instance = shard.instances[event.instance]
    endpoint = instance.endpoints[event.endpoint]
    _let_go(instance, endpoint, list(endpoint.unacknowledged or ()))
    del instance.endpoints[event.endpoint]


def _worker_flapping(shard: Shard, event: e.WorkerFlapping) -> None:
    shard.instances[event.instance].endpoints[event.endpoint].flapped_at_us = event.at_us


def _recovery_completed(shard: Shard, event: e.RecoveryCompleted) -> None:
    shard.recovers_at = None
    shard.recovered_at_us = event.at_us
    if shard.live:
        arm_endpoints(shard)


LOCALITY_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.BlobsAvailable: _blobs_available,
    e.BlobsEvicted: _blobs_evicted,
    e.PeerFetchFailed: _peer_fetch_failed,
    e.BlobsStable: _blobs_stable,
    e.BlobsStableAcknowledged: _acknowledged,
    e.StableChunksDropped: _chunks_dropped,
    e.LocalityWiped: _locality_wiped,
    e.EndpointConfirmed: _endpoint_confirmed,
    e.EndpointSwept: _endpoint_swept,
    e.WorkerFlapping: _worker_flapping,
    e.RecoveryCompleted: _recovery_completed,
}
