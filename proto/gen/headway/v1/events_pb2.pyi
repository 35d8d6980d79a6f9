from proto.gen.headway.v1 import common_pb2 as _common_pb2
from proto.gen.headway.v1 import facts_pb2 as _facts_pb2
from proto.gen.headway.v1 import reasons_pb2 as _reasons_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ("seq", "cause_offset", "at_us", "leader_epoch", "chain", "leader_elected", "ticked", "log_silent", "fact_ignored", "fact_rejected", "key_parked", "key_released", "configured", "instance_paused", "instance_resumed", "requirement_defined", "operation_queued", "operation_dispatched", "operation_accepted", "operation_requeued", "operation_finished", "operation_reprioritised", "operations_forgotten", "kill_requested", "dispatch_settled", "worker_admitted", "worker_reported", "worker_drained", "worker_undrained", "worker_disconnected", "operation_joined", "client_heard", "client_left", "cache_lookup_requested", "cache_answered", "hints_loaded", "operation_forwarded", "upstream_reported", "demand_unsatisfiable", "demand_satisfiable", "hold_made", "hold_moved", "hold_released", "hold_no_candidate", "worker_idle_capped", "recovery_completed", "blobs_available", "blobs_evicted", "peer_fetch_failed", "blobs_stable", "blobs_stable_acknowledged", "stable_chunks_dropped", "locality_wiped", "endpoint_confirmed", "endpoint_swept", "worker_flapping", "state_digest_noted", "checkpointed", "checkpoint_diverged")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CAUSE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    LEADER_ELECTED_FIELD_NUMBER: _ClassVar[int]
    TICKED_FIELD_NUMBER: _ClassVar[int]
    LOG_SILENT_FIELD_NUMBER: _ClassVar[int]
    FACT_IGNORED_FIELD_NUMBER: _ClassVar[int]
    FACT_REJECTED_FIELD_NUMBER: _ClassVar[int]
    KEY_PARKED_FIELD_NUMBER: _ClassVar[int]
    KEY_RELEASED_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_PAUSED_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_RESUMED_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_DEFINED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_QUEUED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_REQUEUED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FINISHED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_REPRIORITISED_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    KILL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_SETTLED_FIELD_NUMBER: _ClassVar[int]
    WORKER_ADMITTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_REPORTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_DRAINED_FIELD_NUMBER: _ClassVar[int]
    WORKER_UNDRAINED_FIELD_NUMBER: _ClassVar[int]
    WORKER_DISCONNECTED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_JOINED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HEARD_FIELD_NUMBER: _ClassVar[int]
    CLIENT_LEFT_FIELD_NUMBER: _ClassVar[int]
    CACHE_LOOKUP_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    CACHE_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    HINTS_LOADED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FORWARDED_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_REPORTED_FIELD_NUMBER: _ClassVar[int]
    DEMAND_UNSATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    DEMAND_SATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    HOLD_MADE_FIELD_NUMBER: _ClassVar[int]
    HOLD_MOVED_FIELD_NUMBER: _ClassVar[int]
    HOLD_RELEASED_FIELD_NUMBER: _ClassVar[int]
    HOLD_NO_CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    WORKER_IDLE_CAPPED_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    BLOBS_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_EVICTED_FIELD_NUMBER: _ClassVar[int]
    PEER_FETCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    BLOBS_STABLE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_STABLE_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    STABLE_CHUNKS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    LOCALITY_WIPED_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_SWEPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FLAPPING_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_NOTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DIVERGED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    cause_offset: int
    at_us: int
    leader_epoch: int
    chain: bytes
    leader_elected: LeaderElected
    ticked: Ticked
    log_silent: LogSilent
    fact_ignored: FactIgnored
    fact_rejected: FactRejected
    key_parked: KeyParked
    key_released: _facts_pb2.KeyReleased
    configured: _facts_pb2.Configured
    instance_paused: _facts_pb2.InstancePaused
    instance_resumed: _facts_pb2.InstanceResumed
    requirement_defined: RequirementDefined
    operation_queued: OperationQueued
    operation_dispatched: OperationDispatched
    operation_accepted: OperationAccepted
    operation_requeued: OperationRequeued
    operation_finished: OperationFinished
    operation_reprioritised: OperationReprioritised
    operations_forgotten: OperationsForgotten
    kill_requested: KillRequested
    dispatch_settled: DispatchSettled
    worker_admitted: WorkerAdmitted
    worker_reported: _facts_pb2.WorkerReported
    worker_drained: _facts_pb2.WorkerDrained
    worker_undrained: _facts_pb2.WorkerUndrained
    worker_disconnected: WorkerDisconnected
    operation_joined: OperationJoined
    client_heard: _facts_pb2.ClientHeard
    client_left: ClientLeft
    cache_lookup_requested: CacheLookupRequested
    cache_answered: _facts_pb2.CacheAnswered
    hints_loaded: _facts_pb2.HintsLoaded
    operation_forwarded: OperationForwarded
    upstream_reported: _facts_pb2.UpstreamReported
    demand_unsatisfiable: DemandUnsatisfiable
    demand_satisfiable: DemandSatisfiable
    hold_made: HoldMade
    hold_moved: HoldMoved
    hold_released: HoldReleased
    hold_no_candidate: HoldNoCandidate
    worker_idle_capped: WorkerIdleCapped
    recovery_completed: RecoveryCompleted
    blobs_available: _facts_pb2.BlobsAvailable
    blobs_evicted: _facts_pb2.BlobsEvicted
    peer_fetch_failed: _facts_pb2.PeerFetchFailed
    blobs_stable: _facts_pb2.BlobsStable
    blobs_stable_acknowledged: _facts_pb2.BlobsStableAcknowledged
    stable_chunks_dropped: StableChunksDropped
    locality_wiped: LocalityWiped
    endpoint_confirmed: EndpointConfirmed
    endpoint_swept: EndpointSwept
    worker_flapping: WorkerFlapping
    state_digest_noted: StateDigestNoted
    checkpointed: Checkpointed
    checkpoint_diverged: CheckpointDiverged
    def __init__(self, seq: _Optional[int] = ..., cause_offset: _Optional[int] = ..., at_us: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., chain: _Optional[bytes] = ..., leader_elected: _Optional[_Union[LeaderElected, _Mapping]] = ..., ticked: _Optional[_Union[Ticked, _Mapping]] = ..., log_silent: _Optional[_Union[LogSilent, _Mapping]] = ..., fact_ignored: _Optional[_Union[FactIgnored, _Mapping]] = ..., fact_rejected: _Optional[_Union[FactRejected, _Mapping]] = ..., key_parked: _Optional[_Union[KeyParked, _Mapping]] = ..., key_released: _Optional[_Union[_facts_pb2.KeyReleased, _Mapping]] = ..., configured: _Optional[_Union[_facts_pb2.Configured, _Mapping]] = ..., instance_paused: _Optional[_Union[_facts_pb2.InstancePaused, _Mapping]] = ..., instance_resumed: _Optional[_Union[_facts_pb2.InstanceResumed, _Mapping]] = ..., requirement_defined: _Optional[_Union[RequirementDefined, _Mapping]] = ..., operation_queued: _Optional[_Union[OperationQueued, _Mapping]] = ..., operation_dispatched: _Optional[_Union[OperationDispatched, _Mapping]] = ..., operation_accepted: _Optional[_Union[OperationAccepted, _Mapping]] = ..., operation_requeued: _Optional[_Union[OperationRequeued, _Mapping]] = ..., operation_finished: _Optional[_Union[OperationFinished, _Mapping]] = ..., operation_reprioritised: _Optional[_Union[OperationReprioritised, _Mapping]] = ..., operations_forgotten: _Optional[_Union[OperationsForgotten, _Mapping]] = ..., kill_requested: _Optional[_Union[KillRequested, _Mapping]] = ..., dispatch_settled: _Optional[_Union[DispatchSettled, _Mapping]] = ..., worker_admitted: _Optional[_Union[WorkerAdmitted, _Mapping]] = ..., worker_reported: _Optional[_Union[_facts_pb2.WorkerReported, _Mapping]] = ..., worker_drained: _Optional[_Union[_facts_pb2.WorkerDrained, _Mapping]] = ..., worker_undrained: _Optional[_Union[_facts_pb2.WorkerUndrained, _Mapping]] = ..., worker_disconnected: _Optional[_Union[WorkerDisconnected, _Mapping]] = ..., operation_joined: _Optional[_Union[OperationJoined, _Mapping]] = ..., client_heard: _Optional[_Union[_facts_pb2.ClientHeard, _Mapping]] = ..., client_left: _Optional[_Union[ClientLeft, _Mapping]] = ..., cache_lookup_requested: _Optional[_Union[CacheLookupRequested, _Mapping]] = ..., cache_answered: _Optional[_Union[_facts_pb2.CacheAnswered, _Mapping]] = ..., hints_loaded: _Optional[_Union[_facts_pb2.HintsLoaded, _Mapping]] = ..., operation_forwarded: _Optional[_Union[OperationForwarded, _Mapping]] = ..., upstream_reported: _Optional[_Union[_facts_pb2.UpstreamReported, _Mapping]] = ..., demand_unsatisfiable: _Optional[_Union[DemandUnsatisfiable, _Mapping]] = ..., demand_satisfiable: _Optional[_Union[DemandSatisfiable, _Mapping]] = ..., hold_made: _Optional[_Union[HoldMade, _Mapping]] = ..., hold_moved: _Optional[_Union[HoldMoved, _Mapping]] = ..., hold_released: _Optional[_Union[HoldReleased, _Mapping]] = ..., hold_no_candidate: _Optional[_Union[HoldNoCandidate, _Mapping]] = ..., worker_idle_capped: _Optional[_Union[WorkerIdleCapped, _Mapping]] = ..., recovery_completed: _Optional[_Union[RecoveryCompleted, _Mapping]] = ..., blobs_available: _Optional[_Union[_facts_pb2.BlobsAvailable, _Mapping]] = ..., blobs_evicted: _Optional[_Union[_facts_pb2.BlobsEvicted, _Mapping]] = ..., peer_fetch_failed: _Optional[_Union[_facts_pb2.PeerFetchFailed, _Mapping]] = ..., blobs_stable: _Optional[_Union[_facts_pb2.BlobsStable, _Mapping]] = ..., blobs_stable_acknowledged: _Optional[_Union[_facts_pb2.BlobsStableAcknowledged, _Mapping]] = ..., stable_chunks_dropped: _Optional[_Union[StableChunksDropped, _Mapping]] = ..., locality_wiped: _Optional[_Union[LocalityWiped, _Mapping]] = ..., endpoint_confirmed: _Optional[_Union[EndpointConfirmed, _Mapping]] = ..., endpoint_swept: _Optional[_Union[EndpointSwept, _Mapping]] = ..., worker_flapping: _Optional[_Union[WorkerFlapping, _Mapping]] = ..., state_digest_noted: _Optional[_Union[StateDigestNoted, _Mapping]] = ..., checkpointed: _Optional[_Union[Checkpointed, _Mapping]] = ..., checkpoint_diverged: _Optional[_Union[CheckpointDiverged, _Mapping]] = ...) -> None: ...

class LeaderElected(_message.Message):
    __slots__ = ("cluster_id", "facts_topic_id", "events_topic_id", "build", "facts_end")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FACTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    FACTS_END_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    facts_topic_id: str
    events_topic_id: str
    build: str
    facts_end: int
    def __init__(self, cluster_id: _Optional[str] = ..., facts_topic_id: _Optional[str] = ..., events_topic_id: _Optional[str] = ..., build: _Optional[str] = ..., facts_end: _Optional[int] = ...) -> None: ...

class RecoveryCompleted(_message.Message):
    __slots__ = ("elected_seq", "unconfirmed")
    ELECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    elected_seq: int
    unconfirmed: int
    def __init__(self, elected_seq: _Optional[int] = ..., unconfirmed: _Optional[int] = ...) -> None: ...

class Ticked(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogSilent(_message.Message):
    __slots__ = ("gap_us",)
    GAP_US_FIELD_NUMBER: _ClassVar[int]
    gap_us: int
    def __init__(self, gap_us: _Optional[int] = ...) -> None: ...

class FactIgnored(_message.Message):
    __slots__ = ("fact_kind", "reason", "instance", "key", "dispatch_id")
    FACT_KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    fact_kind: str
    reason: _reasons_pb2.IgnoreReason
    instance: str
    key: str
    dispatch_id: int
    def __init__(self, fact_kind: _Optional[str] = ..., reason: _Optional[_Union[_reasons_pb2.IgnoreReason, str]] = ..., instance: _Optional[str] = ..., key: _Optional[str] = ..., dispatch_id: _Optional[int] = ...) -> None: ...

class FactRejected(_message.Message):
    __slots__ = ("fact_kind", "reason", "field", "value", "rule", "instance", "key")
    FACT_KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    fact_kind: str
    reason: _reasons_pb2.RejectReason
    field: str
    value: str
    rule: str
    instance: str
    key: str
    def __init__(self, fact_kind: _Optional[str] = ..., reason: _Optional[_Union[_reasons_pb2.RejectReason, str]] = ..., field: _Optional[str] = ..., value: _Optional[str] = ..., rule: _Optional[str] = ..., instance: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class KeyParked(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class RequirementDefined(_message.Message):
    __slots__ = ("requirement_id", "requirements")
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    requirement_id: int
    requirements: _common_pb2.Requirements
    def __init__(self, requirement_id: _Optional[int] = ..., requirements: _Optional[_Union[_common_pb2.Requirements, _Mapping]] = ...) -> None: ...

class OperationQueued(_message.Message):
    __slots__ = ("instance", "client_operation_id", "client_id", "invocation_id", "attached", "action_digest", "cacheable", "skip_cache_lookup", "priority", "queued_at_us", "requirement_id", "timeout_us", "expected_duration_us", "command", "target_id", "mnemonic", "clamped_us", "order", "asked_requirement_id")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    ACTION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CACHEABLE_FIELD_NUMBER: _ClassVar[int]
    SKIP_CACHE_LOOKUP_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_US_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_DURATION_US_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MNEMONIC_FIELD_NUMBER: _ClassVar[int]
    CLAMPED_US_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ASKED_REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    instance: str
    client_operation_id: str
    client_id: str
    invocation_id: str
    attached: bool
    action_digest: _common_pb2.Digest
    cacheable: bool
    skip_cache_lookup: bool
    priority: int
    queued_at_us: int
    requirement_id: int
    timeout_us: int
    expected_duration_us: int
    command: _common_pb2.Command
    target_id: str
    mnemonic: str
    clamped_us: int
    order: QueueOrder
    asked_requirement_id: int
    def __init__(self, instance: _Optional[str] = ..., client_operation_id: _Optional[str] = ..., client_id: _Optional[str] = ..., invocation_id: _Optional[str] = ..., attached: _Optional[bool] = ..., action_digest: _Optional[_Union[_common_pb2.Digest, _Mapping]] = ..., cacheable: _Optional[bool] = ..., skip_cache_lookup: _Optional[bool] = ..., priority: _Optional[int] = ..., queued_at_us: _Optional[int] = ..., requirement_id: _Optional[int] = ..., timeout_us: _Optional[int] = ..., expected_duration_us: _Optional[int] = ..., command: _Optional[_Union[_common_pb2.Command, _Mapping]] = ..., target_id: _Optional[str] = ..., mnemonic: _Optional[str] = ..., clamped_us: _Optional[int] = ..., order: _Optional[_Union[QueueOrder, _Mapping]] = ..., asked_requirement_id: _Optional[int] = ...) -> None: ...

class QueueOrder(_message.Message):
    __slots__ = ("priority", "time_us", "share_of", "cost_us")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    SHARE_OF_FIELD_NUMBER: _ClassVar[int]
    COST_US_FIELD_NUMBER: _ClassVar[int]
    priority: int
    time_us: int
    share_of: str
    cost_us: int
    def __init__(self, priority: _Optional[int] = ..., time_us: _Optional[int] = ..., share_of: _Optional[str] = ..., cost_us: _Optional[int] = ...) -> None: ...

class OperationDispatched(_message.Message):
    __slots__ = ("operation_id", "endpoint", "connection_id", "overtook", "backfilled", "holders", "saved_bytes")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    OVERTOOK_FIELD_NUMBER: _ClassVar[int]
    BACKFILLED_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    SAVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    endpoint: str
    connection_id: int
    overtook: int
    backfilled: bool
    holders: _containers.RepeatedCompositeFieldContainer[_common_pb2.Holding]
    saved_bytes: int
    def __init__(self, operation_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., overtook: _Optional[int] = ..., backfilled: _Optional[bool] = ..., holders: _Optional[_Iterable[_Union[_common_pb2.Holding, _Mapping]]] = ..., saved_bytes: _Optional[int] = ...) -> None: ...

class OperationAccepted(_message.Message):
    __slots__ = ("operation_id", "dispatch_id")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    dispatch_id: int
    def __init__(self, operation_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ...) -> None: ...

class OperationRequeued(_message.Message):
    __slots__ = ("operation_id", "dispatch_id", "cause", "job_failures", "worker_losses", "free_requeues", "message", "decline_reason", "needed_kib", "free_kib", "endpoint", "requirement_id", "escalations")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    JOB_FAILURES_FIELD_NUMBER: _ClassVar[int]
    WORKER_LOSSES_FIELD_NUMBER: _ClassVar[int]
    FREE_REQUEUES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DECLINE_REASON_FIELD_NUMBER: _ClassVar[int]
    NEEDED_KIB_FIELD_NUMBER: _ClassVar[int]
    FREE_KIB_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    ESCALATIONS_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    dispatch_id: int
    cause: _reasons_pb2.RequeueCause
    job_failures: int
    worker_losses: int
    free_requeues: int
    message: str
    decline_reason: _reasons_pb2.DeclineReason
    needed_kib: int
    free_kib: int
    endpoint: str
    requirement_id: int
    escalations: int
    def __init__(self, operation_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ..., cause: _Optional[_Union[_reasons_pb2.RequeueCause, str]] = ..., job_failures: _Optional[int] = ..., worker_losses: _Optional[int] = ..., free_requeues: _Optional[int] = ..., message: _Optional[str] = ..., decline_reason: _Optional[_Union[_reasons_pb2.DeclineReason, str]] = ..., needed_kib: _Optional[int] = ..., free_kib: _Optional[int] = ..., endpoint: _Optional[str] = ..., requirement_id: _Optional[int] = ..., escalations: _Optional[int] = ...) -> None: ...

class OperationFinished(_message.Message):
    __slots__ = ("operation_id", "dispatch_id", "outcome", "exit_code", "message", "stdout_tail", "stderr_tail", "usage", "job_failures", "worker_losses", "endpoint")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    JOB_FAILURES_FIELD_NUMBER: _ClassVar[int]
    WORKER_LOSSES_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    dispatch_id: int
    outcome: _reasons_pb2.Outcome
    exit_code: int
    message: str
    stdout_tail: bytes
    stderr_tail: bytes
    usage: _common_pb2.ResourceUsage
    job_failures: int
    worker_losses: int
    endpoint: str
    def __init__(self, operation_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ..., outcome: _Optional[_Union[_reasons_pb2.Outcome, str]] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ..., stdout_tail: _Optional[bytes] = ..., stderr_tail: _Optional[bytes] = ..., usage: _Optional[_Union[_common_pb2.ResourceUsage, _Mapping]] = ..., job_failures: _Optional[int] = ..., worker_losses: _Optional[int] = ..., endpoint: _Optional[str] = ...) -> None: ...

class OperationReprioritised(_message.Message):
    __slots__ = ("operation_id", "priority", "order")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    priority: int
    order: QueueOrder
    def __init__(self, operation_id: _Optional[int] = ..., priority: _Optional[int] = ..., order: _Optional[_Union[QueueOrder, _Mapping]] = ...) -> None: ...

class OperationsForgotten(_message.Message):
    __slots__ = ("instance", "through_seq")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    instance: str
    through_seq: int
    def __init__(self, instance: _Optional[str] = ..., through_seq: _Optional[int] = ...) -> None: ...

class KillRequested(_message.Message):
    __slots__ = ("endpoint", "instance", "operation_id", "dispatch_id", "cause")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    instance: str
    operation_id: int
    dispatch_id: int
    cause: _reasons_pb2.KillCause
    def __init__(self, endpoint: _Optional[str] = ..., instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ..., cause: _Optional[_Union[_reasons_pb2.KillCause, str]] = ...) -> None: ...

class DispatchSettled(_message.Message):
    __slots__ = ("endpoint", "instance", "operation_id", "dispatch_id", "result")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    instance: str
    operation_id: int
    dispatch_id: int
    result: _reasons_pb2.RunResult
    def __init__(self, endpoint: _Optional[str] = ..., instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ..., result: _Optional[_Union[_reasons_pb2.RunResult, str]] = ...) -> None: ...

class WorkerAdmitted(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "connection_id", "properties", "max_inflight", "build", "kept", "reconnected", "admits_when_idle", "blobs_url")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    MAX_INFLIGHT_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    RECONNECTED_FIELD_NUMBER: _ClassVar[int]
    ADMITS_WHEN_IDLE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_URL_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.Property]
    max_inflight: int
    build: str
    kept: _containers.RepeatedScalarFieldContainer[int]
    reconnected: bool
    admits_when_idle: bool
    blobs_url: str
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., connection_id: _Optional[int] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.Property, _Mapping]]] = ..., max_inflight: _Optional[int] = ..., build: _Optional[str] = ..., kept: _Optional[_Iterable[int]] = ..., reconnected: _Optional[bool] = ..., admits_when_idle: _Optional[bool] = ..., blobs_url: _Optional[str] = ...) -> None: ...

class WorkerDisconnected(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "reason", "silent_us")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SILENT_US_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    reason: _reasons_pb2.DisconnectReason
    silent_us: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., reason: _Optional[_Union[_reasons_pb2.DisconnectReason, str]] = ..., silent_us: _Optional[int] = ...) -> None: ...

class OperationJoined(_message.Message):
    __slots__ = ("operation_id", "client_operation_id", "client_id", "attached")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    client_operation_id: str
    client_id: str
    attached: bool
    def __init__(self, operation_id: _Optional[int] = ..., client_operation_id: _Optional[str] = ..., client_id: _Optional[str] = ..., attached: _Optional[bool] = ...) -> None: ...

class ClientLeft(_message.Message):
    __slots__ = ("instance", "operation_id", "client_operation_id", "reason", "silent_us")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SILENT_US_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    client_operation_id: str
    reason: _reasons_pb2.ClientLeaving
    silent_us: int
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., client_operation_id: _Optional[str] = ..., reason: _Optional[_Union[_reasons_pb2.ClientLeaving, str]] = ..., silent_us: _Optional[int] = ...) -> None: ...

class CacheLookupRequested(_message.Message):
    __slots__ = ("operation_id", "action_digest")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    action_digest: _common_pb2.Digest
    def __init__(self, operation_id: _Optional[int] = ..., action_digest: _Optional[_Union[_common_pb2.Digest, _Mapping]] = ...) -> None: ...

class OperationForwarded(_message.Message):
    __slots__ = ("operation_id", "upstream")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    upstream: str
    def __init__(self, operation_id: _Optional[int] = ..., upstream: _Optional[str] = ...) -> None: ...

class DemandUnsatisfiable(_message.Message):
    __slots__ = ("instance", "requirement_id", "properties", "no_workers")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    NO_WORKERS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    requirement_id: int
    properties: _containers.RepeatedScalarFieldContainer[str]
    no_workers: bool
    def __init__(self, instance: _Optional[str] = ..., requirement_id: _Optional[int] = ..., properties: _Optional[_Iterable[str]] = ..., no_workers: _Optional[bool] = ...) -> None: ...

class DemandSatisfiable(_message.Message):
    __slots__ = ("instance", "requirement_id")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    instance: str
    requirement_id: int
    def __init__(self, instance: _Optional[str] = ..., requirement_id: _Optional[int] = ...) -> None: ...

class HoldCandidate(_message.Message):
    __slots__ = ("endpoint", "shortfall_milli", "running", "free_at_us")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    SHORTFALL_MILLI_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    FREE_AT_US_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    shortfall_milli: int
    running: int
    free_at_us: int
    def __init__(self, endpoint: _Optional[str] = ..., shortfall_milli: _Optional[int] = ..., running: _Optional[int] = ..., free_at_us: _Optional[int] = ...) -> None: ...

class HoldExclusionCount(_message.Message):
    __slots__ = ("exclusion", "workers")
    EXCLUSION_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    exclusion: _reasons_pb2.HoldExclusion
    workers: int
    def __init__(self, exclusion: _Optional[_Union[_reasons_pb2.HoldExclusion, str]] = ..., workers: _Optional[int] = ...) -> None: ...

class DrainBasis(_message.Message):
    __slots__ = ("source", "kind", "samples", "runs", "last_end_us")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    LAST_END_US_FIELD_NUMBER: _ClassVar[int]
    source: _reasons_pb2.DurationSource
    kind: str
    samples: int
    runs: int
    last_end_us: int
    def __init__(self, source: _Optional[_Union[_reasons_pb2.DurationSource, str]] = ..., kind: _Optional[str] = ..., samples: _Optional[int] = ..., runs: _Optional[int] = ..., last_end_us: _Optional[int] = ...) -> None: ...

class HoldMade(_message.Message):
    __slots__ = ("instance", "operation_id", "endpoint", "requirement_id", "waited_us", "overtaken_by", "candidates", "more_candidates", "excluded", "free_at_us", "basis")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    WAITED_US_FIELD_NUMBER: _ClassVar[int]
    OVERTAKEN_BY_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    MORE_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    FREE_AT_US_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    endpoint: str
    requirement_id: int
    waited_us: int
    overtaken_by: int
    candidates: _containers.RepeatedCompositeFieldContainer[HoldCandidate]
    more_candidates: int
    excluded: _containers.RepeatedCompositeFieldContainer[HoldExclusionCount]
    free_at_us: int
    basis: _containers.RepeatedCompositeFieldContainer[DrainBasis]
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., requirement_id: _Optional[int] = ..., waited_us: _Optional[int] = ..., overtaken_by: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[HoldCandidate, _Mapping]]] = ..., more_candidates: _Optional[int] = ..., excluded: _Optional[_Iterable[_Union[HoldExclusionCount, _Mapping]]] = ..., free_at_us: _Optional[int] = ..., basis: _Optional[_Iterable[_Union[DrainBasis, _Mapping]]] = ...) -> None: ...

class HoldMoved(_message.Message):
    __slots__ = ("instance", "operation_id", "from_endpoint", "to_endpoint", "cause", "candidates", "more_candidates", "excluded", "free_at_us", "basis")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    TO_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    MORE_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    FREE_AT_US_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    from_endpoint: str
    to_endpoint: str
    cause: _reasons_pb2.HoldMove
    candidates: _containers.RepeatedCompositeFieldContainer[HoldCandidate]
    more_candidates: int
    excluded: _containers.RepeatedCompositeFieldContainer[HoldExclusionCount]
    free_at_us: int
    basis: _containers.RepeatedCompositeFieldContainer[DrainBasis]
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., from_endpoint: _Optional[str] = ..., to_endpoint: _Optional[str] = ..., cause: _Optional[_Union[_reasons_pb2.HoldMove, str]] = ..., candidates: _Optional[_Iterable[_Union[HoldCandidate, _Mapping]]] = ..., more_candidates: _Optional[int] = ..., excluded: _Optional[_Iterable[_Union[HoldExclusionCount, _Mapping]]] = ..., free_at_us: _Optional[int] = ..., basis: _Optional[_Iterable[_Union[DrainBasis, _Mapping]]] = ...) -> None: ...

class HoldReleased(_message.Message):
    __slots__ = ("instance", "operation_id", "endpoint", "reason", "held_us")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HELD_US_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    endpoint: str
    reason: _reasons_pb2.HoldEnd
    held_us: int
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., reason: _Optional[_Union[_reasons_pb2.HoldEnd, str]] = ..., held_us: _Optional[int] = ...) -> None: ...

class HoldNoCandidate(_message.Message):
    __slots__ = ("instance", "operation_id", "waited_us", "excluded")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    WAITED_US_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    waited_us: int
    excluded: _containers.RepeatedCompositeFieldContainer[HoldExclusionCount]
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., waited_us: _Optional[int] = ..., excluded: _Optional[_Iterable[_Union[HoldExclusionCount, _Mapping]]] = ...) -> None: ...

class WorkerIdleCapped(_message.Message):
    __slots__ = ("instance", "endpoint", "idle_free_kib")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    IDLE_FREE_KIB_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    idle_free_kib: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., idle_free_kib: _Optional[int] = ...) -> None: ...

class LocalityWiped(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "cause")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    cause: _reasons_pb2.WipeCause
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., cause: _Optional[_Union[_reasons_pb2.WipeCause, str]] = ...) -> None: ...

class EndpointConfirmed(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ...) -> None: ...

class EndpointSwept(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "cause", "waited_us")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    WAITED_US_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    cause: _reasons_pb2.SweepCause
    waited_us: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., cause: _Optional[_Union[_reasons_pb2.SweepCause, str]] = ..., waited_us: _Optional[int] = ...) -> None: ...

class WorkerFlapping(_message.Message):
    __slots__ = ("instance", "endpoint", "changes", "within_us")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    WITHIN_US_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    changes: int
    within_us: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., changes: _Optional[int] = ..., within_us: _Optional[int] = ...) -> None: ...

class StableChunksDropped(_message.Message):
    __slots__ = ("instance", "endpoint", "through_seq", "chunks")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    through_seq: int
    chunks: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., through_seq: _Optional[int] = ..., chunks: _Optional[int] = ...) -> None: ...

class StateDigestNoted(_message.Message):
    __slots__ = ("through_seq", "state_digest", "format", "next_fact_offset", "by", "role")
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    through_seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    by: str
    role: _reasons_pb2.DigestRole
    def __init__(self, through_seq: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., format: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., by: _Optional[str] = ..., role: _Optional[_Union[_reasons_pb2.DigestRole, str]] = ...) -> None: ...

class Checkpointed(_message.Message):
    __slots__ = ("through_seq", "state_digest", "format", "next_fact_offset", "written_by", "verified_by")
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BY_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_BY_FIELD_NUMBER: _ClassVar[int]
    through_seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    written_by: str
    verified_by: str
    def __init__(self, through_seq: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., format: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., written_by: _Optional[str] = ..., verified_by: _Optional[str] = ...) -> None: ...

class CheckpointDiverged(_message.Message):
    __slots__ = ("through_seq", "state_digest", "format", "next_fact_offset", "by", "role", "other_digest", "other_fact_offset", "other_by")
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    OTHER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OTHER_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OTHER_BY_FIELD_NUMBER: _ClassVar[int]
    through_seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    by: str
    role: _reasons_pb2.DigestRole
    other_digest: bytes
    other_fact_offset: int
    other_by: str
    def __init__(self, through_seq: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., format: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., by: _Optional[str] = ..., role: _Optional[_Union[_reasons_pb2.DigestRole, str]] = ..., other_digest: _Optional[bytes] = ..., other_fact_offset: _Optional[int] = ..., other_by: _Optional[str] = ...) -> None: ...
