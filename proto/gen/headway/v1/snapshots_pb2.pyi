from proto.gen.headway.v1 import common_pb2 as _common_pb2
from proto.gen.headway.v1 import events_pb2 as _events_pb2
from proto.gen.headway.v1 import reasons_pb2 as _reasons_pb2
from proto.gen.headway.v1 import rows_pb2 as _rows_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SnapshotManifest(_message.Message):
    __slots__ = ("format", "shard", "seq", "next_event_offset", "next_fact_offset", "at_us", "chain", "state_digest", "parts", "bytes", "build", "cluster_id", "facts_topic_id", "events_topic_id", "leader_epoch", "written_by")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    NEXT_EVENT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FACTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BY_FIELD_NUMBER: _ClassVar[int]
    format: int
    shard: int
    seq: int
    next_event_offset: int
    next_fact_offset: int
    at_us: int
    chain: bytes
    state_digest: bytes
    parts: int
    bytes: int
    build: str
    cluster_id: str
    facts_topic_id: str
    events_topic_id: str
    leader_epoch: int
    written_by: str
    def __init__(self, format: _Optional[int] = ..., shard: _Optional[int] = ..., seq: _Optional[int] = ..., next_event_offset: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., at_us: _Optional[int] = ..., chain: _Optional[bytes] = ..., state_digest: _Optional[bytes] = ..., parts: _Optional[int] = ..., bytes: _Optional[int] = ..., build: _Optional[str] = ..., cluster_id: _Optional[str] = ..., facts_topic_id: _Optional[str] = ..., events_topic_id: _Optional[str] = ..., leader_epoch: _Optional[int] = ..., written_by: _Optional[str] = ...) -> None: ...

class SnapshotRows(_message.Message):
    __slots__ = ("header", "requirements", "instances", "hints", "durations", "tags", "operations", "forgotten", "client_ids", "finished", "workers", "endpoints", "stable", "broadcasts", "unsatisfiable", "holds")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    DURATIONS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_IDS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    STABLE_FIELD_NUMBER: _ClassVar[int]
    BROADCASTS_FIELD_NUMBER: _ClassVar[int]
    UNSATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    header: SnapshotHeader
    requirements: _containers.RepeatedCompositeFieldContainer[SnapshotRequirement]
    instances: _containers.RepeatedCompositeFieldContainer[SnapshotInstance]
    hints: _containers.RepeatedCompositeFieldContainer[SnapshotHint]
    durations: _containers.RepeatedCompositeFieldContainer[SnapshotDurations]
    tags: _containers.RepeatedCompositeFieldContainer[SnapshotTag]
    operations: _containers.RepeatedCompositeFieldContainer[SnapshotOperation]
    forgotten: _containers.RepeatedCompositeFieldContainer[SnapshotOperation]
    client_ids: _containers.RepeatedCompositeFieldContainer[SnapshotClientIds]
    finished: _containers.RepeatedCompositeFieldContainer[SnapshotFinished]
    workers: _containers.RepeatedCompositeFieldContainer[SnapshotWorker]
    endpoints: _containers.RepeatedCompositeFieldContainer[SnapshotEndpoint]
    stable: _containers.RepeatedCompositeFieldContainer[SnapshotStableChunk]
    broadcasts: _containers.RepeatedCompositeFieldContainer[SnapshotBroadcast]
    unsatisfiable: _containers.RepeatedCompositeFieldContainer[SnapshotShortage]
    holds: _containers.RepeatedCompositeFieldContainer[SnapshotHold]
    def __init__(self, header: _Optional[_Union[SnapshotHeader, _Mapping]] = ..., requirements: _Optional[_Iterable[_Union[SnapshotRequirement, _Mapping]]] = ..., instances: _Optional[_Iterable[_Union[SnapshotInstance, _Mapping]]] = ..., hints: _Optional[_Iterable[_Union[SnapshotHint, _Mapping]]] = ..., durations: _Optional[_Iterable[_Union[SnapshotDurations, _Mapping]]] = ..., tags: _Optional[_Iterable[_Union[SnapshotTag, _Mapping]]] = ..., operations: _Optional[_Iterable[_Union[SnapshotOperation, _Mapping]]] = ..., forgotten: _Optional[_Iterable[_Union[SnapshotOperation, _Mapping]]] = ..., client_ids: _Optional[_Iterable[_Union[SnapshotClientIds, _Mapping]]] = ..., finished: _Optional[_Iterable[_Union[SnapshotFinished, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[SnapshotWorker, _Mapping]]] = ..., endpoints: _Optional[_Iterable[_Union[SnapshotEndpoint, _Mapping]]] = ..., stable: _Optional[_Iterable[_Union[SnapshotStableChunk, _Mapping]]] = ..., broadcasts: _Optional[_Iterable[_Union[SnapshotBroadcast, _Mapping]]] = ..., unsatisfiable: _Optional[_Iterable[_Union[SnapshotShortage, _Mapping]]] = ..., holds: _Optional[_Iterable[_Union[SnapshotHold, _Mapping]]] = ...) -> None: ...

class SnapshotCount(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: int
    count: int
    def __init__(self, reason: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class SnapshotHeader(_message.Message):
    __slots__ = ("format", "seq", "now_us", "position", "leader_epoch", "elected_seq", "recovers_at", "recovered_at_us", "cluster_id", "facts_topic_id", "events_topic_id", "parked_keys", "ignored", "rejected", "digests", "checkpoint", "divergence")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ELECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    RECOVERS_AT_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_AT_US_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FACTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARKED_KEYS_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_FIELD_NUMBER: _ClassVar[int]
    format: int
    seq: int
    now_us: int
    position: int
    leader_epoch: int
    elected_seq: int
    recovers_at: int
    recovered_at_us: int
    cluster_id: str
    facts_topic_id: str
    events_topic_id: str
    parked_keys: _containers.RepeatedScalarFieldContainer[str]
    ignored: _containers.RepeatedCompositeFieldContainer[SnapshotCount]
    rejected: _containers.RepeatedCompositeFieldContainer[SnapshotCount]
    digests: _containers.RepeatedCompositeFieldContainer[SnapshotReport]
    checkpoint: SnapshotCheckpoint
    divergence: SnapshotDivergence
    def __init__(self, format: _Optional[int] = ..., seq: _Optional[int] = ..., now_us: _Optional[int] = ..., position: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., elected_seq: _Optional[int] = ..., recovers_at: _Optional[int] = ..., recovered_at_us: _Optional[int] = ..., cluster_id: _Optional[str] = ..., facts_topic_id: _Optional[str] = ..., events_topic_id: _Optional[str] = ..., parked_keys: _Optional[_Iterable[str]] = ..., ignored: _Optional[_Iterable[_Union[SnapshotCount, _Mapping]]] = ..., rejected: _Optional[_Iterable[_Union[SnapshotCount, _Mapping]]] = ..., digests: _Optional[_Iterable[_Union[SnapshotReport, _Mapping]]] = ..., checkpoint: _Optional[_Union[SnapshotCheckpoint, _Mapping]] = ..., divergence: _Optional[_Union[SnapshotDivergence, _Mapping]] = ...) -> None: ...

class SnapshotReport(_message.Message):
    __slots__ = ("seq", "state_digest", "format", "next_fact_offset", "by", "role", "agreed")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    by: str
    role: _reasons_pb2.DigestRole
    agreed: bool
    def __init__(self, seq: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., format: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., by: _Optional[str] = ..., role: _Optional[_Union[_reasons_pb2.DigestRole, str]] = ..., agreed: _Optional[bool] = ...) -> None: ...

class SnapshotCheckpoint(_message.Message):
    __slots__ = ("seq", "state_digest", "format", "next_fact_offset", "written_by", "verified_by", "at_us")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BY_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_BY_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    written_by: str
    verified_by: str
    at_us: int
    def __init__(self, seq: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., format: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., written_by: _Optional[str] = ..., verified_by: _Optional[str] = ..., at_us: _Optional[int] = ...) -> None: ...

class SnapshotDivergence(_message.Message):
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

class SnapshotRequirement(_message.Message):
    __slots__ = ("requirement_id", "requirements")
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    requirement_id: int
    requirements: bytes
    def __init__(self, requirement_id: _Optional[int] = ..., requirements: _Optional[bytes] = ...) -> None: ...

class SnapshotInstance(_message.Message):
    __slots__ = ("name", "config_json", "paused", "no_candidate_for", "virtual_us", "last_runs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    NO_CANDIDATE_FOR_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_US_FIELD_NUMBER: _ClassVar[int]
    LAST_RUNS_FIELD_NUMBER: _ClassVar[int]
    name: str
    config_json: str
    paused: bool
    no_candidate_for: int
    virtual_us: int
    last_runs: int
    def __init__(self, name: _Optional[str] = ..., config_json: _Optional[str] = ..., paused: _Optional[bool] = ..., no_candidate_for: _Optional[int] = ..., virtual_us: _Optional[int] = ..., last_runs: _Optional[int] = ...) -> None: ...

class SnapshotHint(_message.Message):
    __slots__ = ("instance", "target_id", "mnemonic", "cpu_millis", "memory_kib")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MNEMONIC_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIB_FIELD_NUMBER: _ClassVar[int]
    instance: int
    target_id: str
    mnemonic: str
    cpu_millis: int
    memory_kib: int
    def __init__(self, instance: _Optional[int] = ..., target_id: _Optional[str] = ..., mnemonic: _Optional[str] = ..., cpu_millis: _Optional[int] = ..., memory_kib: _Optional[int] = ...) -> None: ...

class SnapshotDurations(_message.Message):
    __slots__ = ("instance", "source", "kind", "steps")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    instance: int
    source: _reasons_pb2.DurationSource
    kind: str
    steps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, instance: _Optional[int] = ..., source: _Optional[_Union[_reasons_pb2.DurationSource, str]] = ..., kind: _Optional[str] = ..., steps: _Optional[_Iterable[int]] = ...) -> None: ...

class SnapshotTag(_message.Message):
    __slots__ = ("instance", "share_of", "tag_us")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    SHARE_OF_FIELD_NUMBER: _ClassVar[int]
    TAG_US_FIELD_NUMBER: _ClassVar[int]
    instance: int
    share_of: str
    tag_us: int
    def __init__(self, instance: _Optional[int] = ..., share_of: _Optional[str] = ..., tag_us: _Optional[int] = ...) -> None: ...

class SnapshotClient(_message.Message):
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

class SnapshotOperation(_message.Message):
    __slots__ = ("operation_id", "instance", "client_operation_id", "requirement_id", "queued_at_us", "queued_since_us", "stage", "joinable", "command", "asked", "past")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_US_FIELD_NUMBER: _ClassVar[int]
    QUEUED_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    JOINABLE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    PAST_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    instance: int
    client_operation_id: str
    requirement_id: int
    queued_at_us: int
    queued_since_us: int
    stage: _rows_pb2.Stage
    joinable: bool
    command: bytes
    asked: SnapshotAsked
    past: SnapshotPast
    def __init__(self, operation_id: _Optional[int] = ..., instance: _Optional[int] = ..., client_operation_id: _Optional[str] = ..., requirement_id: _Optional[int] = ..., queued_at_us: _Optional[int] = ..., queued_since_us: _Optional[int] = ..., stage: _Optional[_Union[_rows_pb2.Stage, str]] = ..., joinable: _Optional[bool] = ..., command: _Optional[bytes] = ..., asked: _Optional[_Union[SnapshotAsked, _Mapping]] = ..., past: _Optional[_Union[SnapshotPast, _Mapping]] = ...) -> None: ...

class SnapshotAsked(_message.Message):
    __slots__ = ("digest_hash", "digest_size_bytes", "priority", "cacheable", "skip_cache_lookup", "attached", "timeout_us", "expected_duration_us", "client_id", "invocation_id", "target_id", "mnemonic", "asked_requirement_id", "order")
    DIGEST_HASH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CACHEABLE_FIELD_NUMBER: _ClassVar[int]
    SKIP_CACHE_LOOKUP_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_DURATION_US_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MNEMONIC_FIELD_NUMBER: _ClassVar[int]
    ASKED_REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    digest_hash: bytes
    digest_size_bytes: int
    priority: int
    cacheable: bool
    skip_cache_lookup: bool
    attached: bool
    timeout_us: int
    expected_duration_us: int
    client_id: str
    invocation_id: str
    target_id: str
    mnemonic: str
    asked_requirement_id: int
    order: _events_pb2.QueueOrder
    def __init__(self, digest_hash: _Optional[bytes] = ..., digest_size_bytes: _Optional[int] = ..., priority: _Optional[int] = ..., cacheable: _Optional[bool] = ..., skip_cache_lookup: _Optional[bool] = ..., attached: _Optional[bool] = ..., timeout_us: _Optional[int] = ..., expected_duration_us: _Optional[int] = ..., client_id: _Optional[str] = ..., invocation_id: _Optional[str] = ..., target_id: _Optional[str] = ..., mnemonic: _Optional[str] = ..., asked_requirement_id: _Optional[int] = ..., order: _Optional[_Union[_events_pb2.QueueOrder, _Mapping]] = ...) -> None: ...

class SnapshotPast(_message.Message):
    __slots__ = ("job_failures", "worker_losses", "free_requeues", "escalations", "hold_expired_at_us", "outcome", "clients")
    JOB_FAILURES_FIELD_NUMBER: _ClassVar[int]
    WORKER_LOSSES_FIELD_NUMBER: _ClassVar[int]
    FREE_REQUEUES_FIELD_NUMBER: _ClassVar[int]
    ESCALATIONS_FIELD_NUMBER: _ClassVar[int]
    HOLD_EXPIRED_AT_US_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    job_failures: int
    worker_losses: int
    free_requeues: int
    escalations: int
    hold_expired_at_us: int
    outcome: _reasons_pb2.Outcome
    clients: _containers.RepeatedCompositeFieldContainer[SnapshotClient]
    def __init__(self, job_failures: _Optional[int] = ..., worker_losses: _Optional[int] = ..., free_requeues: _Optional[int] = ..., escalations: _Optional[int] = ..., hold_expired_at_us: _Optional[int] = ..., outcome: _Optional[_Union[_reasons_pb2.Outcome, str]] = ..., clients: _Optional[_Iterable[_Union[SnapshotClient, _Mapping]]] = ...) -> None: ...

class SnapshotClientIds(_message.Message):
    __slots__ = ("instance", "operations", "others")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    instance: int
    operations: _containers.RepeatedScalarFieldContainer[int]
    others: _containers.RepeatedCompositeFieldContainer[SnapshotOtherId]
    def __init__(self, instance: _Optional[int] = ..., operations: _Optional[_Iterable[int]] = ..., others: _Optional[_Iterable[_Union[SnapshotOtherId, _Mapping]]] = ...) -> None: ...

class SnapshotOtherId(_message.Message):
    __slots__ = ("at", "client_operation_id")
    AT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    at: int
    client_operation_id: str
    def __init__(self, at: _Optional[int] = ..., client_operation_id: _Optional[str] = ...) -> None: ...

class SnapshotFinished(_message.Message):
    __slots__ = ("instance", "seqs", "at_us", "operations")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    SEQS_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    instance: int
    seqs: _containers.RepeatedScalarFieldContainer[int]
    at_us: _containers.RepeatedScalarFieldContainer[int]
    operations: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, instance: _Optional[int] = ..., seqs: _Optional[_Iterable[int]] = ..., at_us: _Optional[_Iterable[int]] = ..., operations: _Optional[_Iterable[int]] = ...) -> None: ...

class SnapshotDispatch(_message.Message):
    __slots__ = ("dispatch_id", "operation_id", "requirement_id", "connection_id", "dispatched_at_us", "current", "accepted", "revoked", "heard_at_us", "silent_us", "kill_requested_at_us")
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    HEARD_AT_US_FIELD_NUMBER: _ClassVar[int]
    SILENT_US_FIELD_NUMBER: _ClassVar[int]
    KILL_REQUESTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    dispatch_id: int
    operation_id: int
    requirement_id: int
    connection_id: int
    dispatched_at_us: int
    current: bool
    accepted: bool
    revoked: bool
    heard_at_us: int
    silent_us: int
    kill_requested_at_us: int
    def __init__(self, dispatch_id: _Optional[int] = ..., operation_id: _Optional[int] = ..., requirement_id: _Optional[int] = ..., connection_id: _Optional[int] = ..., dispatched_at_us: _Optional[int] = ..., current: _Optional[bool] = ..., accepted: _Optional[bool] = ..., revoked: _Optional[bool] = ..., heard_at_us: _Optional[int] = ..., silent_us: _Optional[int] = ..., kill_requested_at_us: _Optional[int] = ...) -> None: ...

class SnapshotWorker(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "connection_id", "properties", "max_inflight", "build", "connected_at_us", "last_seen_us", "recency", "draining", "paused", "admits_when_idle", "free_memory_kib", "lent_kib", "idle_free_kib", "idle_declined_kib", "resume_at_kib", "running")
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
    ADMITS_WHEN_IDLE_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_KIB_FIELD_NUMBER: _ClassVar[int]
    LENT_KIB_FIELD_NUMBER: _ClassVar[int]
    IDLE_FREE_KIB_FIELD_NUMBER: _ClassVar[int]
    IDLE_DECLINED_KIB_FIELD_NUMBER: _ClassVar[int]
    RESUME_AT_KIB_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    instance: int
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
    admits_when_idle: bool
    free_memory_kib: int
    lent_kib: int
    idle_free_kib: int
    idle_declined_kib: int
    resume_at_kib: int
    running: _containers.RepeatedCompositeFieldContainer[SnapshotDispatch]
    def __init__(self, instance: _Optional[int] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., connection_id: _Optional[int] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.Property, _Mapping]]] = ..., max_inflight: _Optional[int] = ..., build: _Optional[str] = ..., connected_at_us: _Optional[int] = ..., last_seen_us: _Optional[int] = ..., recency: _Optional[int] = ..., draining: _Optional[bool] = ..., paused: _Optional[bool] = ..., admits_when_idle: _Optional[bool] = ..., free_memory_kib: _Optional[int] = ..., lent_kib: _Optional[int] = ..., idle_free_kib: _Optional[int] = ..., idle_declined_kib: _Optional[int] = ..., resume_at_kib: _Optional[int] = ..., running: _Optional[_Iterable[_Union[SnapshotDispatch, _Mapping]]] = ...) -> None: ...

class SnapshotEndpoint(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "connection_id", "confirmed_in", "gone_at_us", "advertised", "report", "next_chunk", "full", "open", "unacknowledged", "due", "resent_through", "owed_through", "changes", "flapped_at_us")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_IN_FIELD_NUMBER: _ClassVar[int]
    GONE_AT_US_FIELD_NUMBER: _ClassVar[int]
    ADVERTISED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    NEXT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    RESENT_THROUGH_FIELD_NUMBER: _ClassVar[int]
    OWED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    FLAPPED_AT_US_FIELD_NUMBER: _ClassVar[int]
    instance: int
    endpoint: str
    boot_epoch: int
    connection_id: int
    confirmed_in: int
    gone_at_us: int
    advertised: bool
    report: int
    next_chunk: int
    full: bool
    open: bool
    unacknowledged: _containers.RepeatedScalarFieldContainer[int]
    due: _containers.RepeatedScalarFieldContainer[int]
    resent_through: int
    owed_through: int
    changes: _containers.RepeatedScalarFieldContainer[int]
    flapped_at_us: int
    def __init__(self, instance: _Optional[int] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., connection_id: _Optional[int] = ..., confirmed_in: _Optional[int] = ..., gone_at_us: _Optional[int] = ..., advertised: _Optional[bool] = ..., report: _Optional[int] = ..., next_chunk: _Optional[int] = ..., full: _Optional[bool] = ..., open: _Optional[bool] = ..., unacknowledged: _Optional[_Iterable[int]] = ..., due: _Optional[_Iterable[int]] = ..., resent_through: _Optional[int] = ..., owed_through: _Optional[int] = ..., changes: _Optional[_Iterable[int]] = ..., flapped_at_us: _Optional[int] = ...) -> None: ...

class SnapshotStableChunk(_message.Message):
    __slots__ = ("instance", "seq", "broadcast", "sequence", "last", "store", "digests", "waiting")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    instance: int
    seq: int
    broadcast: int
    sequence: int
    last: bool
    store: str
    digests: bytes
    waiting: int
    def __init__(self, instance: _Optional[int] = ..., seq: _Optional[int] = ..., broadcast: _Optional[int] = ..., sequence: _Optional[int] = ..., last: _Optional[bool] = ..., store: _Optional[str] = ..., digests: _Optional[bytes] = ..., waiting: _Optional[int] = ...) -> None: ...

class SnapshotBroadcast(_message.Message):
    __slots__ = ("instance", "broadcast", "next_sequence", "store", "finished")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    instance: int
    broadcast: int
    next_sequence: int
    store: str
    finished: bool
    def __init__(self, instance: _Optional[int] = ..., broadcast: _Optional[int] = ..., next_sequence: _Optional[int] = ..., store: _Optional[str] = ..., finished: _Optional[bool] = ...) -> None: ...

class SnapshotShortage(_message.Message):
    __slots__ = ("instance", "requirement_id", "since_us", "no_workers")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    NO_WORKERS_FIELD_NUMBER: _ClassVar[int]
    instance: int
    requirement_id: int
    since_us: int
    no_workers: bool
    def __init__(self, instance: _Optional[int] = ..., requirement_id: _Optional[int] = ..., since_us: _Optional[int] = ..., no_workers: _Optional[bool] = ...) -> None: ...

class SnapshotHold(_message.Message):
    __slots__ = ("instance", "operation_id", "endpoint", "requirement_id", "made_at_us", "waited_us", "free_at_us", "worker_gone")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_ID_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_US_FIELD_NUMBER: _ClassVar[int]
    WAITED_US_FIELD_NUMBER: _ClassVar[int]
    FREE_AT_US_FIELD_NUMBER: _ClassVar[int]
    WORKER_GONE_FIELD_NUMBER: _ClassVar[int]
    instance: int
    operation_id: int
    endpoint: str
    requirement_id: int
    made_at_us: int
    waited_us: int
    free_at_us: int
    worker_gone: bool
    def __init__(self, instance: _Optional[int] = ..., operation_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., requirement_id: _Optional[int] = ..., made_at_us: _Optional[int] = ..., waited_us: _Optional[int] = ..., free_at_us: _Optional[int] = ..., worker_gone: _Optional[bool] = ...) -> None: ...
