"""Digests of the state, as followers report them: compared with each other, never with the leader's own state.

A leader is past `seq` by the time a report comes, and to digest its state it would have to walk every row between two facts. So two folds
of the log are compared, neither of them the leader's, and what the log says of them is what trimming may rely on.
"""

from events import events as e
from events import facts as f
from events.deciding.step import Step
from events.evolving.snapshots import DIGESTS_KEPT
from events.reasons import DigestRole, IgnoreReason
from events.state import DigestReport


def compare_digest(step: Step, fact: f.StateDigested) -> None:
    """Note the first report of a state; compare every other one with it.

    The same digest of another reporter makes the state a checkpoint; another digest, whoever reports it, is a divergence, and no later
    report of that state counts.
    """
    shard = step.shard
    digests = shard.digests
    first = digests.get(fact.seq)
    if fact.seq > shard.seq - len(step.events) or fact.next_fact_offset > step.offset:
        step.ignore(IgnoreReason.DIGEST_AHEAD, key=fact.by)
    elif first is not None:
        _compare(step, fact, first)
    elif len(digests) >= DIGESTS_KEPT and fact.seq < min(digests):
        step.ignore(IgnoreReason.DIGEST_STALE, key=fact.by)
    else:
        step.emit(
            e.StateDigestNoted, fact.seq, fact.state_digest, fact.format, fact.next_fact_offset, fact.by, fact.role
        )


def _compare(step: Step, fact: f.StateDigested, first: DigestReport) -> None:
    """Compare a report with the first one of the same state."""
    if first.agreed is False:
        step.ignore(IgnoreReason.DIGEST_DIVERGED, key=fact.by)
    elif fact.format != first.format:
        step.ignore(IgnoreReason.DIGEST_FORMAT, key=fact.by)
    elif (fact.state_digest, fact.next_fact_offset) != (first.state_digest, first.next_fact_offset):
        step.emit(
            e.CheckpointDiverged,
            fact.seq,
            fact.state_digest,
            fact.format,
            fact.next_fact_offset,
            fact.by,
            fact.role,
            first.state_digest,
            first.next_fact_offset,
            first.by,
        )
    elif first.agreed or fact.by == first.by:
        step.ignore(IgnoreReason.DIGEST_REPEATED, key=fact.by)
    else:
        writer_first = first.role != DigestRole.VERIFIED or fact.role != DigestRole.WRITTEN
        written_by, verified_by = (first.by, fact.by) if writer_first else (fact.by, first.by)
        step.emit(
            e.Checkpointed,
            fact.seq,
            fact.state_digest,
            fact.format,
            fact.next_fact_offset,
            written_by,
            verified_by,
        )
