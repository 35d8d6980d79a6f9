"""The state of a shard: rows that are a fold of events, and the indexes derived from them.

Rows change only in `evolve`. Everything else here (demands, amounts, the matcher, the timer heap) is derived from rows and can be
rebuilt from them at any moment; `Shard.build_indexes` does.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from events.config import DEFAULT_CONFIG, Decorator, SchedulerConfig, SimpleScheduler, UpstreamScheduler
from events.config.hold import DEFAULT_LAST_RUNS
from events.durations import Durations
from events.fitting import Demand
from events.reasons import ClientLeaving, DigestRole, Outcome
from events.values import NO_DIGEST, Digest, Properties, QueueOrder

PRIORITY_MAX = 2**31 - 1
TIME_BITS, ID_BITS = 64, 40


def sort_key(priority: int, time_us: int, operation_id: int) -> int:
    """Queue order as one int: priority descending, time ascending, then offset (Q1, Q2).

    Time is when the operation was queued, or where fairness or aging put it (`QueueOrder`), from -2^63 to 2^63-1. It is added, not set
    side by side, so that times before 0 keep their order; they come with priority 0, which keeps the key above 0.
    """
    return ((PRIORITY_MAX - priority) << (TIME_BITS + ID_BITS)) + (time_us << ID_BITS) + operation_id


def join_key(digest: Digest, cacheable: bool, skip_cache_lookup: bool) -> bytes:
    """What identical actions of an instance share (J1); empty when an action joins nothing and nothing joins it (J5)."""
    if not cacheable or skip_cache_lookup or not digest.hash:
        return b""
    return digest.hash + digest.size_bytes.to_bytes(8, "big")


class Stage(IntEnum):
    """Where an operation stands (2.1)."""

    QUEUED = 1
    EXECUTING = 2
    FINISHED = 3
    CACHE_CHECK = 4  # waits for the cache edge
    FORWARDED = 5  # another scheduler has it


@dataclass(slots=True)
class Client:
    """One client of an operation, under its own id (J2)."""

    client_operation_id: str
    client_id: str
    attached: bool
    last_heard_us: int
    left: ClientLeaving = ClientLeaving.UNSPECIFIED  # it no longer waits, unless it is heard again


@dataclass(slots=True, eq=False)
class Operation:
    """One row per operation that is live or within its retention."""

    operation_id: int
    instance: str
    client_operation_id: str
    requirement_id: int
    priority: int
    queued_at_us: int
    sort_key: int
    queued_since_us: int  # later of queued and last requeued
    demand: Demand
    command: bytes = b""
    action_digest: Digest = NO_DIGEST
    timeout_us: int = 0
    expected_duration_us: int = 0
    client_id: str = ""
    invocation_id: str = ""
    target_id: str = ""
    mnemonic: str = ""
    cacheable: bool = False
    skip_cache_lookup: bool = False
    attached: bool = False
    stage: Stage = Stage.QUEUED
    dispatch: "Dispatch | None" = None  # the current one
    job_failures: int = 0
    worker_losses: int = 0
    free_requeues: int = 0
    escalations: int = 0
    hold_expired_at_us: int = 0  # when its last hold reached max_hold_s
    asked_requirement_id: int = 0  # what the producer asked for; 0: as it is
    order: QueueOrder | None = None  # where fairness or aging put it
    # By client_operation_id, the first one too. None: nobody joined and nobody is attached, which is nearly every operation.
    clients: dict[str, Client] | None = None
    outcome: Outcome = Outcome.UNSPECIFIED
    index: Any = None  # the matcher's own

    def order_key(self) -> int:
        """Its place in the queue: by priority and queued time, or as fairness or aging put it."""
        if self.order is None:
            return sort_key(self.priority, self.queued_at_us, self.operation_id)
        return sort_key(self.order.priority, self.order.time_us, self.operation_id)

    def action_key(self) -> bytes:
        """What identical actions share (J1); empty: nobody can join it."""
        return join_key(self.action_digest, self.cacheable, self.skip_cache_lookup)

    def client_ids(self) -> list[str]:
        """The client_operation_ids it is known by, the first one's first."""
        return [self.client_operation_id] if self.clients is None else list(self.clients)


@dataclass(slots=True, eq=False)
class Dispatch:
    """One run of an operation on a worker, current or revoked; it is charged until the worker reports (L3, L7)."""

    dispatch_id: int
    operation_id: int
    operation: Operation
    worker: "Worker"
    connection_id: int
    dispatched_at_us: int
    demand: Demand  # what is charged
    accepted: bool = False
    revoked: bool = False
    heard_at_us: int = 0  # when the worker last said something of this dispatch; moved by outages of the log
    silent_us: int = 0  # outages of the log since it was dispatched: nobody could report in them
    kill_requested_at_us: int = 0


@dataclass(slots=True, eq=False)
class Worker:
    """One row per connected worker, keyed by (instance, endpoint)."""

    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    properties: Properties
    max_inflight: int
    build: str
    connected_at_us: int
    last_seen_us: int
    recency: int  # seq of the event that last promoted it (1.3)
    totals: list[int]  # per pool
    remaining: list[int]  # per pool
    draining: bool = False
    paused: bool = False
    admits_when_idle: bool = False
    free_memory_kib: int | None = None  # as last reported
    lent_kib: int = 0  # of the veto's pool, when that was reported (W8)
    idle_free_kib: int | None = None  # reported while it ran nothing; caps what a drain is expected to free (H12)
    idle_declined_kib: int | None = None  # it refused so much while idle, and is not offered as much again (B5)
    resume_at_kib: int = 0  # paused until a keepalive reports so much free; 0: any keepalive (B5)
    unaccepted: int = 0  # current dispatches that were not accepted yet
    max_unaccepted: int = 0  # how many of those there may be; the instance's option. 0: no limit
    running: dict[int, Dispatch] = field(default_factory=dict)  # dispatch_id to dispatch, revoked ones included
    index: Any = None  # the matcher's own

    def accepts(self) -> bool:
        """B1: neither paused nor draining, below the inflight limit (L5), and not waited for to accept too much (B6)."""
        return (
            not self.paused
            and not self.draining
            and (self.max_inflight == 0 or len(self.running) < self.max_inflight)
            and (self.max_unaccepted == 0 or self.unaccepted < self.max_unaccepted)
        )


@dataclass(slots=True, eq=False)
class Report:
    """How far an endpoint's report of its blobs has come (PM8)."""

    number: int = 0
    next_chunk: int = 0
    full: bool = False
    open: bool = False  # its last chunk is still to come


@dataclass(slots=True, eq=False)
class Endpoint:
    """What is known of an endpoint beside its worker. It outlives the worker until it is swept.

    Which blobs it holds is not here: that is millions of pairs, which a projection keeps (projections/locality.py).
    """

    instance: str
    endpoint: str
    boot_epoch: int  # the last one seen; stays when the worker goes (6.9)
    connection_id: int  # who owns it; 0: nobody any more
    confirmed_in: int  # leader epoch in which it was last heard
    gone_at_us: int = 0  # when its connection ended; moved by outages of the log
    advertised: bool = False  # it said since its last wipe what it holds
    report: Report = field(default_factory=Report)
    unacknowledged: dict[int, None] | None = None  # seqs of BlobsStable, oldest first; None: nothing waits (S-4)
    due: tuple[int, ...] = ()  # of those, the ones to be sent again because of the last event of this endpoint (S-5)
    resent_through: int = 0  # how far they have been sent again on this connection
    owed_through: int = 0  # the last one that was sent before this connection
    changes: tuple[int, ...] = ()  # when its boot epoch changed, at_us; as many as the warning asks for (F-6)
    flapped_at_us: int | None = None  # the last warning

    def is_left_by(self, boot_epoch: int) -> bool:
        """Whether a connect with this epoch is of another process than the last; one without epoch is always another (E2, E3, F-2)."""
        return self.boot_epoch != boot_epoch or boot_epoch == 0


@dataclass(slots=True, eq=False)
class StableChunk:
    """One chunk of stable blobs that some endpoint still has to acknowledge."""

    seq: int
    broadcast: int
    sequence: int
    last: bool
    store: str
    digests: bytes
    waiting: int = 0  # endpoints


class Broadcast(NamedTuple):
    """How far a broadcast of stable blobs has come."""

    next_sequence: int
    store: str
    finished: bool


@dataclass(slots=True, eq=False)
class Hold:
    """One worker is kept draining for one operation; at most one per instance (H2)."""

    operation: Operation
    worker: Worker
    requirement_id: int  # what the operation asked for when the hold was made: moves use it (5.4)
    made_at_us: int
    waited_us: int
    free_at_us: int = 0  # backfill and drain_time: when the worker is expected to have room


class Shortage(NamedTuple):
    """No connected worker could run a requirement even if idle (X2)."""

    since_us: int  # moved by outages of the log
    no_workers: bool  # because none is connected


@dataclass(slots=True, eq=False)
class FleetShapes:
    """Derived: which kinds of worker are connected, and what is known of that (deciding/unsatisfiable.py)."""

    workers: dict[Properties, int] = field(default_factory=dict)  # workers by what they registered
    capable: dict[int, None] = field(default_factory=dict)  # requirements that some connected worker could run
    unjudged: dict[int, None] = field(default_factory=dict)  # requirements queued since the last verdicts
    changed: bool = False  # a kind of worker came or went since the last verdicts


@dataclass(slots=True, eq=False)
class Shares:
    """Fair share: virtual time of the instance, and each one's finish tag (start-time fair queueing)."""

    virtual_us: int = 0
    tags: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Instance:
    """A scheduling domain: its configuration, fleet and queue."""

    name: str
    scheduler: SchedulerConfig = DEFAULT_CONFIG  # as configured, decorators and all
    config: SimpleScheduler = DEFAULT_CONFIG  # the innermost: what the rules read
    steps: tuple[Decorator, ...] = ()  # what an incoming action passes first
    upstream: UpstreamScheduler | None = None  # who gets everything, when it is not this scheduler
    pools: tuple[str, ...] = DEFAULT_CONFIG.pools()
    paused: bool = False
    workers: dict[str, Worker] = field(default_factory=dict)  # by endpoint
    by_client: dict[str, Operation] = field(default_factory=dict)  # by client_operation_id
    finished: deque[tuple[int, int, Operation]] = field(default_factory=deque)  # (seq, at_us, operation), oldest first
    by_action: dict[bytes, Operation] = field(default_factory=dict)  # live cacheable ones, by digest (J1)
    hints: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # (cpu_millis, memory_kib)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)  # by name; those without worker too
    stable: dict[int, StableChunk] = field(default_factory=dict)  # by seq of the event, oldest first
    broadcasts: dict[int, Broadcast] = field(default_factory=dict)  # the latest ones, the latest last
    hold: Hold | None = None
    no_candidate_for: int | None = None  # the operation HoldNoCandidate was last said of (H14)
    unsatisfiable: dict[int, Shortage] = field(default_factory=dict)  # by requirement_id
    shares: Shares = field(default_factory=Shares)
    durations: Durations = field(default_factory=lambda: Durations(DEFAULT_LAST_RUNS))  # of the runs that completed
    demands: dict[int, Demand] = field(default_factory=dict)  # by requirement_id, under this configuration
    matcher: Any = None  # events.matching.Matcher; None while a fold runs without indexes
    shapes: FleetShapes = field(default_factory=FleetShapes)  # derived, like the matcher
    census: Any = None  # events.deciding.candidates.Census of the last choice for a hold; derived


class DigestReport(NamedTuple):
    """The first report of a state's digest; later ones are compared with it."""

    state_digest: bytes
    format: int
    next_fact_offset: int
    by: str
    role: DigestRole
    agreed: bool | None = None  # whether another fold has the same; None: nobody else has said yet


class Checkpoint(NamedTuple):
    """The newest state that two folds agree on."""

    seq: int
    state_digest: bytes
    format: int
    next_fact_offset: int
    written_by: str
    verified_by: str
    at_us: int


class Divergence(NamedTuple):
    """The last state that two folds differed in."""

    seq: int
    by: str
    other_by: str
    at_us: int


@dataclass(slots=True, eq=False)
class Shard:
    """The whole state of one shard."""

    seq: int = 0  # of the last event
    now_us: int = 0
    position: int = -1  # offset of the last fact that was decided
    leader_epoch: int = 0
    elected_seq: int = 0
    recovers_at: int | None = None  # offset of the fact at which this leader has recovered; None: it has
    recovered_at_us: int = 0  # moved by outages of the log
    cluster_id: str = ""
    facts_topic_id: str = ""
    events_topic_id: str = ""
    instances: dict[str, Instance] = field(default_factory=dict)
    operations: dict[int, Operation] = field(default_factory=dict)
    requirement_ids: dict[bytes, int] = field(default_factory=dict)  # canonical bytes to id
    requirements: dict[int, bytes] = field(default_factory=dict)
    parked_keys: dict[str, None] = field(default_factory=dict)
    ignored: Counter[int] = field(default_factory=Counter)  # by IgnoreReason
    rejected: Counter[int] = field(default_factory=Counter)  # by RejectReason
    digests: dict[int, DigestReport] = field(
        default_factory=dict
    )  # by the seq of the state, those of the newest states
    checkpoint: Checkpoint | None = None
    divergence: Divergence | None = None
    timers: list[tuple[int, int, str, str, int]] = field(default_factory=list)  # heap; see deciding/timing.py
    timers_kept: int = 0  # size of the heap at which those that no longer stand are thrown out
    live: bool = False  # indexes are built and kept up
