from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class IgnoreReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IGNORE_REASON_UNSPECIFIED: _ClassVar[IgnoreReason]
    IGNORE_REASON_DUPLICATE_OPERATION: _ClassVar[IgnoreReason]
    IGNORE_REASON_UNKNOWN_OPERATION: _ClassVar[IgnoreReason]
    IGNORE_REASON_OPERATION_FINISHED: _ClassVar[IgnoreReason]
    IGNORE_REASON_UNKNOWN_WORKER: _ClassVar[IgnoreReason]
    IGNORE_REASON_STALE_CONNECTION: _ClassVar[IgnoreReason]
    IGNORE_REASON_DISPATCH_NOT_CURRENT: _ClassVar[IgnoreReason]
    IGNORE_REASON_NO_CHANGE: _ClassVar[IgnoreReason]
    IGNORE_REASON_KEY_PARKED: _ClassVar[IgnoreReason]
    IGNORE_REASON_DUPLICATE_CONNECTION: _ClassVar[IgnoreReason]
    IGNORE_REASON_ALREADY_ACCEPTED: _ClassVar[IgnoreReason]

class RejectReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJECT_REASON_UNSPECIFIED: _ClassVar[RejectReason]
    REJECT_REASON_UNDECODABLE: _ClassVar[RejectReason]
    REJECT_REASON_INVALID_FIELD: _ClassVar[RejectReason]
    REJECT_REASON_UNKNOWN_KIND: _ClassVar[RejectReason]
    REJECT_REASON_UNKNOWN_INSTANCE: _ClassVar[RejectReason]
    REJECT_REASON_INVALID_REQUIREMENT: _ClassVar[RejectReason]
    REJECT_REASON_INVALID_PROPERTY: _ClassVar[RejectReason]
    REJECT_REASON_INVALID_CONFIGURATION: _ClassVar[RejectReason]
    REJECT_REASON_UNDECIDABLE: _ClassVar[RejectReason]

class RequeueCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUEUE_CAUSE_UNSPECIFIED: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_JOB_ERROR: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_WORKER_GONE: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_WORKER_TIMEOUT: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_WORKER_REPLACED: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_DECLINED: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_BACKPRESSURE: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_ACTION_TIMEOUT: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_KILL_OVERDUE: _ClassVar[RequeueCause]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_COMPLETED: _ClassVar[Outcome]
    OUTCOME_ACTION_TIMED_OUT: _ClassVar[Outcome]
    OUTCOME_JOB_RETRIES_EXHAUSTED: _ClassVar[Outcome]
    OUTCOME_WORKER_LOSSES_EXHAUSTED: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]
    OUTCOME_FREE_REQUEUES_EXHAUSTED: _ClassVar[Outcome]
    OUTCOME_FAILED_PRECONDITION: _ClassVar[Outcome]

class RunResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_RESULT_UNSPECIFIED: _ClassVar[RunResult]
    RUN_RESULT_EXITED: _ClassVar[RunResult]
    RUN_RESULT_TIMED_OUT: _ClassVar[RunResult]
    RUN_RESULT_INTERNAL_ERROR: _ClassVar[RunResult]
    RUN_RESULT_BACKPRESSURE: _ClassVar[RunResult]
    RUN_RESULT_KILLED: _ClassVar[RunResult]
    RUN_RESULT_FAILED_PRECONDITION: _ClassVar[RunResult]

class DeclineReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECLINE_REASON_UNSPECIFIED: _ClassVar[DeclineReason]
    DECLINE_REASON_MEMORY: _ClassVar[DeclineReason]
    DECLINE_REASON_SHUTTING_DOWN: _ClassVar[DeclineReason]
    DECLINE_REASON_FULL: _ClassVar[DeclineReason]

class DisconnectReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISCONNECT_REASON_UNSPECIFIED: _ClassVar[DisconnectReason]
    DISCONNECT_REASON_GONE: _ClassVar[DisconnectReason]
    DISCONNECT_REASON_TIMEOUT: _ClassVar[DisconnectReason]
    DISCONNECT_REASON_REMOVED: _ClassVar[DisconnectReason]
    DISCONNECT_REASON_KILL_OVERDUE: _ClassVar[DisconnectReason]

class KillCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KILL_CAUSE_UNSPECIFIED: _ClassVar[KillCause]
    KILL_CAUSE_CANCELLED: _ClassVar[KillCause]
    KILL_CAUSE_NOT_CURRENT: _ClassVar[KillCause]
    KILL_CAUSE_ACTION_TIMEOUT: _ClassVar[KillCause]

class RefuseReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSE_REASON_UNSPECIFIED: _ClassVar[RefuseReason]
    REFUSE_REASON_INVALID_PROPERTY: _ClassVar[RefuseReason]
    REFUSE_REASON_UNKNOWN_INSTANCE: _ClassVar[RefuseReason]

class PlacementEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACEMENT_END_UNSPECIFIED: _ClassVar[PlacementEnd]
    PLACEMENT_END_FINISHED: _ClassVar[PlacementEnd]
    PLACEMENT_END_REQUEUED: _ClassVar[PlacementEnd]
    PLACEMENT_END_CANCELLED: _ClassVar[PlacementEnd]
IGNORE_REASON_UNSPECIFIED: IgnoreReason
IGNORE_REASON_DUPLICATE_OPERATION: IgnoreReason
IGNORE_REASON_UNKNOWN_OPERATION: IgnoreReason
IGNORE_REASON_OPERATION_FINISHED: IgnoreReason
IGNORE_REASON_UNKNOWN_WORKER: IgnoreReason
IGNORE_REASON_STALE_CONNECTION: IgnoreReason
IGNORE_REASON_DISPATCH_NOT_CURRENT: IgnoreReason
IGNORE_REASON_NO_CHANGE: IgnoreReason
IGNORE_REASON_KEY_PARKED: IgnoreReason
IGNORE_REASON_DUPLICATE_CONNECTION: IgnoreReason
IGNORE_REASON_ALREADY_ACCEPTED: IgnoreReason
REJECT_REASON_UNSPECIFIED: RejectReason
REJECT_REASON_UNDECODABLE: RejectReason
REJECT_REASON_INVALID_FIELD: RejectReason
REJECT_REASON_UNKNOWN_KIND: RejectReason
REJECT_REASON_UNKNOWN_INSTANCE: RejectReason
REJECT_REASON_INVALID_REQUIREMENT: RejectReason
REJECT_REASON_INVALID_PROPERTY: RejectReason
REJECT_REASON_INVALID_CONFIGURATION: RejectReason
REJECT_REASON_UNDECIDABLE: RejectReason
REQUEUE_CAUSE_UNSPECIFIED: RequeueCause
REQUEUE_CAUSE_JOB_ERROR: RequeueCause
REQUEUE_CAUSE_WORKER_GONE: RequeueCause
REQUEUE_CAUSE_WORKER_TIMEOUT: RequeueCause
REQUEUE_CAUSE_WORKER_REPLACED: RequeueCause
REQUEUE_CAUSE_DECLINED: RequeueCause
REQUEUE_CAUSE_BACKPRESSURE: RequeueCause
REQUEUE_CAUSE_ACTION_TIMEOUT: RequeueCause
REQUEUE_CAUSE_KILL_OVERDUE: RequeueCause
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_COMPLETED: Outcome
OUTCOME_ACTION_TIMED_OUT: Outcome
OUTCOME_JOB_RETRIES_EXHAUSTED: Outcome
OUTCOME_WORKER_LOSSES_EXHAUSTED: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_FREE_REQUEUES_EXHAUSTED: Outcome
OUTCOME_FAILED_PRECONDITION: Outcome
RUN_RESULT_UNSPECIFIED: RunResult
RUN_RESULT_EXITED: RunResult
RUN_RESULT_TIMED_OUT: RunResult
RUN_RESULT_INTERNAL_ERROR: RunResult
RUN_RESULT_BACKPRESSURE: RunResult
RUN_RESULT_KILLED: RunResult
RUN_RESULT_FAILED_PRECONDITION: RunResult
DECLINE_REASON_UNSPECIFIED: DeclineReason
DECLINE_REASON_MEMORY: DeclineReason
DECLINE_REASON_SHUTTING_DOWN: DeclineReason
DECLINE_REASON_FULL: DeclineReason
DISCONNECT_REASON_UNSPECIFIED: DisconnectReason
DISCONNECT_REASON_GONE: DisconnectReason
DISCONNECT_REASON_TIMEOUT: DisconnectReason
DISCONNECT_REASON_REMOVED: DisconnectReason
DISCONNECT_REASON_KILL_OVERDUE: DisconnectReason
KILL_CAUSE_UNSPECIFIED: KillCause
KILL_CAUSE_CANCELLED: KillCause
KILL_CAUSE_NOT_CURRENT: KillCause
KILL_CAUSE_ACTION_TIMEOUT: KillCause
REFUSE_REASON_UNSPECIFIED: RefuseReason
REFUSE_REASON_INVALID_PROPERTY: RefuseReason
REFUSE_REASON_UNKNOWN_INSTANCE: RefuseReason
PLACEMENT_END_UNSPECIFIED: PlacementEnd
PLACEMENT_END_FINISHED: PlacementEnd
PLACEMENT_END_REQUEUED: PlacementEnd
PLACEMENT_END_CANCELLED: PlacementEnd
SENTENCE_FIELD_NUMBER: _ClassVar[int]
sentence: _descriptor.FieldDescriptor
