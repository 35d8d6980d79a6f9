from proto.gen.headway.v1 import events_pb2 as _events_pb2
from proto.gen.headway.v1 import reasons_pb2 as _reasons_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Audit(_message.Message):
    __slots__ = ("auditor", "events_topic_id", "shadow_diverged", "shadow_progress")
    AUDITOR_FIELD_NUMBER: _ClassVar[int]
    EVENTS_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SHADOW_DIVERGED_FIELD_NUMBER: _ClassVar[int]
    SHADOW_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    auditor: str
    events_topic_id: str
    shadow_diverged: ShadowDiverged
    shadow_progress: ShadowProgress
    def __init__(self, auditor: _Optional[str] = ..., events_topic_id: _Optional[str] = ..., shadow_diverged: _Optional[_Union[ShadowDiverged, _Mapping]] = ..., shadow_progress: _Optional[_Union[ShadowProgress, _Mapping]] = ...) -> None: ...

class ShadowDiverged(_message.Message):
    __slots__ = ("seq", "offset", "cause_offset", "fact_kind", "difference", "fields", "error", "leader_epoch", "build", "recorded_count", "decided_count", "shown_from", "recorded", "decided")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CAUSE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FACT_KIND_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    RECORDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DECIDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FROM_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    offset: int
    cause_offset: int
    fact_kind: str
    difference: _reasons_pb2.DecisionDifference
    fields: _containers.RepeatedScalarFieldContainer[str]
    error: str
    leader_epoch: int
    build: str
    recorded_count: int
    decided_count: int
    shown_from: int
    recorded: _containers.RepeatedCompositeFieldContainer[_events_pb2.Event]
    decided: _containers.RepeatedCompositeFieldContainer[_events_pb2.Event]
    def __init__(self, seq: _Optional[int] = ..., offset: _Optional[int] = ..., cause_offset: _Optional[int] = ..., fact_kind: _Optional[str] = ..., difference: _Optional[_Union[_reasons_pb2.DecisionDifference, str]] = ..., fields: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ..., leader_epoch: _Optional[int] = ..., build: _Optional[str] = ..., recorded_count: _Optional[int] = ..., decided_count: _Optional[int] = ..., shown_from: _Optional[int] = ..., recorded: _Optional[_Iterable[_Union[_events_pb2.Event, _Mapping]]] = ..., decided: _Optional[_Iterable[_Union[_events_pb2.Event, _Mapping]]] = ...) -> None: ...

class ShadowProgress(_message.Message):
    __slots__ = ("seq", "next_fact_offset", "facts", "events", "elections", "not_judged", "refused", "written_off", "divergences")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    NEXT_FACT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ELECTIONS_FIELD_NUMBER: _ClassVar[int]
    NOT_JUDGED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_OFF_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCES_FIELD_NUMBER: _ClassVar[int]
    seq: int
    next_fact_offset: int
    facts: int
    events: int
    elections: int
    not_judged: int
    refused: int
    written_off: int
    divergences: int
    def __init__(self, seq: _Optional[int] = ..., next_fact_offset: _Optional[int] = ..., facts: _Optional[int] = ..., events: _Optional[int] = ..., elections: _Optional[int] = ..., not_judged: _Optional[int] = ..., refused: _Optional[int] = ..., written_off: _Optional[int] = ..., divergences: _Optional[int] = ...) -> None: ...
