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
    IGNORE_REASON_NOT_ASKED: _ClassVar[IgnoreReason]
    IGNORE_REASON_UNKNOWN_CLIENT: _ClassVar[IgnoreReason]
    IGNORE_REASON_STALE_REPORT: _ClassVar[IgnoreReason]
    IGNORE_REASON_DUPLICATE_CHUNK: _ClassVar[IgnoreReason]
    IGNORE_REASON_CHUNK_OUT_OF_ORDER: _ClassVar[IgnoreReason]
    IGNORE_REASON_NOT_SENT: _ClassVar[IgnoreReason]
    IGNORE_REASON_STALE_EPOCH: _ClassVar[IgnoreReason]
    IGNORE_REASON_TRANSIENT_FAILURE: _ClassVar[IgnoreReason]
    IGNORE_REASON_UNKNOWN_ENDPOINT: _ClassVar[IgnoreReason]
    IGNORE_REASON_DIGEST_AHEAD: _ClassVar[IgnoreReason]
    IGNORE_REASON_DIGEST_STALE: _ClassVar[IgnoreReason]
    IGNORE_REASON_DIGEST_REPEATED: _ClassVar[IgnoreReason]
    IGNORE_REASON_DIGEST_FORMAT: _ClassVar[IgnoreReason]
    IGNORE_REASON_DIGEST_DIVERGED: _ClassVar[IgnoreReason]

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
    REJECT_REASON_INCOMPATIBLE_BUILD: _ClassVar[RejectReason]

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
    REQUEUE_CAUSE_UNACKNOWLEDGED: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_ESCALATED: _ClassVar[RequeueCause]
    REQUEUE_CAUSE_EXECUTING_TIMEOUT: _ClassVar[RequeueCause]

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
    OUTCOME_COMPLETED_FROM_CACHE: _ClassVar[Outcome]
    OUTCOME_ABANDONED: _ClassVar[Outcome]
    OUTCOME_UNSATISFIABLE: _ClassVar[Outcome]
    OUTCOME_NO_WORKER: _ClassVar[Outcome]
    OUTCOME_ESCALATION_EXHAUSTED: _ClassVar[Outcome]
    OUTCOME_CACHE_LOOKUP_FAILED: _ClassVar[Outcome]
    OUTCOME_UPSTREAM_FAILED: _ClassVar[Outcome]

class RunResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_RESULT_UNSPECIFIED: _ClassVar[RunResult]
    RUN_RESULT_EXITED: _ClassVar[RunResult]
    RUN_RESULT_TIMED_OUT: _ClassVar[RunResult]
    RUN_RESULT_INTERNAL_ERROR: _ClassVar[RunResult]
    RUN_RESULT_BACKPRESSURE: _ClassVar[RunResult]
    RUN_RESULT_KILLED: _ClassVar[RunResult]
    RUN_RESULT_FAILED_PRECONDITION: _ClassVar[RunResult]
    RUN_RESULT_OUT_OF_MEMORY: _ClassVar[RunResult]

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
    KILL_CAUSE_ABANDONED: _ClassVar[KillCause]
    KILL_CAUSE_UNACKNOWLEDGED: _ClassVar[KillCause]

class RefuseReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSE_REASON_UNSPECIFIED: _ClassVar[RefuseReason]
    REFUSE_REASON_INVALID_PROPERTY: _ClassVar[RefuseReason]
    REFUSE_REASON_UNKNOWN_INSTANCE: _ClassVar[RefuseReason]
    REFUSE_REASON_INCOMPATIBLE_BUILD: _ClassVar[RefuseReason]

class PlacementEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACEMENT_END_UNSPECIFIED: _ClassVar[PlacementEnd]
    PLACEMENT_END_FINISHED: _ClassVar[PlacementEnd]
    PLACEMENT_END_REQUEUED: _ClassVar[PlacementEnd]
    PLACEMENT_END_CANCELLED: _ClassVar[PlacementEnd]

class ClientLeaving(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLIENT_LEAVING_UNSPECIFIED: _ClassVar[ClientLeaving]
    CLIENT_LEAVING_GONE: _ClassVar[ClientLeaving]
    CLIENT_LEAVING_TIMEOUT: _ClassVar[ClientLeaving]

class HoldEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOLD_END_UNSPECIFIED: _ClassVar[HoldEnd]
    HOLD_END_PLACED: _ClassVar[HoldEnd]
    HOLD_END_GONE: _ClassVar[HoldEnd]
    HOLD_END_SUPERSEDED: _ClassVar[HoldEnd]
    HOLD_END_WORKER_LOST: _ClassVar[HoldEnd]
    HOLD_END_UNFIT: _ClassVar[HoldEnd]
    HOLD_END_EXPIRED: _ClassVar[HoldEnd]
    HOLD_END_CONFIGURED: _ClassVar[HoldEnd]

class HoldMove(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOLD_MOVE_UNSPECIFIED: _ClassVar[HoldMove]
    HOLD_MOVE_WORKER_LEFT: _ClassVar[HoldMove]
    HOLD_MOVE_DRAINED: _ClassVar[HoldMove]
    HOLD_MOVE_PAUSED: _ClassVar[HoldMove]
    HOLD_MOVE_SOONER: _ClassVar[HoldMove]

class HoldExclusion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOLD_EXCLUSION_UNSPECIFIED: _ClassVar[HoldExclusion]
    HOLD_EXCLUSION_UNFIT: _ClassVar[HoldExclusion]
    HOLD_EXCLUSION_IDLE: _ClassVar[HoldExclusion]
    HOLD_EXCLUSION_LAST: _ClassVar[HoldExclusion]
    HOLD_EXCLUSION_UNKNOWN_DURATION: _ClassVar[HoldExclusion]

class DurationSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURATION_SOURCE_UNSPECIFIED: _ClassVar[DurationSource]
    DURATION_SOURCE_MNEMONIC: _ClassVar[DurationSource]
    DURATION_SOURCE_TARGET: _ClassVar[DurationSource]
    DURATION_SOURCE_REQUIREMENT: _ClassVar[DurationSource]
    DURATION_SOURCE_PRODUCER: _ClassVar[DurationSource]
    DURATION_SOURCE_EVERY_RUN: _ClassVar[DurationSource]
    DURATION_SOURCE_UNKNOWN: _ClassVar[DurationSource]

class CacheAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CACHE_ANSWER_UNSPECIFIED: _ClassVar[CacheAnswer]
    CACHE_ANSWER_HIT: _ClassVar[CacheAnswer]
    CACHE_ANSWER_MISS: _ClassVar[CacheAnswer]
    CACHE_ANSWER_FAILED: _ClassVar[CacheAnswer]

class UpstreamState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UPSTREAM_STATE_UNSPECIFIED: _ClassVar[UpstreamState]
    UPSTREAM_STATE_PLACED: _ClassVar[UpstreamState]
    UPSTREAM_STATE_REQUEUED: _ClassVar[UpstreamState]
    UPSTREAM_STATE_FINISHED: _ClassVar[UpstreamState]
    UPSTREAM_STATE_REFUSED: _ClassVar[UpstreamState]

class Explanation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXPLANATION_UNSPECIFIED: _ClassVar[Explanation]
    EXPLANATION_INSTANCE_PAUSED: _ClassVar[Explanation]
    EXPLANATION_NO_WORKER: _ClassVar[Explanation]
    EXPLANATION_UNSATISFIABLE: _ClassVar[Explanation]
    EXPLANATION_NO_ROOM: _ClassVar[Explanation]
    EXPLANATION_NOT_TAKING: _ClassVar[Explanation]
    EXPLANATION_WORKER_HELD: _ClassVar[Explanation]
    EXPLANATION_ROOM: _ClassVar[Explanation]
    EXPLANATION_CACHE_LOOKUP: _ClassVar[Explanation]
    EXPLANATION_FORWARDED: _ClassVar[Explanation]
    EXPLANATION_PLACED: _ClassVar[Explanation]
    EXPLANATION_ACCEPTED: _ClassVar[Explanation]
    EXPLANATION_FINISHED: _ClassVar[Explanation]

class WorkerStanding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKER_STANDING_UNSPECIFIED: _ClassVar[WorkerStanding]
    WORKER_STANDING_OTHER_PROPERTIES: _ClassVar[WorkerStanding]
    WORKER_STANDING_TOO_SMALL: _ClassVar[WorkerStanding]
    WORKER_STANDING_DRAINING: _ClassVar[WorkerStanding]
    WORKER_STANDING_PAUSED: _ClassVar[WorkerStanding]
    WORKER_STANDING_FULL: _ClassVar[WorkerStanding]
    WORKER_STANDING_UNACCEPTED: _ClassVar[WorkerStanding]
    WORKER_STANDING_SHORT: _ClassVar[WorkerStanding]
    WORKER_STANDING_DECLINED: _ClassVar[WorkerStanding]
    WORKER_STANDING_VETOED: _ClassVar[WorkerStanding]
    WORKER_STANDING_HELD: _ClassVar[WorkerStanding]
    WORKER_STANDING_ROOM: _ClassVar[WorkerStanding]

class HoldAbsence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOLD_ABSENCE_UNSPECIFIED: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_OFF: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_NOTHING_WAITS: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_NOT_QUEUED: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_INSTANCE_PAUSED: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_NOT_HEAD: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_TOO_EARLY: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_EXPIRED: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_OTHER_HELD: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_NO_CANDIDATE: _ClassVar[HoldAbsence]
    HOLD_ABSENCE_NOT_OVERTAKEN: _ClassVar[HoldAbsence]

class WipeCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WIPE_CAUSE_UNSPECIFIED: _ClassVar[WipeCause]
    WIPE_CAUSE_EPOCH_CHANGED: _ClassVar[WipeCause]
    WIPE_CAUSE_NO_EPOCH: _ClassVar[WipeCause]
    WIPE_CAUSE_DISCONNECTED: _ClassVar[WipeCause]

class DigestRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIGEST_ROLE_UNSPECIFIED: _ClassVar[DigestRole]
    DIGEST_ROLE_WRITTEN: _ClassVar[DigestRole]
    DIGEST_ROLE_VERIFIED: _ClassVar[DigestRole]

class SweepCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SWEEP_CAUSE_UNSPECIFIED: _ClassVar[SweepCause]
    SWEEP_CAUSE_NEVER_RECONNECTED: _ClassVar[SweepCause]
    SWEEP_CAUSE_GONE: _ClassVar[SweepCause]

class FetchFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FETCH_FAILURE_UNSPECIFIED: _ClassVar[FetchFailure]
    FETCH_FAILURE_NOT_FOUND: _ClassVar[FetchFailure]
    FETCH_FAILURE_DATA_LOSS: _ClassVar[FetchFailure]
    FETCH_FAILURE_UNAVAILABLE: _ClassVar[FetchFailure]
    FETCH_FAILURE_DEADLINE_EXCEEDED: _ClassVar[FetchFailure]
    FETCH_FAILURE_RESOURCE_EXHAUSTED: _ClassVar[FetchFailure]
    FETCH_FAILURE_INTERNAL: _ClassVar[FetchFailure]

class DecisionDifference(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_DIFFERENCE_UNSPECIFIED: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_FIELDS: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_KIND: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_NOT_RECORDED: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_NOT_DECIDED: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_FAILED: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_DECIDABLE: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_NO_FACT: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_PASSED_OVER: _ClassVar[DecisionDifference]
    DECISION_DIFFERENCE_ELECTION: _ClassVar[DecisionDifference]
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
IGNORE_REASON_NOT_ASKED: IgnoreReason
IGNORE_REASON_UNKNOWN_CLIENT: IgnoreReason
IGNORE_REASON_STALE_REPORT: IgnoreReason
IGNORE_REASON_DUPLICATE_CHUNK: IgnoreReason
IGNORE_REASON_CHUNK_OUT_OF_ORDER: IgnoreReason
IGNORE_REASON_NOT_SENT: IgnoreReason
IGNORE_REASON_STALE_EPOCH: IgnoreReason
IGNORE_REASON_TRANSIENT_FAILURE: IgnoreReason
IGNORE_REASON_UNKNOWN_ENDPOINT: IgnoreReason
IGNORE_REASON_DIGEST_AHEAD: IgnoreReason
IGNORE_REASON_DIGEST_STALE: IgnoreReason
IGNORE_REASON_DIGEST_REPEATED: IgnoreReason
IGNORE_REASON_DIGEST_FORMAT: IgnoreReason
IGNORE_REASON_DIGEST_DIVERGED: IgnoreReason
REJECT_REASON_UNSPECIFIED: RejectReason
REJECT_REASON_UNDECODABLE: RejectReason
REJECT_REASON_INVALID_FIELD: RejectReason
REJECT_REASON_UNKNOWN_KIND: RejectReason
REJECT_REASON_UNKNOWN_INSTANCE: RejectReason
REJECT_REASON_INVALID_REQUIREMENT: RejectReason
REJECT_REASON_INVALID_PROPERTY: RejectReason
REJECT_REASON_INVALID_CONFIGURATION: RejectReason
REJECT_REASON_UNDECIDABLE: RejectReason
REJECT_REASON_INCOMPATIBLE_BUILD: RejectReason
REQUEUE_CAUSE_UNSPECIFIED: RequeueCause
REQUEUE_CAUSE_JOB_ERROR: RequeueCause
REQUEUE_CAUSE_WORKER_GONE: RequeueCause
REQUEUE_CAUSE_WORKER_TIMEOUT: RequeueCause
REQUEUE_CAUSE_WORKER_REPLACED: RequeueCause
REQUEUE_CAUSE_DECLINED: RequeueCause
REQUEUE_CAUSE_BACKPRESSURE: RequeueCause
REQUEUE_CAUSE_ACTION_TIMEOUT: RequeueCause
REQUEUE_CAUSE_KILL_OVERDUE: RequeueCause
REQUEUE_CAUSE_UNACKNOWLEDGED: RequeueCause
REQUEUE_CAUSE_ESCALATED: RequeueCause
REQUEUE_CAUSE_EXECUTING_TIMEOUT: RequeueCause
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_COMPLETED: Outcome
OUTCOME_ACTION_TIMED_OUT: Outcome
OUTCOME_JOB_RETRIES_EXHAUSTED: Outcome
OUTCOME_WORKER_LOSSES_EXHAUSTED: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_FREE_REQUEUES_EXHAUSTED: Outcome
OUTCOME_FAILED_PRECONDITION: Outcome
OUTCOME_COMPLETED_FROM_CACHE: Outcome
OUTCOME_ABANDONED: Outcome
OUTCOME_UNSATISFIABLE: Outcome
OUTCOME_NO_WORKER: Outcome
OUTCOME_ESCALATION_EXHAUSTED: Outcome
OUTCOME_CACHE_LOOKUP_FAILED: Outcome
OUTCOME_UPSTREAM_FAILED: Outcome
RUN_RESULT_UNSPECIFIED: RunResult
RUN_RESULT_EXITED: RunResult
RUN_RESULT_TIMED_OUT: RunResult
RUN_RESULT_INTERNAL_ERROR: RunResult
RUN_RESULT_BACKPRESSURE: RunResult
RUN_RESULT_KILLED: RunResult
RUN_RESULT_FAILED_PRECONDITION: RunResult
RUN_RESULT_OUT_OF_MEMORY: RunResult
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
KILL_CAUSE_ABANDONED: KillCause
KILL_CAUSE_UNACKNOWLEDGED: KillCause
REFUSE_REASON_UNSPECIFIED: RefuseReason
REFUSE_REASON_INVALID_PROPERTY: RefuseReason
REFUSE_REASON_UNKNOWN_INSTANCE: RefuseReason
REFUSE_REASON_INCOMPATIBLE_BUILD: RefuseReason
PLACEMENT_END_UNSPECIFIED: PlacementEnd
PLACEMENT_END_FINISHED: PlacementEnd
PLACEMENT_END_REQUEUED: PlacementEnd
PLACEMENT_END_CANCELLED: PlacementEnd
CLIENT_LEAVING_UNSPECIFIED: ClientLeaving
CLIENT_LEAVING_GONE: ClientLeaving
CLIENT_LEAVING_TIMEOUT: ClientLeaving
HOLD_END_UNSPECIFIED: HoldEnd
HOLD_END_PLACED: HoldEnd
HOLD_END_GONE: HoldEnd
HOLD_END_SUPERSEDED: HoldEnd
HOLD_END_WORKER_LOST: HoldEnd
HOLD_END_UNFIT: HoldEnd
HOLD_END_EXPIRED: HoldEnd
HOLD_END_CONFIGURED: HoldEnd
HOLD_MOVE_UNSPECIFIED: HoldMove
HOLD_MOVE_WORKER_LEFT: HoldMove
HOLD_MOVE_DRAINED: HoldMove
HOLD_MOVE_PAUSED: HoldMove
HOLD_MOVE_SOONER: HoldMove
HOLD_EXCLUSION_UNSPECIFIED: HoldExclusion
HOLD_EXCLUSION_UNFIT: HoldExclusion
HOLD_EXCLUSION_IDLE: HoldExclusion
HOLD_EXCLUSION_LAST: HoldExclusion
HOLD_EXCLUSION_UNKNOWN_DURATION: HoldExclusion
DURATION_SOURCE_UNSPECIFIED: DurationSource
DURATION_SOURCE_MNEMONIC: DurationSource
DURATION_SOURCE_TARGET: DurationSource
DURATION_SOURCE_REQUIREMENT: DurationSource
DURATION_SOURCE_PRODUCER: DurationSource
DURATION_SOURCE_EVERY_RUN: DurationSource
DURATION_SOURCE_UNKNOWN: DurationSource
CACHE_ANSWER_UNSPECIFIED: CacheAnswer
CACHE_ANSWER_HIT: CacheAnswer
CACHE_ANSWER_MISS: CacheAnswer
CACHE_ANSWER_FAILED: CacheAnswer
UPSTREAM_STATE_UNSPECIFIED: UpstreamState
UPSTREAM_STATE_PLACED: UpstreamState
UPSTREAM_STATE_REQUEUED: UpstreamState
UPSTREAM_STATE_FINISHED: UpstreamState
UPSTREAM_STATE_REFUSED: UpstreamState
EXPLANATION_UNSPECIFIED: Explanation
EXPLANATION_INSTANCE_PAUSED: Explanation
EXPLANATION_NO_WORKER: Explanation
EXPLANATION_UNSATISFIABLE: Explanation
EXPLANATION_NO_ROOM: Explanation
EXPLANATION_NOT_TAKING: Explanation
EXPLANATION_WORKER_HELD: Explanation
EXPLANATION_ROOM: Explanation
EXPLANATION_CACHE_LOOKUP: Explanation
EXPLANATION_FORWARDED: Explanation
EXPLANATION_PLACED: Explanation
EXPLANATION_ACCEPTED: Explanation
EXPLANATION_FINISHED: Explanation
WORKER_STANDING_UNSPECIFIED: WorkerStanding
WORKER_STANDING_OTHER_PROPERTIES: WorkerStanding
WORKER_STANDING_TOO_SMALL: WorkerStanding
WORKER_STANDING_DRAINING: WorkerStanding
WORKER_STANDING_PAUSED: WorkerStanding
WORKER_STANDING_FULL: WorkerStanding
WORKER_STANDING_UNACCEPTED: WorkerStanding
WORKER_STANDING_SHORT: WorkerStanding
WORKER_STANDING_DECLINED: WorkerStanding
WORKER_STANDING_VETOED: WorkerStanding
WORKER_STANDING_HELD: WorkerStanding
WORKER_STANDING_ROOM: WorkerStanding
HOLD_ABSENCE_UNSPECIFIED: HoldAbsence
HOLD_ABSENCE_OFF: HoldAbsence
HOLD_ABSENCE_NOTHING_WAITS: HoldAbsence
HOLD_ABSENCE_NOT_QUEUED: HoldAbsence
HOLD_ABSENCE_INSTANCE_PAUSED: HoldAbsence
HOLD_ABSENCE_NOT_HEAD: HoldAbsence
HOLD_ABSENCE_TOO_EARLY: HoldAbsence
HOLD_ABSENCE_EXPIRED: HoldAbsence
HOLD_ABSENCE_OTHER_HELD: HoldAbsence
HOLD_ABSENCE_NO_CANDIDATE: HoldAbsence
HOLD_ABSENCE_NOT_OVERTAKEN: HoldAbsence
WIPE_CAUSE_UNSPECIFIED: WipeCause
WIPE_CAUSE_EPOCH_CHANGED: WipeCause
WIPE_CAUSE_NO_EPOCH: WipeCause
WIPE_CAUSE_DISCONNECTED: WipeCause
DIGEST_ROLE_UNSPECIFIED: DigestRole
DIGEST_ROLE_WRITTEN: DigestRole
DIGEST_ROLE_VERIFIED: DigestRole
SWEEP_CAUSE_UNSPECIFIED: SweepCause
SWEEP_CAUSE_NEVER_RECONNECTED: SweepCause
SWEEP_CAUSE_GONE: SweepCause
FETCH_FAILURE_UNSPECIFIED: FetchFailure
FETCH_FAILURE_NOT_FOUND: FetchFailure
FETCH_FAILURE_DATA_LOSS: FetchFailure
FETCH_FAILURE_UNAVAILABLE: FetchFailure
FETCH_FAILURE_DEADLINE_EXCEEDED: FetchFailure
FETCH_FAILURE_RESOURCE_EXHAUSTED: FetchFailure
FETCH_FAILURE_INTERNAL: FetchFailure
DECISION_DIFFERENCE_UNSPECIFIED: DecisionDifference
DECISION_DIFFERENCE_FIELDS: DecisionDifference
DECISION_DIFFERENCE_KIND: DecisionDifference
DECISION_DIFFERENCE_NOT_RECORDED: DecisionDifference
DECISION_DIFFERENCE_NOT_DECIDED: DecisionDifference
DECISION_DIFFERENCE_FAILED: DecisionDifference
DECISION_DIFFERENCE_DECIDABLE: DecisionDifference
DECISION_DIFFERENCE_NO_FACT: DecisionDifference
DECISION_DIFFERENCE_PASSED_OVER: DecisionDifference
DECISION_DIFFERENCE_ELECTION: DecisionDifference
SENTENCE_FIELD_NUMBER: _ClassVar[int]
sentence: _descriptor.FieldDescriptor
