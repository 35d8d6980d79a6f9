"""Stable blobs: chunks that say which blobs are in durable storage, sent to every worker until it acknowledges them (6.4)."""

from itertools import islice

from events import events as e
from events import facts as f
from events.deciding.locality import confirm, endpoint_of
from events.deciding.step import Step
from events.reasons import IgnoreReason, RejectReason


def announce(step: Step, fact: f.BlobsStable) -> None:
    """Take a chunk of a broadcast, in order only; its store is the same on every chunk (S-1, S-8)."""
    instance = step.instance_of(fact.instance, "")
    if instance is None:
        return
    broadcast = instance.broadcasts.get(fact.broadcast)
    expected = 0 if broadcast is None else broadcast.next_sequence
    if fact.sequence < expected:
        step.ignore(IgnoreReason.DUPLICATE_CHUNK, fact.instance)
    elif fact.sequence > expected or (broadcast is not None and broadcast.finished):
        step.ignore(IgnoreReason.CHUNK_OUT_OF_ORDER, fact.instance)
    elif broadcast is not None and broadcast.store != fact.store:
        rule = f"{broadcast.store!r}, as on the chunks of this broadcast before it"
        step.reject(RejectReason.INVALID_FIELD, "store", fact.store, rule, fact.instance)
    else:
        step.emit(e.BlobsStable, fact.instance, fact.broadcast, fact.sequence, fact.last, fact.store, fact.digests)
        _drop_beyond_limit(step, fact.instance)


def _drop_beyond_limit(step: Step, name: str) -> None:
    """An endpoint that does not acknowledge must not keep chunks for ever: the oldest beyond the limit are given up."""
    instance = step.shard.instances[name]
    limit = instance.config.locality.max_unacknowledged_chunks
    for worker in list(instance.workers.values()):
        waiting = instance.endpoints[worker.endpoint].unacknowledged
        if waiting is not None and len(waiting) > limit:
            surplus = len(waiting) - limit
            through_seq = next(islice(waiting, surplus - 1, None))
            step.emit(e.StableChunksDropped, name, worker.endpoint, through_seq, surplus)


def acknowledge(step: Step, fact: f.BlobsStableAcknowledged) -> None:
    """The worker has taken a chunk: it is not sent to it again (S-4)."""
    worker = step.worker_of(fact.instance, fact.endpoint, fact.connection_id)
    if worker is None:
        return
    waiting = endpoint_of(step, worker).unacknowledged
    if waiting is None or fact.chunk_seq not in waiting:
        step.ignore(IgnoreReason.NOT_SENT, fact.instance, fact.endpoint)
    else:
        confirm(step, worker)
        step.emit(e.BlobsStableAcknowledged, fact.instance, fact.endpoint, fact.connection_id, fact.chunk_seq)
