"""Folds of what followers find the state to be: which digests were reported, and what two folds agree on."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.state import Checkpoint, DigestReport, Divergence, Shard

DIGESTS_KEPT = 8
"""States whose first report is remembered, the newest ones: a follower that is further behind reports in vain."""


def _state_digest_noted(shard: Shard, event: e.StateDigestNoted) -> None:
    digests = shard.digests
    digests[event.through_seq] = DigestReport(
        event.state_digest, event.format, event.next_fact_offset, event.by, event.role
    )
    if len(digests) > DIGESTS_KEPT:
        del digests[min(digests)]


def _checkpointed(shard: Shard, event: e.Checkpointed) -> None:
    _judge(shard, event.through_seq, agreed=True)
    if shard.checkpoint is None or shard.checkpoint.seq < event.through_seq:
        shard.checkpoint = Checkpoint(
            event.through_seq,
            event.state_digest,
            event.format,
            event.next_fact_offset,
            event.written_by,
            event.verified_by,
            event.at_us,
        )


def _checkpoint_diverged(shard: Shard, event: e.CheckpointDiverged) -> None:
    _judge(shard, event.through_seq, agreed=False)
    shard.divergence = Divergence(event.through_seq, event.by, event.other_by, event.at_us)
    if shard.checkpoint is not None and shard.checkpoint.seq == event.through_seq:
        shard.checkpoint = None  # two agreed and a third does not: which of them is wrong is not known


def _judge(shard: Shard, seq: int, *, agreed: bool) -> None:
    report = shard.digests.get(seq)
    if report is not None:  # no decider writes the other case; a fold has no opinion on it
        shard.digests[seq] = report._replace(agreed=agreed)


SNAPSHOTS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.StateDigestNoted: _state_digest_noted,
    e.Checkpointed: _checkpointed,
    e.CheckpointDiverged: _checkpoint_diverged,
}
