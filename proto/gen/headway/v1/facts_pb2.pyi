from proto.gen.headway.v1 import common_pb2 as _common_pb2
from proto.gen.headway.v1 import reasons_pb2 as _reasons_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fact(_message.Message):
    __slots__ = ("action_queued", "worker_connected", "worker_reported", "worker_drained", "worker_undrained", "worker_gone", "dispatch_accepted", "dispatch_declined", "action_finished", "cancel_requested", "priority_requested", "instance_paused", "instance_resumed", "configured", "tick", "key_released", "client_heard", "client_gone", "cache_answered", "hints_loaded", "upstream_reported", "blobs_available", "blobs_evicted", "peer_fetch_failed", "blobs_stable", "blobs_stable_acknowledged", "state_digested")
    ACTION_QUEUED_FIELD_NUMBER: _ClassVar[int]
    WORKER_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_REPORTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_DRAINED_FIELD_NUMBER: _ClassVar[int]
    WORKER_UNDRAINED_FIELD_NUMBER: _ClassVar[int]
    WORKER_GONE_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_DECLINED_FIELD_NUMBER: _ClassVar[int]
    ACTION_FINISHED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_PAUSED_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_RESUMED_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    KEY_RELEASED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HEARD_FIELD_NUMBER: _ClassVar[int]
    CLIENT_GONE_FIELD_NUMBER: _ClassVar[int]
    CACHE_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    HINTS_LOADED_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_REPORTED_FIELD_NUMBER: _ClassVar[int]
    BLOBS_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_EVICTED_FIELD_NUMBER: _ClassVar[int]
    PEER_FETCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    BLOBS_STABLE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_STABLE_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGESTED_FIELD_NUMBER: _ClassVar[int]
    action_queued: ActionQueued
    worker_connected: WorkerConnected
    worker_reported: WorkerReported
    worker_drained: WorkerDrained
    worker_undrained: WorkerUndrained
    worker_gone: WorkerGone
    dispatch_accepted: DispatchAccepted
    dispatch_declined: DispatchDeclined
    action_finished: ActionFinished
    cancel_requested: CancelRequested
    priority_requested: PriorityRequested
    instance_paused: InstancePaused
    instance_resumed: InstanceResumed
    configured: Configured
    tick: Tick
    key_released: KeyReleased
    client_heard: ClientHeard
    client_gone: ClientGone
    cache_answered: CacheAnswered
    hints_loaded: HintsLoaded
    upstream_reported: UpstreamReported
    blobs_available: BlobsAvailable
    blobs_evicted: BlobsEvicted
    peer_fetch_failed: PeerFetchFailed
    blobs_stable: BlobsStable
    blobs_stable_acknowledged: BlobsStableAcknowledged
    state_digested: StateDigested
    def __init__(self, action_queued: _Optional[_Union[ActionQueued, _Mapping]] = ..., worker_connected: _Optional[_Union[WorkerConnected, _Mapping]] = ..., worker_reported: _Optional[_Union[WorkerReported, _Mapping]] = ..., worker_drained: _Optional[_Union[WorkerDrained, _Mapping]] = ..., worker_undrained: _Optional[_Union[WorkerUndrained, _Mapping]] = ..., worker_gone: _Optional[_Union[WorkerGone, _Mapping]] = ..., dispatch_accepted: _Optional[_Union[DispatchAccepted, _Mapping]] = ..., dispatch_declined: _Optional[_Union[DispatchDeclined, _Mapping]] = ..., action_finished: _Optional[_Union[ActionFinished, _Mapping]] = ..., cancel_requested: _Optional[_Union[CancelRequested, _Mapping]] = ..., priority_requested: _Optional[_Union[PriorityRequested, _Mapping]] = ..., instance_paused: _Optional[_Union[InstancePaused, _Mapping]] = ..., instance_resumed: _Optional[_Union[InstanceResumed, _Mapping]] = ..., configured: _Optional[_Union[Configured, _Mapping]] = ..., tick: _Optional[_Union[Tick, _Mapping]] = ..., key_released: _Optional[_Union[KeyReleased, _Mapping]] = ..., client_heard: _Optional[_Union[ClientHeard, _Mapping]] = ..., client_gone: _Optional[_Union[ClientGone, _Mapping]] = ..., cache_answered: _Optional[_Union[CacheAnswered, _Mapping]] = ..., hints_loaded: _Optional[_Union[HintsLoaded, _Mapping]] = ..., upstream_reported: _Optional[_Union[UpstreamReported, _Mapping]] = ..., blobs_available: _Optional[_Union[BlobsAvailable, _Mapping]] = ..., blobs_evicted: _Optional[_Union[BlobsEvicted, _Mapping]] = ..., peer_fetch_failed: _Optional[_Union[PeerFetchFailed, _Mapping]] = ..., blobs_stable: _Optional[_Union[BlobsStable, _Mapping]] = ..., blobs_stable_acknowledged: _Optional[_Union[BlobsStableAcknowledged, _Mapping]] = ..., state_digested: _Optional[_Union[StateDigested, _Mapping]] = ...) -> None: ...

class ActionQueued(_message.Message):
    __slots__ = ("instance", "client_operation_id", "client_id", "invocation_id", "attached", "action_digest", "cacheable", "skip_cache_lookup", "priority", "queued_at_us", "requirements", "timeout_us", "expected_duration_us", "command", "target_id", "mnemonic")
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
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_DURATION_US_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MNEMONIC_FIELD_NUMBER: _ClassVar[int]
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
    requirements: _common_pb2.Requirements
    timeout_us: int
    expected_duration_us: int
    command: _common_pb2.Command
    target_id: str
    mnemonic: str
    def __init__(self, instance: _Optional[str] = ..., client_operation_id: _Optional[str] = ..., client_id: _Optional[str] = ..., invocation_id: _Optional[str] = ..., attached: _Optional[bool] = ..., action_digest: _Optional[_Union[_common_pb2.Digest, _Mapping]] = ..., cacheable: _Optional[bool] = ..., skip_cache_lookup: _Optional[bool] = ..., priority: _Optional[int] = ..., queued_at_us: _Optional[int] = ..., requirements: _Optional[_Union[_common_pb2.Requirements, _Mapping]] = ..., timeout_us: _Optional[int] = ..., expected_duration_us: _Optional[int] = ..., command: _Optional[_Union[_common_pb2.Command, _Mapping]] = ..., target_id: _Optional[str] = ..., mnemonic: _Optional[str] = ...) -> None: ...

class WorkerConnected(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "connection_id", "properties", "max_inflight", "build", "running", "admits_when_idle", "blobs_url")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    MAX_INFLIGHT_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    ADMITS_WHEN_IDLE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_URL_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.Property]
    max_inflight: int
    build: str
    running: _containers.RepeatedScalarFieldContainer[int]
    admits_when_idle: bool
    blobs_url: str
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., connection_id: _Optional[int] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.Property, _Mapping]]] = ..., max_inflight: _Optional[int] = ..., build: _Optional[str] = ..., running: _Optional[_Iterable[int]] = ..., admits_when_idle: _Optional[bool] = ..., blobs_url: _Optional[str] = ...) -> None: ...

class WorkerReported(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "free_memory_kib")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_KIB_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    free_memory_kib: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., free_memory_kib: _Optional[int] = ...) -> None: ...

class WorkerDrained(_message.Message):
    __slots__ = ("instance", "endpoint")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ...) -> None: ...

class WorkerUndrained(_message.Message):
    __slots__ = ("instance", "endpoint")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ...) -> None: ...

class WorkerGone(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ...) -> None: ...

class DispatchAccepted(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "dispatch_id")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    dispatch_id: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ...) -> None: ...

class DispatchDeclined(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "dispatch_id", "reason", "needed_kib", "free_kib")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NEEDED_KIB_FIELD_NUMBER: _ClassVar[int]
    FREE_KIB_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    dispatch_id: int
    reason: _reasons_pb2.DeclineReason
    needed_kib: int
    free_kib: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ..., reason: _Optional[_Union[_reasons_pb2.DeclineReason, str]] = ..., needed_kib: _Optional[int] = ..., free_kib: _Optional[int] = ...) -> None: ...

class ActionFinished(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "dispatch_id", "result", "exit_code", "message", "stdout_tail", "stderr_tail", "usage")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    dispatch_id: int
    result: _reasons_pb2.RunResult
    exit_code: int
    message: str
    stdout_tail: bytes
    stderr_tail: bytes
    usage: _common_pb2.ResourceUsage
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ..., result: _Optional[_Union[_reasons_pb2.RunResult, str]] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ..., stdout_tail: _Optional[bytes] = ..., stderr_tail: _Optional[bytes] = ..., usage: _Optional[_Union[_common_pb2.ResourceUsage, _Mapping]] = ...) -> None: ...

class CancelRequested(_message.Message):
    __slots__ = ("instance", "operation_id", "client_operation_id")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    client_operation_id: str
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., client_operation_id: _Optional[str] = ...) -> None: ...

class PriorityRequested(_message.Message):
    __slots__ = ("instance", "operation_id", "client_operation_id", "priority")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    client_operation_id: str
    priority: int
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., client_operation_id: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class InstancePaused(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    def __init__(self, instance: _Optional[str] = ...) -> None: ...

class InstanceResumed(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    def __init__(self, instance: _Optional[str] = ...) -> None: ...

class Configured(_message.Message):
    __slots__ = ("instance", "config_json")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    instance: str
    config_json: str
    def __init__(self, instance: _Optional[str] = ..., config_json: _Optional[str] = ...) -> None: ...

class Tick(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeyReleased(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class ClientHeard(_message.Message):
    __slots__ = ("instance", "client_operation_id")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    instance: str
    client_operation_id: str
    def __init__(self, instance: _Optional[str] = ..., client_operation_id: _Optional[str] = ...) -> None: ...

class ClientGone(_message.Message):
    __slots__ = ("instance", "client_operation_id")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    instance: str
    client_operation_id: str
    def __init__(self, instance: _Optional[str] = ..., client_operation_id: _Optional[str] = ...) -> None: ...

class CacheAnswered(_message.Message):
    __slots__ = ("instance", "operation_id", "answer", "exit_code", "message")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    answer: _reasons_pb2.CacheAnswer
    exit_code: int
    message: str
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., answer: _Optional[_Union[_reasons_pb2.CacheAnswer, str]] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class ResourceHint(_message.Message):
    __slots__ = ("target_id", "mnemonic", "cpu_millis", "memory_kib")
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MNEMONIC_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIB_FIELD_NUMBER: _ClassVar[int]
    target_id: str
    mnemonic: str
    cpu_millis: int
    memory_kib: int
    def __init__(self, target_id: _Optional[str] = ..., mnemonic: _Optional[str] = ..., cpu_millis: _Optional[int] = ..., memory_kib: _Optional[int] = ...) -> None: ...

class HintsLoaded(_message.Message):
    __slots__ = ("instance", "hints")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    hints: _containers.RepeatedCompositeFieldContainer[ResourceHint]
    def __init__(self, instance: _Optional[str] = ..., hints: _Optional[_Iterable[_Union[ResourceHint, _Mapping]]] = ...) -> None: ...

class UpstreamReported(_message.Message):
    __slots__ = ("instance", "operation_id", "state", "outcome", "exit_code", "message")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    state: _reasons_pb2.UpstreamState
    outcome: _reasons_pb2.Outcome
    exit_code: int
    message: str
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., state: _Optional[_Union[_reasons_pb2.UpstreamState, str]] = ..., outcome: _Optional[_Union[_reasons_pb2.Outcome, str]] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class BlobsAvailable(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "report", "chunk", "last", "full", "added", "ac_pins", "mirror_pending", "mirror_pinned", "mirror_pinned_bytes")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    AC_PINS_FIELD_NUMBER: _ClassVar[int]
    MIRROR_PENDING_FIELD_NUMBER: _ClassVar[int]
    MIRROR_PINNED_FIELD_NUMBER: _ClassVar[int]
    MIRROR_PINNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    report: int
    chunk: int
    last: bool
    full: bool
    added: _common_pb2.Digests
    ac_pins: _common_pb2.Digests
    mirror_pending: int
    mirror_pinned: int
    mirror_pinned_bytes: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., report: _Optional[int] = ..., chunk: _Optional[int] = ..., last: _Optional[bool] = ..., full: _Optional[bool] = ..., added: _Optional[_Union[_common_pb2.Digests, _Mapping]] = ..., ac_pins: _Optional[_Union[_common_pb2.Digests, _Mapping]] = ..., mirror_pending: _Optional[int] = ..., mirror_pinned: _Optional[int] = ..., mirror_pinned_bytes: _Optional[int] = ...) -> None: ...

class BlobsEvicted(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "digests")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    digests: _common_pb2.Digests
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., digests: _Optional[_Union[_common_pb2.Digests, _Mapping]] = ...) -> None: ...

class PeerFetchFailed(_message.Message):
    __slots__ = ("instance", "endpoint", "boot_epoch", "digest", "failure", "reporter")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REPORTER_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    boot_epoch: int
    digest: _common_pb2.Digest
    failure: _reasons_pb2.FetchFailure
    reporter: str
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., boot_epoch: _Optional[int] = ..., digest: _Optional[_Union[_common_pb2.Digest, _Mapping]] = ..., failure: _Optional[_Union[_reasons_pb2.FetchFailure, str]] = ..., reporter: _Optional[str] = ...) -> None: ...

class BlobsStable(_message.Message):
    __slots__ = ("instance", "broadcast", "sequence", "last", "store", "digests")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    broadcast: int
    sequence: int
    last: bool
    store: str
    digests: _common_pb2.Digests
    def __init__(self, instance: _Optional[str] = ..., broadcast: _Optional[int] = ..., sequence: _Optional[int] = ..., last: _Optional[bool] = ..., store: _Optional[str] = ..., digests: _Optional[_Union[_common_pb2.Digests, _Mapping]] = ...) -> None: ...

class BlobsStableAcknowledged(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "chunk_seq")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    CHUNK_SEQ_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    chunk_seq: int
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., chunk_seq: _Optional[int] = ...) -> None: ...

class StateDigested(_message.Message):
    __slots__ = ("seq", "state_digest", "format", "next_fact_offset", "by", "role")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    by: str
    role: _reasons_pb2.DigestRole
    def __init__(self, seq: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., format: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., by: _Optional[str] = ..., role: _Optional[_Union[_reasons_pb2.DigestRole, str]] = ...) -> None: ...
