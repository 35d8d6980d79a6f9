"""Values that facts, events and rows share."""

from typing import NamedTuple

from events.reasons import DurationSource, HoldExclusion

U63_MAX = 2**63 - 1


class Digest(NamedTuple):
    """A content digest: raw hash bytes and the content's size in bytes."""

    hash: bytes
    size_bytes: int

    def __str__(self) -> str:
        return f"{self.hash.hex()}/{self.size_bytes}"


class Usage(NamedTuple):
    """What a run used; 0 means not measured."""

    wall_us: int = 0
    cpu_us: int = 0
    peak_memory_kib: int = 0


class ResourceHint(NamedTuple):
    """What actions of a kind have needed before; 0 means no hint (D3)."""

    target_id: str = ""
    mnemonic: str = ""
    cpu_millis: int = 0
    memory_kib: int = 0


class QueueOrder(NamedTuple):
    """How fairness or aging ordered an operation: operations sort by (priority, time_us, operation_id)."""

    priority: int
    time_us: int
    share_of: str = ""
    cost_us: int = 0


class HoldCandidate(NamedTuple):
    """One worker that could be held: what it was short of, in thousandths of what it registered, summed over the minimums."""

    endpoint: str
    shortfall_milli: int = 0
    running: int = 0
    free_at_us: int = 0


class DrainBasis(NamedTuple):
    """Runs of one kind that a worker has to finish before it has room, and how it is known when that will be."""

    source: DurationSource
    kind: str = ""  # the mnemonic, the target or the requirement id
    samples: int = 0  # recorded runs
    runs: int = 0  # of this kind on the worker
    last_end_us: int = 0  # when the last of them is expected to end; 0: not known


class HoldExclusionCount(NamedTuple):
    """So many workers could not be held, for this reason."""

    exclusion: HoldExclusion
    workers: int


class Holding(NamedTuple):
    """How many bytes of an action's inputs an endpoint holds."""

    endpoint: str
    bytes: int


NO_DIGEST = Digest(b"", 0)
NO_USAGE = Usage()

Properties = tuple[tuple[str, str], ...]
"""Name-value pairs, sorted by name, no name twice."""
