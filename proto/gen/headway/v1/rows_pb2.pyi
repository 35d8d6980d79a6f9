from proto.gen.headway.v1 import common_pb2 as _common_pb2
from proto.gen.headway.v1 import events_pb2 as _events_pb2
from proto.gen.headway.v1 import reasons_pb2 as _reasons_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNSPECIFIED: _ClassVar[Stage]
    STAGE_QUEUED: _ClassVar[Stage]
    STAGE_EXECUTING: _ClassVar[Stage]
    STAGE_FINISHED: _ClassVar[Stage]
    STAGE_CACHE_CHECK: _ClassVar[Stage]
    STAGE_FORWARDED: _ClassVar[Stage]
STAGE_UNSPECIFIED: Stage
STAGE_QUEUED: Stage
STAGE_EXECUTING: Stage
STAGE_FINISHED: Stage
STAGE_CACHE_CHECK: Stage
STAGE_FORWARDED: Stage

class ShardRow(_message.Message):
    __slots__ = ("seq", "next_offset", "events", "chain", "now_us", "leader_epoch", "elections", "elected_at_us", "facts_position", "cluster_id", "facts_topic_id", "events_topic_id", "build", "stale_events", "silences", "silent_us", "elected_seq", "recovering", "recovered_at_us", "unconfirmed", "checkpoint", "divergence")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ELECTIONS_FIELD_NUMBER: _ClassVar[int]
    ELECTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    FACTS_POSITION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FACTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    STALE_EVENTS_FIELD_NUMBER: _ClassVar[int]
    SILENCES_FIELD_NUMBER: _ClassVar[int]
    SILENT_US_FIELD_NUMBER: _ClassVar[int]
    ELECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    RECOVERING_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_AT_US_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    next_offset: int
    events: int
    chain: bytes
    now_us: int
    leader_epoch: int
    elections: int
    elected_at_us: int
    facts_position: int
    cluster_id: str
    facts_topic_id: str
    events_topic_id: str
    build: str
    stale_events: int
    silences: int
    silent_us: int
    elected_seq: int
    recovering: bool
    recovered_at_us: int
    unconfirmed: int
    checkpoint: CheckpointRow
    divergence: DivergenceRow
    def __init__(self, seq: _Optional[int] = ..., next_offset: _Optional[int] = ..., events: _Optional[int] = ..., chain: _Optional[bytes] = ..., now_us: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., elections: _Optional[int] = ..., elected_at_us: _Optional[int] = ..., facts_position: _Optional[int] = ..., cluster_id: _Optional[str] = ..., facts_topic_id: _Optional[str] = ..., events_topic_id: _Optional[str] = ..., build: _Optional[str] = ..., stale_events: _Optional[int] = ..., silences: _Optional[int] = ..., silent_us: _Optional[int] = ..., elected_seq: _Optional[int] = ..., recovering: _Optional[bool] = ..., recovered_at_us: _Optional[int] = ..., unconfirmed: _Optional[int] = ..., checkpoint: _Optional[_Union[CheckpointRow, _Mapping]] = ..., divergence: _Optional[_Union[DivergenceRow, _Mapping]] = ...) -> None: ...

class CheckpointRow(_message.Message):
    __slots__ = ("seq", "state_digest", "next_fact_offset", "written_by", "verified_by", "at_us")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BY_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_BY_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    seq: int
    state_digest: bytes
    next_fact_offset: int
    written_by: str
    verified_by: str
    at_us: int
    def __init__(self, seq: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., next_fact_offset: _Optional[int] = ..., written_by: _Optional[str] = ..., verified_by: _Optional[str] = ..., at_us: _Optional[int] = ...) -> None: ...

class DivergenceRow(_message.Message):
    __slots__ = ("seq", "by", "other_by", "at_us")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    OTHER_BY_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    seq: int
    by: str
    other_by: str
    at_us: int
    def __init__(self, seq: _Optional[int] = ..., by: _Optional[str] = ..., other_by: _Optional[str] = ..., at_us: _Optional[int] = ...) -> None: ...

class DispatchRow(_message.Message):
    __slots__ = ("dispatch_id", "endpoint", "connection_id", "dispatched_at_us", "accepted", "accepted_at_us", "overtook", "backfilled", "holders", "saved_bytes")
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    OVERTOOK_FIELD_NUMBER: _ClassVar[int]
    BACKFILLED_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    SAVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    dispatch_id: int
    endpoint: str
    connection_id: int
    dispatched_at_us: int
    accepted: bool
    accepted_at_us: int
    overtook: int
    backfilled: bool
    holders: _containers.RepeatedCompositeFieldContainer[_common_pb2.Holding]
    saved_bytes: int
    def __init__(self, dispatch_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., dispatched_at_us: _Optional[int] = ..., accepted: _Optional[bool] = ..., accepted_at_us: _Optional[int] = ..., overtook: _Optional[int] = ..., backfilled: _Optional[bool] = ..., holders: _Optional[_Iterable[_Union[_common_pb2.Holding, _Mapping]]] = ..., saved_bytes: _Optional[int] = ...) -> None: ...

class ClientRow(_message.Message):
    __slots__ = ("client_operation_id", "client_id", "attached", "last_heard_us", "left")
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_US_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    client_operation_id: str
    client_id: str
    attached: bool
    last_heard_us: int
    left: _reasons_pb2.ClientLeaving
    def __init__(self, client_operation_id: _Optional[str] = ..., client_id: _Optional[str] = ..., attached: _Optional[bool] = ..., last_heard_us: _Optional[int] = ..., left: _Optional[_Union[_reasons_pb2.ClientLeaving, str]] = ...) -> None: ...

class OperationRow(_message.Message):
    __slots__ = ("operation_id", "instance", "client_operation_id", "requirement_id", "priority", "queued_at_us", "queued_since_us", "stage", "command", "action_digest", "timeout_us", "expected_duration_us", "client_id", "invocation_id", "target_id", "mnemonic", "cacheable", "skip_cache_lookup", "attached", "clamped_us", "dispatch", "dispatches", "job_failures", "worker_losses", "free_requeues", "requeue_cause", "requeue_message", "requeue_endpoint", "outcome", "finished_at_us", "finished_seq", "exit_code", "message", "stdout_tail", "stderr_tail", "usage", "escalations", "asked_requirement_id", "order", "clients", "upstream", "upstream_state", "hold_expired_at_us")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_US_FIELD_NUMBER: _ClassVar[int]
    QUEUED_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ACTION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_DURATION_US_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MNEMONIC_FIELD_NUMBER: _ClassVar[int]
    CACHEABLE_FIELD_NUMBER: _ClassVar[int]
    SKIP_CACHE_LOOKUP_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    CLAMPED_US_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    DISPATCHES_FIELD_NUMBER: _ClassVar[int]
    JOB_FAILURES_FIELD_NUMBER: _ClassVar[int]
    WORKER_LOSSES_FIELD_NUMBER: _ClassVar[int]
    FREE_REQUEUES_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_CAUSE_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    FINISHED_SEQ_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ESCALATIONS_FIELD_NUMBER: _ClassVar[int]
    ASKED_REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_STATE_FIELD_NUMBER: _ClassVar[int]
    HOLD_EXPIRED_AT_US_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    instance: str
    client_operation_id: str
    requirement_id: int
    priority: int
    queued_at_us: int
    queued_since_us: int
    stage: Stage
    command: bytes
    action_digest: _common_pb2.Digest
    timeout_us: int
    expected_duration_us: int
    client_id: str
    invocation_id: str
    target_id: str
    mnemonic: str
    cacheable: bool
    skip_cache_lookup: bool
    attached: bool
    clamped_us: int
    dispatch: DispatchRow
    dispatches: int
    job_failures: int
    worker_losses: int
    free_requeues: int
    requeue_cause: _reasons_pb2.RequeueCause
    requeue_message: str
    requeue_endpoint: str
    outcome: _reasons_pb2.Outcome
    finished_at_us: int
    finished_seq: int
    exit_code: int
    message: str
    stdout_tail: bytes
    stderr_tail: bytes
    usage: _common_pb2.ResourceUsage
    escalations: int
    asked_requirement_id: int
    order: _events_pb2.QueueOrder
    clients: _containers.RepeatedCompositeFieldContainer[ClientRow]
    upstream: str
    upstream_state: _reasons_pb2.UpstreamState
    hold_expired_at_us: int
    def __init__(self, operation_id: _Optional[int] = ..., instance: _Optional[str] = ..., client_operation_id: _Optional[str] = ..., requirement_id: _Optional[int] = ..., priority: _Optional[int] = ..., queued_at_us: _Optional[int] = ..., queued_since_us: _Optional[int] = ..., stage: _Optional[_Union[Stage, str]] = ..., command: _Optional[bytes] = ..., action_digest: _Optional[_Union[_common_pb2.Digest, _Mapping]] = ..., timeout_us: _Optional[int] = ..., expected_duration_us: _Optional[int] = ..., client_id: _Optional[str] = ..., invocation_id: _Optional[str] = ..., target_id: _Optional[str] = ..., mnemonic: _Optional[str] = ..., cacheable: _Optional[bool] = ..., skip_cache_lookup: _Optional[bool] = ..., attached: _Optional[bool] = ..., clamped_us: _Optional[int] = ..., dispatch: _Optional[_Union[DispatchRow, _Mapping]] = ..., dispatches: _Optional[int] = ..., job_failures: _Optional[int] = ..., worker_losses: _Optional[int] = ..., free_requeues: _Optional[int] = ..., requeue_cause: _Optional[_Union[_reasons_pb2.RequeueCause, str]] = ..., requeue_message: _Optional[str] = ..., requeue_endpoint: _Optional[str] = ..., outcome: _Optional[_Union[_reasons_pb2.Outcome, str]] = ..., finished_at_us: _Optional[int] = ..., finished_seq: _Optional[int] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ..., stdout_tail: _Optional[bytes] = ..., stderr_tail: _Optional[bytes] = ..., usage: _Optional[_Union[_common_pb2.ResourceUsage, _Mapping]] = ..., escalations: _Optional[int] = ..., asked_requirement_id: _Optional[int] = ..., order: _Optional[_Union[_events_pb2.QueueOrder, _Mapping]] = ..., clients: _Optional[_Iterable[_Union[ClientRow, _Mapping]]] = ..., upstream: _Optional[str] = ..., upstream_state: _Optional[_Union[_reasons_pb2.UpstreamState, str]] = ..., hold_expired_at_us: _Optional[int] = ...) -> None: ...

class RunRow(_message.Message):
    __slots__ = ("dispatch_id", "operation_id", "requirement_id", "since_us", "accepted", "revoked", "kill_requested_at_us", "heard_at_us", "silent_us")
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    KILL_REQUESTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    HEARD_AT_US_FIELD_NUMBER: _ClassVar[int]
    SILENT_US_FIELD_NUMBER: _ClassVar[int]
    dispatch_id: int
    operation_id: int
    requirement_id: int
    since_us: int
    accepted: bool
    revoked: bool
    kill_requested_at_us: int
    heard_at_us: int
    silent_us: int
    def __init__(self, dispatch_id: _Optional[int] = ..., operation_id: _Optional[int] = ..., requirement_id: _Optional[int] = ..., since_us: _Optional[int] = ..., accepted: _Optional[bool] = ..., revoked: _Optional[bool] = ..., kill_requested_at_us: _Optional[int] = ..., heard_at_us: _Optional[int] = ..., silent_us: _Optional[int] = ...) -> None: ...

class WorkerRow(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "connection_id", "properties", "max_inflight", "build", "connected_at_us", "last_seen_us", "recency", "draining", "paused", "free_memory_kib", "running", "dispatches", "admits_when_idle", "lent_kib", "idle_free_kib", "idle_declined_kib", "resume_at_kib", "blobs_url")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    MAX_INFLIGHT_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_US_FIELD_NUMBER: _ClassVar[int]
    RECENCY_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_KIB_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    DISPATCHES_FIELD_NUMBER: _ClassVar[int]
    ADMITS_WHEN_IDLE_FIELD_NUMBER: _ClassVar[int]
    LENT_KIB_FIELD_NUMBER: _ClassVar[int]
    IDLE_FREE_KIB_FIELD_NUMBER: _ClassVar[int]
    IDLE_DECLINED_KIB_FIELD_NUMBER: _ClassVar[int]
    RESUME_AT_KIB_FIELD_NUMBER: _ClassVar[int]
    BLOBS_URL_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.Property]
    max_inflight: int
    build: str
    connected_at_us: int
    last_seen_us: int
    recency: int
    draining: bool
    paused: bool
    free_memory_kib: int
    running: _containers.RepeatedCompositeFieldContainer[RunRow]
    dispatches: int
    admits_when_idle: bool
    lent_kib: int
    idle_free_kib: int
    idle_declined_kib: int
    resume_at_kib: int
    blobs_url: str
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., connection_id: _Optional[int] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.Property, _Mapping]]] = ..., max_inflight: _Optional[int] = ..., build: _Optional[str] = ..., connected_at_us: _Optional[int] = ..., last_seen_us: _Optional[int] = ..., recency: _Optional[int] = ..., draining: _Optional[bool] = ..., paused: _Optional[bool] = ..., free_memory_kib: _Optional[int] = ..., running: _Optional[_Iterable[_Union[RunRow, _Mapping]]] = ..., dispatches: _Optional[int] = ..., admits_when_idle: _Optional[bool] = ..., lent_kib: _Optional[int] = ..., idle_free_kib: _Optional[int] = ..., idle_declined_kib: _Optional[int] = ..., resume_at_kib: _Optional[int] = ..., blobs_url: _Optional[str] = ...) -> None: ...

class HoldRow(_message.Message):
    __slots__ = ("operation_id", "endpoint", "requirement_id", "made_at_us", "waited_us", "overtaken_by", "free_at_us", "candidates", "more_candidates", "excluded", "moves", "moved", "moved_at_us", "basis")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_US_FIELD_NUMBER: _ClassVar[int]
    WAITED_US_FIELD_NUMBER: _ClassVar[int]
    OVERTAKEN_BY_FIELD_NUMBER: _ClassVar[int]
    FREE_AT_US_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    MORE_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    MOVED_AT_US_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    endpoint: str
    requirement_id: int
    made_at_us: int
    waited_us: int
    overtaken_by: int
    free_at_us: int
    candidates: _containers.RepeatedCompositeFieldContainer[_events_pb2.HoldCandidate]
    more_candidates: int
    excluded: _containers.RepeatedCompositeFieldContainer[_events_pb2.HoldExclusionCount]
    moves: int
    moved: _reasons_pb2.HoldMove
    moved_at_us: int
    basis: _containers.RepeatedCompositeFieldContainer[_events_pb2.DrainBasis]
    def __init__(self, operation_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., requirement_id: _Optional[int] = ..., made_at_us: _Optional[int] = ..., waited_us: _Optional[int] = ..., overtaken_by: _Optional[int] = ..., free_at_us: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[_events_pb2.HoldCandidate, _Mapping]]] = ..., more_candidates: _Optional[int] = ..., excluded: _Optional[_Iterable[_Union[_events_pb2.HoldExclusionCount, _Mapping]]] = ..., moves: _Optional[int] = ..., moved: _Optional[_Union[_reasons_pb2.HoldMove, str]] = ..., moved_at_us: _Optional[int] = ..., basis: _Optional[_Iterable[_Union[_events_pb2.DrainBasis, _Mapping]]] = ...) -> None: ...

class HoldCount(_message.Message):
    __slots__ = ("reason", "count", "held_us")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_US_FIELD_NUMBER: _ClassVar[int]
    reason: _reasons_pb2.HoldEnd
    count: int
    held_us: int
    def __init__(self, reason: _Optional[_Union[_reasons_pb2.HoldEnd, str]] = ..., count: _Optional[int] = ..., held_us: _Optional[int] = ...) -> None: ...

class UnsatisfiableRow(_message.Message):
    __slots__ = ("requirement_id", "since_us", "properties", "no_workers")
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    NO_WORKERS_FIELD_NUMBER: _ClassVar[int]
    requirement_id: int
    since_us: int
    properties: _containers.RepeatedScalarFieldContainer[str]
    no_workers: bool
    def __init__(self, requirement_id: _Optional[int] = ..., since_us: _Optional[int] = ..., properties: _Optional[_Iterable[str]] = ..., no_workers: _Optional[bool] = ...) -> None: ...

class OutcomeCount(_message.Message):
    __slots__ = ("outcome", "count")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    outcome: _reasons_pb2.Outcome
    count: int
    def __init__(self, outcome: _Optional[_Union[_reasons_pb2.Outcome, str]] = ..., count: _Optional[int] = ...) -> None: ...

class RequeueCount(_message.Message):
    __slots__ = ("cause", "count")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    cause: _reasons_pb2.RequeueCause
    count: int
    def __init__(self, cause: _Optional[_Union[_reasons_pb2.RequeueCause, str]] = ..., count: _Optional[int] = ...) -> None: ...

class InstanceRow(_message.Message):
    __slots__ = ("name", "config_json", "configured_at_us", "paused", "queued", "executing", "finished", "workers", "outcomes", "requeues", "dispatches", "forgotten_through_seq", "checking", "forwarded", "hold", "no_candidate_for", "no_candidate_since_us", "excluded", "holds", "hold_ends", "hold_moves", "unsatisfiable", "hints", "hints_loaded_at_us", "virtual_us", "live_memory_veto")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_AT_US_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    EXECUTING_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REQUEUES_FIELD_NUMBER: _ClassVar[int]
    DISPATCHES_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    CHECKING_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    NO_CANDIDATE_FOR_FIELD_NUMBER: _ClassVar[int]
    NO_CANDIDATE_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    HOLD_ENDS_FIELD_NUMBER: _ClassVar[int]
    HOLD_MOVES_FIELD_NUMBER: _ClassVar[int]
    UNSATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    HINTS_LOADED_AT_US_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_US_FIELD_NUMBER: _ClassVar[int]
    LIVE_MEMORY_VETO_FIELD_NUMBER: _ClassVar[int]
    name: str
    config_json: str
    configured_at_us: int
    paused: bool
    queued: int
    executing: int
    finished: int
    workers: int
    outcomes: _containers.RepeatedCompositeFieldContainer[OutcomeCount]
    requeues: _containers.RepeatedCompositeFieldContainer[RequeueCount]
    dispatches: int
    forgotten_through_seq: int
    checking: int
    forwarded: int
    hold: HoldRow
    no_candidate_for: int
    no_candidate_since_us: int
    excluded: _containers.RepeatedCompositeFieldContainer[_events_pb2.HoldExclusionCount]
    holds: int
    hold_ends: _containers.RepeatedCompositeFieldContainer[HoldCount]
    hold_moves: int
    unsatisfiable: _containers.RepeatedCompositeFieldContainer[UnsatisfiableRow]
    hints: int
    hints_loaded_at_us: int
    virtual_us: int
    live_memory_veto: str
    def __init__(self, name: _Optional[str] = ..., config_json: _Optional[str] = ..., configured_at_us: _Optional[int] = ..., paused: _Optional[bool] = ..., queued: _Optional[int] = ..., executing: _Optional[int] = ..., finished: _Optional[int] = ..., workers: _Optional[int] = ..., outcomes: _Optional[_Iterable[_Union[OutcomeCount, _Mapping]]] = ..., requeues: _Optional[_Iterable[_Union[RequeueCount, _Mapping]]] = ..., dispatches: _Optional[int] = ..., forgotten_through_seq: _Optional[int] = ..., checking: _Optional[int] = ..., forwarded: _Optional[int] = ..., hold: _Optional[_Union[HoldRow, _Mapping]] = ..., no_candidate_for: _Optional[int] = ..., no_candidate_since_us: _Optional[int] = ..., excluded: _Optional[_Iterable[_Union[_events_pb2.HoldExclusionCount, _Mapping]]] = ..., holds: _Optional[int] = ..., hold_ends: _Optional[_Iterable[_Union[HoldCount, _Mapping]]] = ..., hold_moves: _Optional[int] = ..., unsatisfiable: _Optional[_Iterable[_Union[UnsatisfiableRow, _Mapping]]] = ..., hints: _Optional[int] = ..., hints_loaded_at_us: _Optional[int] = ..., virtual_us: _Optional[int] = ..., live_memory_veto: _Optional[str] = ...) -> None: ...

class ShareRow(_message.Message):
    __slots__ = ("tag_us",)
    TAG_US_FIELD_NUMBER: _ClassVar[int]
    tag_us: int
    def __init__(self, tag_us: _Optional[int] = ...) -> None: ...

class CounterRow(_message.Message):
    __slots__ = ("count", "last_at_us")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_US_FIELD_NUMBER: _ClassVar[int]
    count: int
    last_at_us: int
    def __init__(self, count: _Optional[int] = ..., last_at_us: _Optional[int] = ...) -> None: ...

class EndpointRow(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "connection_id", "confirmed_in", "blobs_url", "number", "first_seen_us", "connected_at_us", "disconnected_at_us", "advertised", "report", "next_chunk", "full", "report_open", "reported_at_us", "mirror_pending", "mirror_pinned", "mirror_pinned_bytes", "unacknowledged", "stable_seen", "chunks_dropped", "acknowledged", "flaps", "flapped_at_us", "flap_changes", "flap_within_us", "wipes", "wiped", "wiped_at_us", "wiped_epoch")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_IN_FIELD_NUMBER: _ClassVar[int]
    BLOBS_URL_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEEN_US_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    DISCONNECTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ADVERTISED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    NEXT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    REPORT_OPEN_FIELD_NUMBER: _ClassVar[int]
    REPORTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    MIRROR_PENDING_FIELD_NUMBER: _ClassVar[int]
    MIRROR_PINNED_FIELD_NUMBER: _ClassVar[int]
    MIRROR_PINNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    STABLE_SEEN_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    FLAPS_FIELD_NUMBER: _ClassVar[int]
    FLAPPED_AT_US_FIELD_NUMBER: _ClassVar[int]
    FLAP_CHANGES_FIELD_NUMBER: _ClassVar[int]
    FLAP_WITHIN_US_FIELD_NUMBER: _ClassVar[int]
    WIPES_FIELD_NUMBER: _ClassVar[int]
    WIPED_FIELD_NUMBER: _ClassVar[int]
    WIPED_AT_US_FIELD_NUMBER: _ClassVar[int]
    WIPED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    confirmed_in: int
    blobs_url: str
    number: int
    first_seen_us: int
    connected_at_us: int
    disconnected_at_us: int
    advertised: bool
    report: int
    next_chunk: int
    full: bool
    report_open: bool
    reported_at_us: int
    mirror_pending: int
    mirror_pinned: int
    mirror_pinned_bytes: int
    unacknowledged: int
    stable_seen: int
    chunks_dropped: int
    acknowledged: int
    flaps: int
    flapped_at_us: int
    flap_changes: int
    flap_within_us: int
    wipes: int
    wiped: _reasons_pb2.WipeCause
    wiped_at_us: int
    wiped_epoch: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., connection_id: _Optional[int] = ..., confirmed_in: _Optional[int] = ..., blobs_url: _Optional[str] = ..., number: _Optional[int] = ..., first_seen_us: _Optional[int] = ..., connected_at_us: _Optional[int] = ..., disconnected_at_us: _Optional[int] = ..., advertised: _Optional[bool] = ..., report: _Optional[int] = ..., next_chunk: _Optional[int] = ..., full: _Optional[bool] = ..., report_open: _Optional[bool] = ..., reported_at_us: _Optional[int] = ..., mirror_pending: _Optional[int] = ..., mirror_pinned: _Optional[int] = ..., mirror_pinned_bytes: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., stable_seen: _Optional[int] = ..., chunks_dropped: _Optional[int] = ..., acknowledged: _Optional[int] = ..., flaps: _Optional[int] = ..., flapped_at_us: _Optional[int] = ..., flap_changes: _Optional[int] = ..., flap_within_us: _Optional[int] = ..., wipes: _Optional[int] = ..., wiped: _Optional[_Union[_reasons_pb2.WipeCause, str]] = ..., wiped_at_us: _Optional[int] = ..., wiped_epoch: _Optional[int] = ...) -> None: ...

class InventoryRow(_message.Message):
    __slots__ = ("instance", "endpoint", "first_chunk", "next_chunk", "floor", "pairs", "garbage", "listed", "full_from", "named_since", "first_pins", "end_pins", "next_pins", "pins", "pins_to_come", "swept", "cleaned")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    FIRST_CHUNK_FIELD_NUMBER: _ClassVar[int]
    NEXT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    GARBAGE_FIELD_NUMBER: _ClassVar[int]
    LISTED_FIELD_NUMBER: _ClassVar[int]
    FULL_FROM_FIELD_NUMBER: _ClassVar[int]
    NAMED_SINCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_PINS_FIELD_NUMBER: _ClassVar[int]
    END_PINS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PINS_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    PINS_TO_COME_FIELD_NUMBER: _ClassVar[int]
    SWEPT_FIELD_NUMBER: _ClassVar[int]
    CLEANED_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    first_chunk: int
    next_chunk: int
    floor: int
    pairs: int
    garbage: int
    listed: int
    full_from: int
    named_since: int
    first_pins: int
    end_pins: int
    next_pins: int
    pins: int
    pins_to_come: int
    swept: bool
    cleaned: bool
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., first_chunk: _Optional[int] = ..., next_chunk: _Optional[int] = ..., floor: _Optional[int] = ..., pairs: _Optional[int] = ..., garbage: _Optional[int] = ..., listed: _Optional[int] = ..., full_from: _Optional[int] = ..., named_since: _Optional[int] = ..., first_pins: _Optional[int] = ..., end_pins: _Optional[int] = ..., next_pins: _Optional[int] = ..., pins: _Optional[int] = ..., pins_to_come: _Optional[int] = ..., swept: _Optional[bool] = ..., cleaned: _Optional[bool] = ...) -> None: ...

class LocalityRow(_message.Message):
    __slots__ = ("inventories", "endpoints", "pairs", "garbage", "pins", "first_cleaned", "next_cleaned", "credit")
    INVENTORIES_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    GARBAGE_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    FIRST_CLEANED_FIELD_NUMBER: _ClassVar[int]
    NEXT_CLEANED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    inventories: int
    endpoints: int
    pairs: int
    garbage: int
    pins: int
    first_cleaned: int
    next_cleaned: int
    credit: int
    def __init__(self, inventories: _Optional[int] = ..., endpoints: _Optional[int] = ..., pairs: _Optional[int] = ..., garbage: _Optional[int] = ..., pins: _Optional[int] = ..., first_cleaned: _Optional[int] = ..., next_cleaned: _Optional[int] = ..., credit: _Optional[int] = ...) -> None: ...

class StableRow(_message.Message):
    __slots__ = ("chunks", "digests", "broadcasts", "last_at_us")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    BROADCASTS_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_US_FIELD_NUMBER: _ClassVar[int]
    chunks: int
    digests: int
    broadcasts: int
    last_at_us: int
    def __init__(self, chunks: _Optional[int] = ..., digests: _Optional[int] = ..., broadcasts: _Optional[int] = ..., last_at_us: _Optional[int] = ...) -> None: ...
