"""Digests of the state that followers reported, against what the log says of them: agreed, diverged, or no longer counted.

Whether a digest is that of the state cannot be told here: this reading has rows of its own. `headway replay --check` compares.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from projections.verify.case import Case, Off
from projections.verify.catalogue import CHECKPOINTED, READABLE
from projections.verify.turning import ignores
from proto.gen.headway.v1 import reasons_pb2 as r

MOST_STATES = 8
"""States whose first report counts, the newest ones."""

WAITING, AGREED, DIVERGED = range(3)


class Reported(NamedTuple):
    """The first report of a state: its digest and first unanswered fact, of which format, by whom, and what became of it."""

    said: tuple[bytes, int]
    format: int
    by: str
    role: int
    standing: int = WAITING


def digested(case: Case, f: Any) -> None:
    """A follower reports the digest of a state."""
    known = case.shard.digests
    first = known.get(f.seq)
    if f.seq >= case.events[0].seq or f.next_fact_offset > case.offset:
        _ignored(case, r.IGNORE_REASON_DIGEST_AHEAD, f)
    elif first is not None:
        _compared(case, f, first)
    elif len(known) == MOST_STATES and f.seq < min(known):
        _ignored(case, r.IGNORE_REASON_DIGEST_STALE, f)
    else:
        case.expect(
            CHECKPOINTED,
            "state_digest_noted",
            through_seq=f.seq,
            state_digest=f.state_digest,
            format=f.format,
            next_fact_offset=f.next_fact_offset,
            by=f.by,
            role=f.role,
        )


def _ignored(case: Case, reason: int, f: Any) -> None:
    ignores(case, reason, key=f.by, rule=CHECKPOINTED)


def _compared(case: Case, f: Any, first: Reported) -> None:
    said = (f.state_digest, f.next_fact_offset)
    if first.standing == DIVERGED:
        _ignored(case, r.IGNORE_REASON_DIGEST_DIVERGED, f)
    elif f.format != first.format:
        _ignored(case, r.IGNORE_REASON_DIGEST_FORMAT, f)
    elif said != first.said:
        case.expect(
            CHECKPOINTED,
            "checkpoint_diverged",
            through_seq=f.seq,
            state_digest=f.state_digest,
            format=f.format,
            next_fact_offset=f.next_fact_offset,
            by=f.by,
            role=f.role,
            other_digest=first.said[0],
            other_fact_offset=first.said[1],
            other_by=first.by,
        )
    elif f.by == first.by or first.standing == AGREED:
        _ignored(case, r.IGNORE_REASON_DIGEST_REPEATED, f)
    else:
        names = [first.by, f.by]
        if (first.role, f.role) == (r.DIGEST_ROLE_VERIFIED, r.DIGEST_ROLE_WRITTEN):
            names.reverse()
        case.expect(
            CHECKPOINTED,
            "checkpointed",
            through_seq=f.seq,
            state_digest=f.state_digest,
            format=f.format,
            next_fact_offset=f.next_fact_offset,
            written_by=names[0],
            verified_by=names[1],
        )


def _noted(case: Case, p: Any) -> None:
    known = case.shard.digests
    known[p.through_seq] = Reported((p.state_digest, p.next_fact_offset), p.format, p.by, p.role)
    if len(known) > MOST_STATES:
        known.pop(min(known))


def _checkpointed(case: Case, p: Any) -> None:
    _stands(case, p.through_seq, AGREED)


def _diverged(case: Case, p: Any) -> None:
    _stands(case, p.through_seq, DIVERGED)


def _stands(case: Case, seq: int, standing: int) -> None:
    known = case.shard.digests
    if seq not in known:
        raise Off(READABLE, f"a state whose digest was reported, not that after event {seq}")
    known[seq] = known[seq]._replace(standing=standing)


FOLDS_OF_DIGESTS: dict[str, Callable[[Case, Any], None]] = {
    "state_digest_noted": _noted,
    "checkpointed": _checkpointed,
    "checkpoint_diverged": _diverged,
}
