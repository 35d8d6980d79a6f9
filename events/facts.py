"""Facts: what the world says. One class per message of proto/headway/v1/facts.proto, with the same names.

A fact is an input of `decide`; it never changes state by itself. Requirements arrive as canonical bytes (a serialised
`Requirements` message, sorted by name), commands and lists of digests as opaque bytes (serialised `Command` and `Digests` messages):
the core interns the first and never looks into the others.
"""

from dataclasses import dataclass

from events.reasons import (
    CacheAnswer,
    DeclineReason,
    DigestRole,
    FetchFailure,
    Outcome,
    RejectReason,
    RunResult,
    UpstreamState,
)
from events.values import NO_DIGEST, NO_USAGE, Digest, Properties, ResourceHint, Usage


@dataclass(slots=True)
class ActionQueued:
    """A producer wants an action run. `client_operation_id` comes from the producer; a repeated one is a duplicate."""

    instance: str
    client_operation_id: str
    requirements: bytes = b""
    priority: int = 0
    queued_at_us: int = 0  # 0: the append time
    client_id: str = ""
    invocation_id: str = ""
    attached: bool = False
    action_digest: Digest = NO_DIGEST
    cacheable: bool = False
    skip_cache_lookup: bool = False
    timeout_us: int = 0  # 0: none
    expected_duration_us: int = 0  # 0: unknown
    command: bytes = b""
    target_id: str = ""
    mnemonic: str = ""


@dataclass(slots=True)
class WorkerConnected:
    """A worker connects: `connection_id` is drawn at each connect, `boot_epoch` once per process (0: it has none)."""

    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    properties: Properties = ()
    max_inflight: int = 0  # 0: no limit
    build: str = ""
    running: tuple[int, ...] = ()  # dispatch ids it still runs
    admits_when_idle: bool = False  # holding nothing, it takes whatever fits its totals
    blobs_url: str = ""  # where others fetch its blobs, http://host:port; empty: nowhere


@dataclass(slots=True)
class WorkerReported:
    """A keepalive; `free_memory_kib` None means not measured."""

    instance: str
    endpoint: str
    connection_id: int
    free_memory_kib: int | None = None


@dataclass(slots=True)
class WorkerDrained:
    """No new work for this worker; what runs goes on (R1)."""

    instance: str
    endpoint: str


@dataclass(slots=True)
class WorkerUndrained:
    """The worker takes work again (R1)."""

    instance: str
    endpoint: str


@dataclass(slots=True)
class WorkerGone:
    """The worker leaves, or an operator removes it (`connection_id` 0)."""

    instance: str
    endpoint: str
    connection_id: int = 0


@dataclass(slots=True)
class DispatchAccepted:
    """The worker has taken the dispatch and runs it."""

    instance: str
    endpoint: str
    connection_id: int
    dispatch_id: int


@dataclass(slots=True)
class DispatchDeclined:
    """The worker refuses the dispatch; the operation goes back untried (B3)."""

    instance: str
    endpoint: str
    connection_id: int
    dispatch_id: int
    reason: DeclineReason = DeclineReason.UNSPECIFIED
    needed_kib: int = 0
    free_kib: int = 0


@dataclass(slots=True)
class ActionFinished:
    """The worker's final report on a dispatch."""

    instance: str
    endpoint: str
    connection_id: int
    dispatch_id: int
    result: RunResult = RunResult.EXITED
    exit_code: int = 0
    message: str = ""
    stdout_tail: bytes = b""
    stderr_tail: bytes = b""
    usage: Usage = NO_USAGE


@dataclass(slots=True)
class CancelRequested:
    """An operator or producer cancels an operation, named by exactly one of the two ids."""

    instance: str
    operation_id: int | None = None
    client_operation_id: str = ""


@dataclass(slots=True)
class PriorityRequested:
    """An operator gives an operation another priority; its queued time stays."""

    instance: str
    operation_id: int | None = None
    client_operation_id: str = ""
    priority: int = 0


@dataclass(slots=True)
class InstancePaused:
    """Nothing is placed in this instance until it is resumed; facts are taken as ever."""

    instance: str


@dataclass(slots=True)
class InstanceResumed:
    """Placing goes on."""

    instance: str


@dataclass(slots=True)
class Configured:
    """The configuration of an instance, as JSON of the tagged union in events/config.py."""

    instance: str
    config_json: str


@dataclass(slots=True)
class Tick:
    """Time passed."""


@dataclass(slots=True)
class KeyReleased:
    """An operator releases a parked key."""

    key: str


@dataclass(slots=True)
class ClientHeard:
    """A client that waits for its operation is still there (C1)."""

    instance: str
    client_operation_id: str


@dataclass(slots=True)
class ClientGone:
    """The client no longer waits."""

    instance: str
    client_operation_id: str


@dataclass(slots=True)
class CacheAnswered:
    """The cache edge answers `CacheLookupRequested` (D1)."""

    instance: str
    operation_id: int
    answer: CacheAnswer
    exit_code: int = 0
    message: str = ""


@dataclass(slots=True)
class HintsLoaded:
    """Replaces the resource hints of the instance (D3)."""

    instance: str
    hints: tuple[ResourceHint, ...] = ()


@dataclass(slots=True)
class UpstreamReported:
    """The upstream edge relays what became of a forwarded operation."""

    instance: str
    operation_id: int
    state: UpstreamState
    outcome: Outcome = Outcome.UNSPECIFIED
    exit_code: int = 0
    message: str = ""


@dataclass(slots=True)
class BlobsAvailable:
    """A worker says which blobs it holds: one chunk of a report (PM8). Digests are serialised `Digests`, at most 4,096 each."""

    instance: str
    endpoint: str
    connection_id: int
    report: int  # from 1, rising within a connection; a newer one abandons an unfinished one
    chunk: int = 0
    last: bool = True
    full: bool = False  # once the last chunk is in, what this report does not name is gone
    added: bytes = b""
    ac_pins: bytes = b""  # those of all chunks together replace the endpoint's set with the last chunk
    mirror_pending: int = 0
    mirror_pinned: int = 0
    mirror_pinned_bytes: int = 0


@dataclass(slots=True)
class BlobsEvicted:
    """A worker no longer holds these blobs."""

    instance: str
    endpoint: str
    connection_id: int
    digests: bytes


@dataclass(slots=True)
class PeerFetchFailed:
    """`reporter` could not fetch a blob from `endpoint`, which was said to hold it (PM11)."""

    instance: str
    endpoint: str
    digest: Digest
    failure: FetchFailure
    boot_epoch: int = 0  # of the peer, as it was told to whoever asked; 0: not known
    reporter: str = ""


@dataclass(slots=True)
class BlobsStable:
    """Blobs are in durable storage: one chunk of a broadcast (S-1, S-8, PF1)."""

    instance: str
    broadcast: int
    sequence: int = 0
    last: bool = True
    store: str = ""  # empty: content; "ac": the action cache
    digests: bytes = b""


@dataclass(slots=True)
class BlobsStableAcknowledged:
    """A worker has taken a chunk of stable blobs (S-3, S-7)."""

    instance: str
    endpoint: str
    connection_id: int
    chunk_seq: int


@dataclass(slots=True)
class StateDigested:
    """A follower has digested the state of the shard after event `seq` (events/snapshot); `by` names it."""

    seq: int
    state_digest: bytes
    format: int  # of what was digested
    next_fact_offset: int  # the first fact that those events do not answer
    by: str
    role: DigestRole


@dataclass(slots=True)
class Unreadable:
    """What the edge makes of a record that is no valid fact, so that it too yields an event. Not in the wire contract."""

    reason: RejectReason
    fact_kind: str = ""
    field: str = ""
    value: str = ""
    rule: str = ""
    instance: str = ""
    key: str = ""


Fact = (
    ActionQueued
    | WorkerConnected
    | WorkerReported
    | WorkerDrained
    | WorkerUndrained
    | WorkerGone
    | DispatchAccepted
    | DispatchDeclined
    | ActionFinished
    | CancelRequested
    | PriorityRequested
    | InstancePaused
    | InstanceResumed
    | Configured
    | Tick
    | KeyReleased
    | ClientHeard
    | ClientGone
    | CacheAnswered
    | HintsLoaded
    | UpstreamReported
    | BlobsAvailable
    | BlobsEvicted
    | PeerFetchFailed
    | BlobsStable
    | BlobsStableAcknowledged
    | StateDigested
    | Unreadable
)

FACT_KINDS: dict[str, type] = {kind.__name__: kind for kind in Fact.__args__ if kind is not Unreadable}
"""Every kind of the wire contract by its name."""
