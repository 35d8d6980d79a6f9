"""Events of who waits for an operation, and of what else it waits for: the cache, another scheduler, a capable worker."""

from dataclasses import dataclass

from events.reasons import CacheAnswer, ClientLeaving, Outcome, UpstreamState
from events.values import NO_DIGEST, Digest


@dataclass(slots=True)
class OperationJoined:
    """An identical cacheable action is live: this client waits for the same operation under its own id (J2)."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    client_operation_id: str
    client_id: str = ""
    attached: bool = False


@dataclass(slots=True)
class ClientHeard:
    """A client is still there."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    client_operation_id: str


@dataclass(slots=True)
class ClientLeft:
    """A client no longer waits for the operation."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    operation_id: int
    client_operation_id: str
    reason: ClientLeaving
    silent_us: int = 0


@dataclass(slots=True)
class CacheLookupRequested:
    """The operation waits for the cache edge; it is not in the queue yet (D1)."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    action_digest: Digest = NO_DIGEST


@dataclass(slots=True)
class CacheAnswered:
    """The cache edge answered; a miss puts the operation into the queue."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    operation_id: int
    answer: CacheAnswer
    exit_code: int = 0
    message: str = ""


@dataclass(slots=True)
class OperationForwarded:
    """The operation was handed to another scheduler."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    upstream: str


@dataclass(slots=True)
class UpstreamReported:
    """What became of a forwarded operation upstream."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    operation_id: int
    state: UpstreamState
    outcome: Outcome = Outcome.UNSPECIFIED
    exit_code: int = 0
    message: str = ""


@dataclass(slots=True)
class DemandUnsatisfiable:
    """No connected worker could run operations with this requirement even if idle (X2)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    requirement_id: int
    properties: tuple[str, ...] = ()
    no_workers: bool = False


@dataclass(slots=True)
class DemandSatisfiable:
    """A worker that could run it is connected again."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    requirement_id: int
