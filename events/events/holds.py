"""Events of the head-of-line hold."""

from dataclasses import dataclass

from events.reasons import HoldEnd, HoldMove
from events.values import DrainBasis, HoldCandidate, HoldExclusionCount


@dataclass(slots=True)
class HoldMade:
    """A busy worker is held for the operation at the head of the queue (H1-H7)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    operation_id: int
    endpoint: str
    requirement_id: int
    waited_us: int
    overtaken_by: int | None = None
    candidates: tuple[HoldCandidate, ...] = ()
    more_candidates: int = 0
    excluded: tuple[HoldExclusionCount, ...] = ()
    free_at_us: int = 0
    basis: tuple[DrainBasis, ...] = ()


@dataclass(slots=True)
class HoldMoved:
    """Another worker is held for the same operation."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    operation_id: int
    from_endpoint: str
    to_endpoint: str
    cause: HoldMove
    candidates: tuple[HoldCandidate, ...] = ()
    more_candidates: int = 0
    excluded: tuple[HoldExclusionCount, ...] = ()
    free_at_us: int = 0
    basis: tuple[DrainBasis, ...] = ()


@dataclass(slots=True)
class HoldReleased:
    """The hold ended."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    operation_id: int
    endpoint: str
    reason: HoldEnd
    held_us: int = 0


@dataclass(slots=True)
class HoldNoCandidate:
    """The head has waited and was overtaken, but no worker can be held for it (H14)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    operation_id: int
    waited_us: int
    excluded: tuple[HoldExclusionCount, ...] = ()
