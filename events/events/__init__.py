"""Events: the truth. One class per message of proto/headway/v1/events.proto, with the same names.

The first three fields are the envelope's: `seq` (from 1, no gaps), `at_us` (the scheduler's now, microseconds) and `cause_offset`
(offset of the fact that caused it). Leader epoch and chain digest are put on by the codec. `dispatch_id` of a dispatch is the `seq`
of its `OperationDispatched`; `operation_id` is the `cause_offset` of its `OperationQueued`.
"""

from events.events.holds import (
    HoldMade,
    HoldMoved,
    HoldNoCandidate,
    HoldReleased,
)
from events.events.locality import (
    BlobsAvailable,
    BlobsEvicted,
    BlobsStable,
    BlobsStableAcknowledged,
    EndpointConfirmed,
    EndpointSwept,
    LocalityWiped,
    PeerFetchFailed,
    StableChunksDropped,
    WorkerFlapping,
)
from events.events.operations import (
    DispatchSettled,
    KillRequested,
    OperationAccepted,
    OperationDispatched,
    OperationFinished,
    OperationQueued,
    OperationReprioritised,
    OperationRequeued,
    OperationsForgotten,
)
from events.events.shard import (
    Configured,
    FactIgnored,
    FactRejected,
    HintsLoaded,
    InstancePaused,
    InstanceResumed,
    KeyParked,
    KeyReleased,
    LeaderElected,
    LogSilent,
    RecoveryCompleted,
    RequirementDefined,
    Ticked,
)
from events.events.snapshots import CheckpointDiverged, Checkpointed, StateDigestNoted
from events.events.waiting import (
    CacheAnswered,
    CacheLookupRequested,
    ClientHeard,
    ClientLeft,
    DemandSatisfiable,
    DemandUnsatisfiable,
    OperationForwarded,
    OperationJoined,
    UpstreamReported,
)
from events.events.workers import (
    WorkerAdmitted,
    WorkerDisconnected,
    WorkerDrained,
    WorkerIdleCapped,
    WorkerReported,
    WorkerUndrained,
)

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
    | RecoveryCompleted
    | BlobsAvailable
    | BlobsEvicted
    | PeerFetchFailed
    | BlobsStable
    | BlobsStableAcknowledged
    | StableChunksDropped
    | LocalityWiped
    | EndpointConfirmed
    | EndpointSwept
    | WorkerFlapping
    | StateDigestNoted
    | Checkpointed
    | CheckpointDiverged
)

EVENT_KINDS: dict[str, type] = {kind.__name__: kind for kind in Event.__args__}
"""Every kind by its name."""

__all__ = [
    "EVENT_KINDS",
    "BlobsAvailable",
    "BlobsEvicted",
    "BlobsStable",
    "BlobsStableAcknowledged",
    "CacheAnswered",
    "CacheLookupRequested",
    "CheckpointDiverged",
    "Checkpointed",
    "ClientHeard",
    "ClientLeft",
    "Configured",
    "DemandSatisfiable",
    "DemandUnsatisfiable",
    "DispatchSettled",
    "EndpointConfirmed",
    "EndpointSwept",
    "Event",
    "FactIgnored",
    "FactRejected",
    "HintsLoaded",
    "HoldMade",
    "HoldMoved",
    "HoldNoCandidate",
    "HoldReleased",
    "InstancePaused",
    "InstanceResumed",
    "KeyParked",
    "KeyReleased",
    "KillRequested",
    "LeaderElected",
    "LocalityWiped",
    "LogSilent",
    "OperationAccepted",
    "OperationDispatched",
    "OperationFinished",
    "OperationForwarded",
    "OperationJoined",
    "OperationQueued",
    "OperationReprioritised",
    "OperationRequeued",
    "OperationsForgotten",
    "PeerFetchFailed",
    "RecoveryCompleted",
    "RequirementDefined",
    "StableChunksDropped",
    "StateDigestNoted",
    "Ticked",
    "UpstreamReported",
    "WorkerAdmitted",
    "WorkerDisconnected",
    "WorkerDrained",
    "WorkerFlapping",
    "WorkerIdleCapped",
    "WorkerReported",
    "WorkerUndrained",
]
