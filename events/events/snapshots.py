"""Events of what followers find the state of the shard to be: digests, and whether two folds of the log agree."""

from dataclasses import dataclass

from events.reasons import DigestRole


@dataclass(slots=True)
class StateDigestNoted:
    """The first report of the digest of the state after event `through_seq`; another fold's is compared with it."""

    seq: int
    at_us: int
    cause_offset: int
    through_seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    by: str
    role: DigestRole


@dataclass(slots=True)
class Checkpointed:
    """Two folds agree on the state after event `through_seq`: a snapshot with this digest may be trusted.

    Whoever has it needs no fact before `next_fact_offset`.
    """

    seq: int
    at_us: int
    cause_offset: int
    through_seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    written_by: str
    verified_by: str


@dataclass(slots=True)
class CheckpointDiverged:
    """Two folds differ in the state after event `through_seq`: one of them is wrong, and no snapshot of it may be trusted."""

    seq: int
    at_us: int
    cause_offset: int
    through_seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    by: str
    role: DigestRole
    other_digest: bytes  # of the first report
    other_fact_offset: int
    other_by: str
