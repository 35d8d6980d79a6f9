"""Events of the life of an operation, from queued to forgotten, and of the runs that are killed on the way."""

from dataclasses import dataclass

from events.reasons import DeclineReason, KillCause, Outcome, RequeueCause, RunResult
from events.values import NO_DIGEST, NO_USAGE, Digest, Holding, QueueOrder, Usage


@dataclass(slots=True)
class OperationQueued:
    """The operation exists and waits; `queued_at_us` is after clamping."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    client_operation_id: str
    requirement_id: int
    priority: int = 0
    queued_at_us: int = 0
    client_id: str = ""
    invocation_id: str = ""
    attached: bool = False
    action_digest: Digest = NO_DIGEST
    cacheable: bool = False
    skip_cache_lookup: bool = False
    timeout_us: int = 0
    expected_duration_us: int = 0
    command: bytes = b""
    target_id: str = ""
    mnemonic: str = ""
    clamped_us: int = 0  # asked minus used
    order: QueueOrder | None = None  # where fairness or aging put it
    asked_requirement_id: int = 0  # before modifiers and hints; 0: as asked

    @property
    def operation_id(self) -> int:
        """The offset of the fact that created it."""
        return self.cause_offset


@dataclass(slots=True)
class OperationDispatched:
    """The assignment itself: `dispatch_id` is `seq`. `overtook` is the first waiting operation that sorts before it."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    endpoint: str
    connection_id: int
    overtook: int | None = None
    backfilled: bool = False
    holders: tuple[Holding, ...] = ()  # of its inputs, the most bytes first: at most 8
    saved_bytes: int = 0  # of its inputs, held by the worker it went to

    @property
    def dispatch_id(self) -> int:
        """The id workers answer with."""
        return self.seq


@dataclass(slots=True)
class OperationAccepted:
    """The worker has taken the dispatch."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    dispatch_id: int


@dataclass(slots=True)
class OperationRequeued:
    """Back in the queue at its old place; the dispatch has ended and its charge is returned. Counters are those after."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    dispatch_id: int
    cause: RequeueCause
    job_failures: int = 0
    worker_losses: int = 0
    free_requeues: int = 0
    message: str = ""
    decline_reason: DeclineReason = DeclineReason.UNSPECIFIED
    needed_kib: int = 0
    free_kib: int = 0
    endpoint: str = ""
    requirement_id: int = 0  # after an escalation; 0: unchanged
    escalations: int = 0


@dataclass(slots=True)
class OperationFinished:
    """The operation ended. Its charge is returned, unless `KillRequested` stands before it: then the run still pays."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    dispatch_id: int  # 0: it was not dispatched
    outcome: Outcome
    exit_code: int = 0
    message: str = ""
    stdout_tail: bytes = b""
    stderr_tail: bytes = b""
    usage: Usage = NO_USAGE
    job_failures: int = 0
    worker_losses: int = 0
    endpoint: str = ""


@dataclass(slots=True)
class OperationReprioritised:
    """Another priority; the queued time stays."""

    seq: int
    at_us: int
    cause_offset: int
    operation_id: int
    priority: int
    order: QueueOrder | None = None  # where fairness or aging puts it now


@dataclass(slots=True)
class OperationsForgotten:
    """The retention of every operation of the instance that finished at or before `through_seq` has ended."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    through_seq: int


@dataclass(slots=True)
class KillRequested:
    """A dispatch is no longer current; its worker still runs it, still pays for it, and is told to stop (K4)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    operation_id: int
    dispatch_id: int
    cause: KillCause


@dataclass(slots=True)
class DispatchSettled:
    """The worker reported on a revoked dispatch: its charge is returned."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    operation_id: int
    dispatch_id: int
    result: RunResult
