from proto.gen.headway.v1 import common_pb2 as _common_pb2
from proto.gen.headway.v1 import reasons_pb2 as _reasons_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerCommand(_message.Message):
    __slots__ = ("instance", "endpoint", "connection_id", "seq", "admitted", "refused", "evicted", "kill_requested", "blobs_stable")
    class WorkerAdmitted(_message.Message):
        __slots__ = ("kept", "worker_timeout_us", "small_blob_mirror")
        KEPT_FIELD_NUMBER: _ClassVar[int]
        WORKER_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
        SMALL_BLOB_MIRROR_FIELD_NUMBER: _ClassVar[int]
        kept: _containers.RepeatedScalarFieldContainer[int]
        worker_timeout_us: int
        small_blob_mirror: bool
        def __init__(self, kept: _Optional[_Iterable[int]] = ..., worker_timeout_us: _Optional[int] = ..., small_blob_mirror: _Optional[bool] = ...) -> None: ...
    class WorkerRefused(_message.Message):
        __slots__ = ("reason", "field", "value")
        REASON_FIELD_NUMBER: _ClassVar[int]
        FIELD_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        reason: _reasons_pb2.RefuseReason
        field: str
        value: str
        def __init__(self, reason: _Optional[_Union[_reasons_pb2.RefuseReason, str]] = ..., field: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class WorkerEvicted(_message.Message):
        __slots__ = ("reason",)
        REASON_FIELD_NUMBER: _ClassVar[int]
        reason: _reasons_pb2.DisconnectReason
        def __init__(self, reason: _Optional[_Union[_reasons_pb2.DisconnectReason, str]] = ...) -> None: ...
    class KillRequested(_message.Message):
        __slots__ = ("operation_id", "dispatch_id", "cause")
        OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
        DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
        CAUSE_FIELD_NUMBER: _ClassVar[int]
        operation_id: int
        dispatch_id: int
        cause: _reasons_pb2.KillCause
        def __init__(self, operation_id: _Optional[int] = ..., dispatch_id: _Optional[int] = ..., cause: _Optional[_Union[_reasons_pb2.KillCause, str]] = ...) -> None: ...
    class BlobsStable(_message.Message):
        __slots__ = ("chunk_seq", "broadcast", "sequence", "last", "store", "digests")
        CHUNK_SEQ_FIELD_NUMBER: _ClassVar[int]
        BROADCAST_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        LAST_FIELD_NUMBER: _ClassVar[int]
        STORE_FIELD_NUMBER: _ClassVar[int]
        DIGESTS_FIELD_NUMBER: _ClassVar[int]
        chunk_seq: int
        broadcast: int
        sequence: int
        last: bool
        store: str
        digests: _common_pb2.Digests
        def __init__(self, chunk_seq: _Optional[int] = ..., broadcast: _Optional[int] = ..., sequence: _Optional[int] = ..., last: _Optional[bool] = ..., store: _Optional[str] = ..., digests: _Optional[_Union[_common_pb2.Digests, _Mapping]] = ...) -> None: ...
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    KILL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    BLOBS_STABLE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    endpoint: str
    connection_id: int
    seq: int
    admitted: WorkerCommand.WorkerAdmitted
    refused: WorkerCommand.WorkerRefused
    evicted: WorkerCommand.WorkerEvicted
    kill_requested: WorkerCommand.KillRequested
    blobs_stable: WorkerCommand.BlobsStable
    def __init__(self, instance: _Optional[str] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., seq: _Optional[int] = ..., admitted: _Optional[_Union[WorkerCommand.WorkerAdmitted, _Mapping]] = ..., refused: _Optional[_Union[WorkerCommand.WorkerRefused, _Mapping]] = ..., evicted: _Optional[_Union[WorkerCommand.WorkerEvicted, _Mapping]] = ..., kill_requested: _Optional[_Union[WorkerCommand.KillRequested, _Mapping]] = ..., blobs_stable: _Optional[_Union[WorkerCommand.BlobsStable, _Mapping]] = ...) -> None: ...
