"""Reasons as enums: why a fact was ignored, why an operation was requeued, how it ended.

The numbers are the wire contract's (proto/headway/v1/reasons.proto); a test holds both together. The sentence of each value stands in
the contract too, so that every language that reads the log can print it.
"""

from enum import IntEnum
from typing import cast

from proto.gen.headway.v1 import reasons_pb2


class IgnoreReason(IntEnum):
    """Why a well-formed fact changed nothing. Each is counted."""

    UNSPECIFIED = 0
    DUPLICATE_OPERATION = 1
    UNKNOWN_OPERATION = 2
    OPERATION_FINISHED = 3
    UNKNOWN_WORKER = 4
    STALE_CONNECTION = 5
    DISPATCH_NOT_CURRENT = 6
    NO_CHANGE = 7
    KEY_PARKED = 8
    DUPLICATE_CONNECTION = 9
    ALREADY_ACCEPTED = 10
    NOT_ASKED = 11
    UNKNOWN_CLIENT = 12
    STALE_REPORT = 13
    DUPLICATE_CHUNK = 14
    CHUNK_OUT_OF_ORDER = 15
    NOT_SENT = 16
    STALE_EPOCH = 17
    TRANSIENT_FAILURE = 18
    UNKNOWN_ENDPOINT = 19
    DIGEST_AHEAD = 20
    DIGEST_STALE = 21
    DIGEST_REPEATED = 22
    DIGEST_FORMAT = 23
    DIGEST_DIVERGED = 24


class RejectReason(IntEnum):
    """Why a fact was refused. The raw bytes stand in the dead letters, written in the same transaction."""

    UNSPECIFIED = 0
    UNDECODABLE = 1
    INVALID_FIELD = 2
    UNKNOWN_KIND = 3
    UNKNOWN_INSTANCE = 4
    INVALID_REQUIREMENT = 5
    INVALID_PROPERTY = 6
    INVALID_CONFIGURATION = 7
    UNDECIDABLE = 8
    INCOMPATIBLE_BUILD = 9


class RequeueCause(IntEnum):
    """Why an operation went back to the queue."""

    UNSPECIFIED = 0
    JOB_ERROR = 1
    WORKER_GONE = 2
    WORKER_TIMEOUT = 3
    WORKER_REPLACED = 4
    DECLINED = 5
    BACKPRESSURE = 6
    ACTION_TIMEOUT = 7
    KILL_OVERDUE = 8
    UNACKNOWLEDGED = 9
    ESCALATED = 10
    EXECUTING_TIMEOUT = 11


class Outcome(IntEnum):
    """How an operation ended."""

    UNSPECIFIED = 0
    COMPLETED = 1
    ACTION_TIMED_OUT = 2
    JOB_RETRIES_EXHAUSTED = 3
    WORKER_LOSSES_EXHAUSTED = 4
    CANCELLED = 5
    FREE_REQUEUES_EXHAUSTED = 6
    FAILED_PRECONDITION = 7
    COMPLETED_FROM_CACHE = 8
    ABANDONED = 9
    UNSATISFIABLE = 10
    NO_WORKER = 11
    ESCALATION_EXHAUSTED = 12
    CACHE_LOOKUP_FAILED = 13
    UPSTREAM_FAILED = 14


class RunResult(IntEnum):
    """What a worker says of a run."""

    UNSPECIFIED = 0
    EXITED = 1
    TIMED_OUT = 2
    INTERNAL_ERROR = 3
    BACKPRESSURE = 4
    KILLED = 5
    FAILED_PRECONDITION = 6
    OUT_OF_MEMORY = 7


class DeclineReason(IntEnum):
    """Why a worker declines a dispatch."""

    UNSPECIFIED = 0
    MEMORY = 1
    SHUTTING_DOWN = 2
    FULL = 3


class DisconnectReason(IntEnum):
    """Why a worker is no longer connected."""

    UNSPECIFIED = 0
    GONE = 1
    TIMEOUT = 2
    REMOVED = 3
    KILL_OVERDUE = 4


class KillCause(IntEnum):
    """Why a run is to be stopped."""

    UNSPECIFIED = 0
    CANCELLED = 1
    NOT_CURRENT = 2
    ACTION_TIMEOUT = 3
    ABANDONED = 4
    UNACKNOWLEDGED = 5


class RefuseReason(IntEnum):
    """Why a worker was not admitted."""

    UNSPECIFIED = 0
    INVALID_PROPERTY = 1
    UNKNOWN_INSTANCE = 2
    INCOMPATIBLE_BUILD = 3


class PlacementEnd(IntEnum):
    """How a placement ended."""

    UNSPECIFIED = 0
    FINISHED = 1
    REQUEUED = 2
    CANCELLED = 3


class ClientLeaving(IntEnum):
    """Why a client no longer counts."""

    UNSPECIFIED = 0
    GONE = 1
    TIMEOUT = 2


class HoldEnd(IntEnum):
    """Why a hold ended."""

    UNSPECIFIED = 0
    PLACED = 1
    GONE = 2
    SUPERSEDED = 3
    WORKER_LOST = 4
    UNFIT = 5
    EXPIRED = 6
    CONFIGURED = 7


class HoldMove(IntEnum):
    """Why a hold went to another worker."""

    UNSPECIFIED = 0
    WORKER_LEFT = 1
    DRAINED = 2
    PAUSED = 3
    SOONER = 4


class HoldExclusion(IntEnum):
    """Why a worker could not be held for an operation."""

    UNSPECIFIED = 0
    UNFIT = 1
    IDLE = 2
    LAST = 3
    UNKNOWN_DURATION = 4


class DurationSource(IntEnum):
    """Where it is known from how long a run is expected to go on."""

    UNSPECIFIED = 0
    MNEMONIC = 1
    TARGET = 2
    REQUIREMENT = 3
    PRODUCER = 4
    EVERY_RUN = 5
    UNKNOWN = 6


class CacheAnswer(IntEnum):
    """What the action cache said."""

    UNSPECIFIED = 0
    HIT = 1
    MISS = 2
    FAILED = 3


class UpstreamState(IntEnum):
    """Where a forwarded operation stands upstream."""

    UNSPECIFIED = 0
    PLACED = 1
    REQUEUED = 2
    FINISHED = 3
    REFUSED = 4


class WipeCause(IntEnum):
    """Why what an endpoint held no longer counts."""

    UNSPECIFIED = 0
    EPOCH_CHANGED = 1
    NO_EPOCH = 2
    DISCONNECTED = 3


class DigestRole(IntEnum):
    """What a follower digested."""

    UNSPECIFIED = 0
    WRITTEN = 1
    VERIFIED = 2


class SweepCause(IntEnum):
    """Why an endpoint was forgotten."""

    UNSPECIFIED = 0
    NEVER_RECONNECTED = 1
    GONE = 2


class FetchFailure(IntEnum):
    """Why a blob could not be fetched from an endpoint."""

    UNSPECIFIED = 0
    NOT_FOUND = 1
    DATA_LOSS = 2
    UNAVAILABLE = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 5
    INTERNAL = 6


class Explanation(IntEnum):
    """Why an operation stands where it does now. Not recorded: the read side tells it from its rows."""

    UNSPECIFIED = 0
    INSTANCE_PAUSED = 1
    NO_WORKER = 2
    UNSATISFIABLE = 3
    NO_ROOM = 4
    NOT_TAKING = 5
    WORKER_HELD = 6
    ROOM = 7
    CACHE_LOOKUP = 8
    FORWARDED = 9
    PLACED = 10
    ACCEPTED = 11
    FINISHED = 12


class WorkerStanding(IntEnum):
    """What keeps a worker from taking an operation now; the first of these that holds."""

    UNSPECIFIED = 0
    OTHER_PROPERTIES = 1
    TOO_SMALL = 2
    DRAINING = 3
    PAUSED = 4
    FULL = 5
    UNACCEPTED = 6
    SHORT = 7
    DECLINED = 8
    VETOED = 9
    HELD = 10
    ROOM = 11


class HoldAbsence(IntEnum):
    """Why no worker is held for an operation."""

    UNSPECIFIED = 0
    OFF = 1
    NOTHING_WAITS = 2
    NOT_QUEUED = 3
    INSTANCE_PAUSED = 4
    NOT_HEAD = 5
    TOO_EARLY = 6
    EXPIRED = 7
    OTHER_HELD = 8
    NO_CANDIDATE = 9
    NOT_OVERTAKEN = 10


class DecisionDifference(IntEnum):
    """How what a build decides for a fact differs from what stands in the log."""

    UNSPECIFIED = 0
    FIELDS = 1
    KIND = 2
    NOT_RECORDED = 3
    NOT_DECIDED = 4
    FAILED = 5
    DECIDABLE = 6
    NO_FACT = 7
    PASSED_OVER = 8
    ELECTION = 9


def sentence(reason: IntEnum) -> str:
    """The sentence a person reads for `reason`, from the wire contract; empty for UNSPECIFIED."""
    enum = reasons_pb2.DESCRIPTOR.enum_types_by_name[type(reason).__name__]
    value = enum.values_by_number[int(reason)]
    return cast(str, value.GetOptions().Extensions[reasons_pb2.sentence])
