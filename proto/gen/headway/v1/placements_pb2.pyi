from proto.gen.headway.v1 import common_pb2 as _common_pb2
from proto.gen.headway.v1 import reasons_pb2 as _reasons_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Placement(_message.Message):
    __slots__ = ("action_placed", "placement_ended")
    ACTION_PLACED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_ENDED_FIELD_NUMBER: _ClassVar[int]
    action_placed: ActionPlaced
    placement_ended: PlacementEnded
    def __init__(self, action_placed: _Optional[_Union[ActionPlaced, _Mapping]] = ..., placement_ended: _Optional[_Union[PlacementEnded, _Mapping]] = ...) -> None: ...

class ActionPlaced(_message.Message):
    __slots__ = ("instance", "operation_id", "client_operation_id", "dispatch_id", "endpoint", "connection_id", "requirements", "action_digest", "queued_at_us", "placed_at_us", "timeout_us", "expected_duration_us", "command", "target_id", "mnemonic", "attempt", "redelivered", "cacheable")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    ACTION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_US_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_US_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_DURATION_US_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MNEMONIC_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    CACHEABLE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    client_operation_id: str
    dispatch_id: int
    endpoint: str
    connection_id: int
    requirements: _common_pb2.Requirements
    action_digest: _common_pb2.Digest
    queued_at_us: int
    placed_at_us: int
    timeout_us: int
    expected_duration_us: int
    command: _common_pb2.Command
    target_id: str
    mnemonic: str
    attempt: int
    redelivered: bool
    cacheable: bool
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., client_operation_id: _Optional[str] = ..., dispatch_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., connection_id: _Optional[int] = ..., requirements: _Optional[_Union[_common_pb2.Requirements, _Mapping]] = ..., action_digest: _Optional[_Union[_common_pb2.Digest, _Mapping]] = ..., queued_at_us: _Optional[int] = ..., placed_at_us: _Optional[int] = ..., timeout_us: _Optional[int] = ..., expected_duration_us: _Optional[int] = ..., command: _Optional[_Union[_common_pb2.Command, _Mapping]] = ..., target_id: _Optional[str] = ..., mnemonic: _Optional[str] = ..., attempt: _Optional[int] = ..., redelivered: _Optional[bool] = ..., cacheable: _Optional[bool] = ...) -> None: ...

class PlacementEnded(_message.Message):
    __slots__ = ("instance", "operation_id", "client_operation_id", "dispatch_id", "endpoint", "end", "seq", "ended_at_us", "outcome", "cause", "exit_code", "message")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    operation_id: int
    client_operation_id: str
    dispatch_id: int
    endpoint: str
    end: _reasons_pb2.PlacementEnd
    seq: int
    ended_at_us: int
    outcome: _reasons_pb2.Outcome
    cause: _reasons_pb2.RequeueCause
    exit_code: int
    message: str
    def __init__(self, instance: _Optional[str] = ..., operation_id: _Optional[int] = ..., client_operation_id: _Optional[str] = ..., dispatch_id: _Optional[int] = ..., endpoint: _Optional[str] = ..., end: _Optional[_Union[_reasons_pb2.PlacementEnd, str]] = ..., seq: _Optional[int] = ..., ended_at_us: _Optional[int] = ..., outcome: _Optional[_Union[_reasons_pb2.Outcome, str]] = ..., cause: _Optional[_Union[_reasons_pb2.RequeueCause, str]] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...
