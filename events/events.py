"""Events: the truth. One class per message of proto/headway/v1/events.proto, with the same names.

The first three fields are the envelope's: `seq` (from 1, no gaps), `at_us` (the scheduler's now, microseconds) and `cause_offset`
(offset of the fact that caused it). Leader epoch and chain digest are put on by the codec. `dispatch_id` of a dispatch is the `seq`
of its `OperationDispatched`; `operation_id` is the `cause_offset` of its `OperationQueued`.
"""

from dataclasses import dataclass

from events.reasons import (
    CacheAnswer,
    ClientLeaving,
    DeclineReason,
    DisconnectReason,
    HoldEnd,
    HoldMove,
    IgnoreReason,
    KillCause,
    Outcome,
    RejectReason,
    RequeueCause,
    RunResult,
    UpstreamState,
)
from events.values import (
    NO_DIGEST,
    NO_USAGE,
    Digest,
    HoldCandidate,
    HoldExclusionCount,
    Properties,
    QueueOrder,
    ResourceHint,
    Usage,
)


@dataclass(slots=True)
class LeaderElected:
    """A decider became the owner of the shard; not caused by a fact, so `cause_offset` repeats the position."""

    seq: int
    at_us: int
    cause_offset: int
    leader_epoch: int
    cluster_id: str = ""
    facts_topic_id: str = ""
    events_topic_id: str = ""
    build: str = ""


@dataclass(slots=True)
class Ticked:
    """Time passed."""

    seq: int
    at_us: int
    cause_offset: int


@dataclass(slots=True)
class LogSilent:
    """Nobody could write for `gap_us`: every liveness deadline moves by it (design: time)."""

    seq: int
    at_us: int
    cause_offset: int
    gap_us: int


@dataclass(slots=True)
class FactIgnored:
    """A duplicate, stale or foreign fact: nothing changed."""

    seq: int
    at_us: int
    cause_offset: int
    fact_kind: str
    reason: IgnoreReason
    instance: str = ""
    key: str = ""
    dispatch_id: int = 0


@dataclass(slots=True)
class FactRejected:
    """An invalid fact; its raw bytes stand in the dead letters."""

    seq: int
    at_us: int
    cause_offset: int
    fact_kind: str
    reason: RejectReason
    field: str = ""
    value: str = ""
    rule: str = ""
    instance: str = ""
    key: str = ""


@dataclass(slots=True)
class KeyParked:
    """A fact with this key could not be decided: later ones wait in the dead letters until the key is released."""

    seq: int
    at_us: int
    cause_offset: int
    key: str


@dataclass(slots=True)
class KeyReleased:
    """The key is taken again."""

    seq: int
    at_us: int
    cause_offset: int
    key: str


@dataclass(slots=True)
class Configured:
    """The configuration in force from here on, as canonical JSON."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    config_json: str


@dataclass(slots=True)
class InstancePaused:
    """Nothing is placed in this instance."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str


@dataclass(slots=True)
class InstanceResumed:
    """Placing goes on."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str


@dataclass(slots=True)
class RequirementDefined:
    """Requirements get a number before their first use; `requirements` are canonical bytes."""

    seq: int
    at_us: int
    cause_offset: int
    requirement_id: int
    requirements: bytes


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


@dataclass(slots=True)
class WorkerAdmitted:
    """A worker is connected; `kept` are the dispatches that go on, every other one of this endpoint has ended before."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    properties: Properties = ()
    max_inflight: int = 0
    build: str = ""
    kept: tuple[int, ...] = ()
    reconnected: bool = False
    admits_when_idle: bool = False


@dataclass(slots=True)
class WorkerReported:
    """A keepalive was heard."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    connection_id: int
    free_memory_kib: int | None = None


@dataclass(slots=True)
class WorkerDrained:
    """No new work for this worker."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str


@dataclass(slots=True)
class WorkerUndrained:
    """The worker takes work again."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str


@dataclass(slots=True)
class WorkerDisconnected:
    """The worker is out; all its dispatches have ended."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    connection_id: int
    reason: DisconnectReason
    silent_us: int = 0


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
class HintsLoaded:
    """Resource hints in force from here on (D3)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    hints: tuple[ResourceHint, ...] = ()


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


@dataclass(slots=True)
class WorkerIdleCapped:
    """What the worker reports free while idle caps what a drain is expected to free from now on (H12, H20)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    idle_free_kib: int


Event = (
    LeaderElected
    | Ticked
    | LogSilent
    | FactIgnored
    | FactRejected
    | KeyParked
    | KeyReleased
    | Configured
    | InstancePaused
    | InstanceResumed
    | RequirementDefined
    | OperationQueued
    | OperationDispatched
    | OperationAccepted
    | OperationRequeued
    | OperationFinished
    | OperationReprioritised
    | OperationsForgotten
    | KillRequested
    | DispatchSettled
    | WorkerAdmitted
    | WorkerReported
    | WorkerDrained
    | WorkerUndrained
    | WorkerDisconnected
    | OperationJoined
    | ClientHeard
    | ClientLeft
    | CacheLookupRequested
    | CacheAnswered
    | HintsLoaded
    | OperationForwarded
    | UpstreamReported
    | DemandUnsatisfiable
    | DemandSatisfiable
    | HoldMade
    | HoldMoved
    | HoldReleased
    | HoldNoCandidate
    | WorkerIdleCapped
)

EVENT_KINDS: dict[str, type] = {kind.__name__: kind for kind in Event.__args__}
"""Every kind by its name."""
