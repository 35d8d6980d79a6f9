"""What an audit knows of a shard: its own rows, folded by projections/verify/folding.py and by nothing else.

The queue of one requirement is a sorted list of `(-priority, time_us, operation_id, operation)`: the order of the list is queue order.
"""

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, Any

from projections.verify.options import Options

if TYPE_CHECKING:  # it knows runs
    from projections.verify.durations import History

UNDECLARED = -1
QUEUED, EXECUTING, FINISHED, LOOKED_UP, FORWARDED = "queued", "executing", "finished", "looked up", "forwarded"

Properties = dict[str, str]
Entry = tuple[int, int, int, "Op"]


class Demand:
    """What one requirement asks for under one configuration. `amounts` are (pool, amount), sorted by pool."""

    __slots__ = ("amounts", "asked", "exact", "memory", "number", "preferred", "present", "unknown")

    def __init__(self, number: int, asked: Properties, options: Options) -> None:
        self.number = number
        self.asked = asked
        self.exact: list[tuple[str, str]] = []
        self.preferred: list[tuple[str, str]] = []
        self.unknown: list[tuple[str, str]] = []
        amounts: list[tuple[int, int]] = []
        for name, value in asked.items():
            kind = options.kinds.get(name)
            if kind == "minimum":
                amounts.append((options.pools.index(name), amount_of(value)))
            elif kind == "exact":
                self.exact.append((name, value))
            elif kind == "priority":
                self.preferred.append((name, value))
            elif kind is None:
                self.unknown.append((name, value))
        self.present = [name for name, _ in self.preferred]
        self.amounts = tuple(sorted(amounts))
        self.memory = next((amount for pool, amount in amounts if pool == options.veto_pool), -1)

    def matches(self, properties: Properties) -> bool:
        """Whether the properties that are no amounts suit (P4, P5)."""
        return (
            all(properties.get(name) == value for name, value in self.exact)
            and all(name in properties for name in self.present)
            and all(properties.get(name, value) == value for name, value in self.unknown)
        )

    def within(self, amounts: list[int]) -> bool:
        """Whether so much suffices."""
        return all(amounts[pool] >= asked for pool, asked in self.amounts)

    def of(self, pool: int) -> int | None:
        """What it asks of a pool; None: nothing."""
        return next((amount for asked, amount in self.amounts if asked == pool), None)


def amount_of(value: str) -> int:
    """A whole number from 0 to 2^63-1. Raises ValueError."""
    if not (value.isascii() and value.isdigit()) or len(value) > 19 or int(value) >= 1 << 63:
        raise ValueError(value)
    return int(value)


class Client:
    """Somebody who waits for an operation. `left` is 0 while it does."""

    __slots__ = ("attached", "heard_us", "left", "name")

    def __init__(self, name: str, attached: bool, heard_us: int) -> None:
        self.name = name
        self.attached = attached
        self.heard_us = heard_us
        self.left = 0


class Op:
    """An operation, live or within its retention. `share` is (whose, cost in microseconds) under fair share."""

    __slots__ = (
        "action", "client_id", "clients", "commanded", "demand", "domain", "escalations", "expected_us", "expired_at_us", "failures",
        "frees", "id", "losses", "mnemonic", "name", "priority", "queued_at_us", "run", "share", "since_us", "stage", "target",
        "time_us", "timeout_us", "top",
    )  # fmt: skip

    def __init__(self, domain: "Domain", number: int, name: str, demand: Demand) -> None:
        self.domain = domain
        self.id = number
        self.name = name
        self.demand = demand
        self.priority = self.top = self.queued_at_us = self.time_us = self.since_us = 0
        self.timeout_us = self.expected_us = self.expired_at_us = 0
        self.failures = self.losses = self.frees = self.escalations = 0
        self.stage = QUEUED
        self.run: Run | None = None
        self.share: tuple[str, int] | None = None
        self.clients: dict[str, Client] | None = None
        self.action: tuple[bytes, int] | None = None
        self.client_id = self.mnemonic = self.target = ""
        self.commanded = False

    @property
    def number(self) -> int:
        """That of its requirements."""
        return self.demand.number

    @property
    def entry(self) -> Entry:
        """Its place in the queue."""
        return (-self.top, self.time_us, self.id, self)

    def before(self, other: "Op") -> bool:
        """Whether it sorts before another operation."""
        return self.entry[:3] < other.entry[:3]


class Run:
    """A dispatch, current or revoked. The charge is that of `demand`."""

    __slots__ = (
        "accepted",
        "at_us",
        "demand",
        "heard_us",
        "id",
        "killed_at_us",
        "op",
        "revoked",
        "silent_us",
        "worker",
    )

    def __init__(self, number: int, op: Op, worker: "Worker", at_us: int) -> None:
        self.id = number
        self.op = op
        self.worker = worker
        self.at_us = self.heard_us = at_us
        self.demand = op.demand
        self.accepted = self.revoked = False
        self.silent_us = self.killed_at_us = 0


class Worker:
    """A connected worker and its ledger: `total` and `left` per pool."""

    __slots__ = (
        "able", "admits_idle", "boot_epoch", "connection_id", "declined", "draining", "endpoint", "idle_free", "inflight", "left", "lent",
        "paused", "properties", "recency", "reported", "resume_at", "runs", "seen_us", "stamp", "total", "unaccepted",
    )  # fmt: skip

    def __init__(self, endpoint: str, properties: Properties, pools: list[str]) -> None:
        self.endpoint = endpoint
        self.properties = properties
        self.boot_epoch = self.connection_id = self.inflight = self.recency = self.seen_us = 0
        self.lent = self.resume_at = self.unaccepted = self.stamp = 0
        self.draining = self.paused = self.admits_idle = False
        self.reported: int | None = None
        self.idle_free: int | None = None
        self.declined: int | None = None
        self.runs: dict[int, Run] = {}
        self.able: dict[int, bool] = {}  # by requirement: whether its properties suit
        self.total: list[int] = []
        self.left: list[int] = []
        self.measure(pools)

    def measure(self, pools: list[str]) -> None:
        """Read what it registered, under these pools."""
        declared = self.properties
        self.total = [amount_of(declared[pool]) if pool in declared else UNDECLARED for pool in pools]
        self.left = self.total.copy()
        self.able = {}

    def suits(self, demand: Demand) -> bool:
        """Whether it has the properties asked for, amounts aside."""
        found = self.able.get(demand.number)
        if found is None:
            found = self.able[demand.number] = demand.matches(self.properties)
        return found


class Line:
    """The queued operations of one requirement, in queue order. `fresh`: it began to wait since the last fixpoint."""

    __slots__ = ("demand", "fresh", "ops")

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.ops: list[Entry] = []
        self.fresh = True


class Hold:
    """A held worker. `requirement` is what the operation asked for when the hold was made."""

    __slots__ = ("free_at_us", "made_at_us", "op", "requirement", "worker")

    def __init__(self, op: Op, worker: Worker, requirement: int, made_at_us: int, free_at_us: int) -> None:
        self.op = op
        self.worker = worker
        self.requirement = requirement
        self.made_at_us = made_at_us
        self.free_at_us = free_at_us


class Endpoint:
    """What is known of an endpoint beside its worker."""

    __slots__ = (
        "advertised", "boot_epoch", "changes", "chunk", "confirmed_in", "flapped_at_us", "full", "gone_at_us", "name", "open", "owed",
        "owner", "report",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.boot_epoch = self.owner = self.confirmed_in = self.gone_at_us = self.report = self.chunk = 0
        self.advertised = self.full = self.open = False
        self.owed: list[int] = []  # seqs of chunks of stable blobs, ascending
        self.changes: list[int] = []
        self.flapped_at_us: int | None = None

    @property
    def precious(self) -> bool:
        """Whether it has something to lose."""
        return self.advertised or bool(self.owed)


class Domain:
    """An instance: its options, fleet, queue and hold."""

    __slots__ = (
        "actions", "broadcasts", "by_client", "demands", "dirty", "endpoints", "finished", "fleet_changed", "hints", "history", "hold",
        "lines", "name", "newest", "no_candidate_for", "options", "paused", "promised_us", "queued", "ranks", "shapes", "shares",
        "shortages", "unjudged", "virtual_us", "workers",
    )  # fmt: skip

    def __init__(self, name: str, options: Options, history: "History") -> None:
        self.name = name
        self.options = options
        self.history = history
        self.paused = False
        self.workers: dict[str, Worker] = {}
        self.by_client: dict[str, Op] = {}
        self.actions: dict[tuple[bytes, int], Op] = {}
        self.demands: dict[int, Demand] = {}
        self.lines: dict[int, Line] = {}  # those with a queue
        self.queued = 0
        self.dirty: dict[str, Worker] = {}  # workers that may have room since the last fixpoint
        self.newest = False  # whether a line is fresh
        self.finished: deque[tuple[int, int, Op]] = deque()  # (seq, at_us, operation)
        self.hints: dict[tuple[str, str], tuple[int, int]] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.broadcasts: dict[int, tuple[int, str, bool]] = {}  # next sequence, store, finished
        self.hold: Hold | None = None
        self.promised_us = 0  # backfill: when the held operation is expected to start, as last worked out
        self.no_candidate_for: int | None = None
        self.ranks: dict[str, tuple[int, int, Any]] = {}  # by endpoint: (stamp, requirement, standing as a candidate)
        self.shortages: dict[int, tuple[int, bool]] = {}  # by requirement: (since, no workers)
        self.shapes: dict[tuple[tuple[str, str], ...], int] = {}
        self.unjudged: dict[int, None] = {}
        self.fleet_changed = False
        self.virtual_us = 0
        self.shares: dict[str, int] = {}

    def head(self) -> Op | None:
        """The first queued operation."""
        best: Entry | None = None
        for line in self.lines.values():
            if best is None or line.ops[0] < best:
                best = line.ops[0]
        return None if best is None else best[3]

    def enqueue(self, op: Op) -> None:
        """The operation waits."""
        if self.hold is not None and op.entry[:3] <= self.hold.op.entry[:3]:
            self.newest = True  # the held worker may take it, or what stands before the held operation now
        line = self.lines.get(op.number)
        if line is None:
            line = self.lines[op.number] = Line(op.demand)
            self.newest = True
            line.ops.append(op.entry)
        else:
            insort(line.ops, op.entry)
        self.queued += 1
        if op.number not in self.shortages:
            self.unjudged[op.number] = None

    def dequeue(self, op: Op) -> None:
        """It no longer does, or is about to change its place."""
        line = self.lines[op.number]
        ops = line.ops
        if ops[0][3] is op:
            del ops[0]
        else:
            place = bisect_left(ops, op.entry[:3])
            assert ops[place][3] is op, "a queued operation stands in its line"
            del ops[place]
        if not ops:
            del self.lines[op.number]
        self.queued -= 1


class Shard:
    """Everything an audit knows."""

    __slots__ = (
        "asked", "digests", "domains", "elected_seq", "epoch", "known", "now_us", "numbers", "ops", "parked", "position", "recovered_at_us",
        "recovers_at", "seq", "timers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.seq = self.now_us = self.epoch = self.elected_seq = self.recovered_at_us = 0
        self.position = -1
        self.recovers_at: int | None = None
        self.domains: dict[str, Domain] = {}
        self.ops: dict[int, Op] = {}
        self.numbers: dict[tuple[tuple[str, str], ...], int] = {}
        self.known: list[Properties] = [{}]  # requirements by number, from 1
        self.asked: dict[bytes, tuple[tuple[str, str], ...]] = {}  # requirements as facts have them, in order
        self.parked: dict[str, None] = {}
        self.digests: dict[int, Any] = {}  # by the seq of the state, as digests.py has them
        self.timers: list[tuple[int, int, str, str, int]] = []
