"""The worker's side of the protocol as a pure state machine: no clock, no randomness, no I/O.

Every input returns what is to be done: facts to publish in this order, runs to start or to stop, a connection to make, the end.
`now_us` is any clock that never goes back; connection ids are drawn by the caller.

```
          connect            Admitted
   NEW ───────────▶ CONNECTING ─────▶ SERVING ──┐ Evicted (silent, or slow to kill): stop the runs, connect again
                      ▲  │  ▲            │  └─────┘ (back to CONNECTING under a new connection id)
      repeat every 5 s└──┘  └────────────┘
                    drain │              │ drain
                          ▼              ▼
                        DRAINING (nothing new; what runs is reported)
                          │ nothing runs any more        │ abandon, or drain timeout: stop the runs
                          ▼                              ▼
                        STOPPED ◀── nothing runs ─── LEAVING ◀── Refused, replaced, removed by an operator: stop the runs
```

What each rule is for:

* A connect is repeated **with the same connection id**: the log loses nothing, so if the first one arrived its answer will be read,
  and a second id would end what was placed in between as a worker loss.
* Records of the two topics have no order between them. A placement on the own connection that is read before its admission waits for
  it; a kill that is read before its placement is answered at once, and the placement is then not started.
* A run that has ended stays known until its `PlacementEnded` is read: until then it is listed at every connect and its report is
  published again when its placement is redelivered, so that a report on a connection that had just ended is not lost.
* Runs that a connect did not keep, and all runs of an evicted connection, are stopped: the scheduler has given them to others.
* A chunk of stable blobs for every worker counts only if it was taken after this connection: the scheduler sends those before it again,
  addressed to the connection, if they are not acknowledged (S-5). Each is applied at once and acknowledged each time it comes (S-3).
* A run stopped by `abandon` is not reported. `WorkerGone`, published once nothing runs, ends it as a worker loss, which does not
  count against the action; any report would either count as the action's failure or end it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from events import facts
from events.reasons import DeclineReason, DisconnectReason, RunResult, sentence
from events.values import NO_USAGE, Properties, Usage
from streams.placements import ActionPlaced, Placement
from streams.worker.capacity import Amounts, Ledger, asked_by
from streams.worker.commands import Admitted, Command, Evicted, KillRequested, Refused, StableChunk

CONNECT_AGAIN_US = 5_000_000
WAIT_FOR_ROOM_US = 5_000_000
MOST_ANSWERED = 4_096
"""How many runs that have ended are remembered; by far more than can be unsettled at once."""


class Standing(Enum):
    """Where the worker stands; see the diagram."""

    NEW = "new"
    CONNECTING = "connecting"
    SERVING = "serving"
    DRAINING = "draining"
    LEAVING = "leaving"
    STOPPED = "stopped"


class Identity(NamedTuple):
    """Who the worker is, for as long as its process lives."""

    instance: str
    endpoint: str
    boot_epoch: int
    properties: Properties
    max_inflight: int = 0
    build: str = ""
    admits_when_idle: bool = False  # told to the scheduler: its live memory veto does not apply while nothing runs here
    blobs_url: str = ""  # where its blobs are served; empty: nowhere


class RunReport(NamedTuple):
    """How a run ended."""

    result: RunResult
    exit_code: int = 0
    message: str = ""
    stdout_tail: bytes = b""
    stderr_tail: bytes = b""
    usage: Usage = NO_USAGE


NEVER_STARTED = RunReport(RunResult.KILLED, message="stopped before it was started")


class Publish(NamedTuple):
    """A fact for the log; facts are published in the order in which they are put out."""

    fact: facts.Fact


class StartRun(NamedTuple):
    """Run this placement; answered by `run_ended`."""

    placed: ActionPlaced


class StopRun(NamedTuple):
    """Stop a started run; answered by `run_ended`, as every run is."""

    dispatch_id: int


class Connect(NamedTuple):
    """Draw a connection id and call `connect`."""

    why: str


class Stop(NamedTuple):
    """The end: nothing runs any more. Publish what was put out before, then exit."""

    exit_code: int
    why: str


class ApplyStable(NamedTuple):
    """These blobs are in durable storage; with `mirror`, small ones are to be taken."""

    chunk: StableChunk
    mirror: bool = False


Output = Publish | StartRun | StopRun | ApplyStable | Connect | Stop


@dataclass(slots=True)
class _Run:
    placed: ActionPlaced
    stopping: bool = False
    ended_in_log: bool = False


@dataclass(slots=True)
class _Waiting:
    placed: ActionPlaced
    asked: Amounts
    until_us: int


@dataclass(slots=True)
class _Answer:
    """The last report on a run, and the connection it was published on; `unsettled` until the log says that the run ended."""

    fact: facts.ActionFinished
    unsettled: bool


OnConnection = TypeVar("OnConnection", facts.DispatchAccepted, facts.DispatchDeclined, facts.ActionFinished)


class WorkerProtocol:
    """One worker. Call the inputs from one task; carry out what they return in order."""

    def __init__(self, identity: Identity, ledger: Ledger) -> None:
        self.identity = identity
        self.ledger = ledger
        self.standing = Standing.NEW
        self.admitted = False
        self.connection_id = 0
        self.worker_timeout_us = 0  # as told at the last admission; 0: not told yet
        self.small_blob_mirror = False  # the same
        self._admitted_seq = 0
        self._own_connections: dict[int, None] = {}
        self._connect_at_us = 0
        self._runs: dict[int, _Run] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._early: list[ActionPlaced] = []
        self._answered: OrderedDict[int, _Answer] = OrderedDict()
        self._declined: OrderedDict[int, None] = OrderedDict()
        self._drain_until_us: int | None = None
        self._stop = Stop(0, "drained")
        self._say_gone = True

    # -- what the runtime asks ------------------------------------------------------------------------------------------

    @property
    def running(self) -> tuple[int, ...]:
        """Dispatch ids that are running, stopping ones included."""
        return tuple(self._runs)

    @property
    def stopped(self) -> bool:
        """Whether `Stop` was put out."""
        return self.standing is Standing.STOPPED

    @property
    def deadline_us(self) -> int | None:
        """When `timer` has something to do next; None, not before another input."""
        deadlines = [waiting.until_us for waiting in self._waiting.values()]
        if self.standing is Standing.CONNECTING or (self.standing is Standing.DRAINING and not self.admitted):
            deadlines.append(self._connect_at_us)
        if self.standing is Standing.DRAINING and self._drain_until_us is not None:
            deadlines.append(self._drain_until_us)
        return min(deadlines, default=None)

    def keepalive(self, free_memory_kib: int | None) -> facts.WorkerReported | None:
        """The keepalive of this moment; None while no connection is admitted."""
        if not self.admitted or self.stopped:
            return None
        return facts.WorkerReported(self.identity.instance, self.identity.endpoint, self.connection_id, free_memory_kib)

    # -- connecting -----------------------------------------------------------------------------------------------------

    def connect(self, connection_id: int, now_us: int) -> list[Output]:
        """Connect under a fresh id (not 0): at the start, and when asked to by `Connect`."""
        if self.standing in (Standing.LEAVING, Standing.STOPPED):
            return []
        if self.standing is not Standing.DRAINING:
            self.standing = Standing.CONNECTING
        self.admitted = False
        self.connection_id = connection_id
        self._own_connections[connection_id] = None
        self._early.clear()
        self._connect_at_us = now_us + CONNECT_AGAIN_US
        return [Publish(self._connect_fact())]

    def lose_position(self) -> list[Output]:
        """The place in the log is lost (trimmed, or another log): answers may have been missed, so connect anew."""
        if self.standing in (Standing.NEW, Standing.LEAVING, Standing.STOPPED):
            return []
        return [Connect("the position in the log was lost")]

    def _connect_fact(self) -> facts.WorkerConnected:
        unsettled = [dispatch_id for dispatch_id, answer in self._answered.items() if answer.unsettled]
        identity = self.identity
        return facts.WorkerConnected(
            instance=identity.instance,
            endpoint=identity.endpoint,
            boot_epoch=identity.boot_epoch,
            connection_id=self.connection_id,
            properties=identity.properties,
            max_inflight=identity.max_inflight,
            build=identity.build,
            running=tuple(sorted({*self._runs, *self._waiting, *unsettled})),
            admits_when_idle=identity.admits_when_idle,
            blobs_url=identity.blobs_url,
        )

    # -- commands -------------------------------------------------------------------------------------------------------

    def command(self, command: Command, now_us: int, free_kib: int | None = None) -> list[Output]:
        """A command for this worker's endpoint, whatever connection it is for."""
        if self.standing in (Standing.NEW, Standing.STOPPED):
            return []
        match command:
            case Admitted():
                return self._admit(command, now_us, free_kib)
            case KillRequested():
                return self._kill(command.dispatch_id)
            case StableChunk():
                return self._stable(command)
            case _ if command.connection_id != self.connection_id:
                return []  # of a connection that was given up
            case Refused():
                said = f" ({command.field}={command.value!r})" if command.field else ""
                return self._leave(1, f"refused: {sentence(command.reason)}{said}", say_gone=False)
            case Evicted():
                return self._evict(command.reason)

    def _admit(self, command: Admitted, now_us: int, free_kib: int | None) -> list[Output]:
        if command.connection_id != self.connection_id:
            if self.admitted and command.connection_id not in self._own_connections:
                why = f"another worker has connected as {self.identity.endpoint!r}; give each its own name"
                return self._leave(1, why, say_gone=False)
            return []
        self.worker_timeout_us = command.worker_timeout_us
        if self.admitted or self.standing is Standing.LEAVING:
            return []
        self.admitted = True
        self.small_blob_mirror, self._admitted_seq = command.small_blob_mirror, command.seq
        draining = self.standing is Standing.DRAINING
        self.standing = Standing.DRAINING if draining else Standing.SERVING
        kept = dict.fromkeys(command.kept)
        outputs: list[Output] = []
        for dispatch_id, run in self._runs.items():
            if dispatch_id not in kept:
                outputs += self._stop_run(dispatch_id, run)
        for dispatch_id in [known for known in self._waiting if known not in kept]:
            del self._waiting[dispatch_id]
        for dispatch_id, answer in self._answered.items():
            answer.unsettled = answer.unsettled and dispatch_id in kept
        early, self._early = self._early, []
        if draining:
            # Said again: the former connection's drain did not reach this one where the scheduler had forgotten the worker.
            outputs.append(Publish(facts.WorkerDrained(self.identity.instance, self.identity.endpoint)))
        for placed in early:
            outputs += self._placed(placed, now_us, free_kib)
        return outputs + self._end_if_idle()

    def _stable(self, chunk: StableChunk) -> list[Output]:
        if not self.admitted or chunk.connection_id not in (0, self.connection_id):
            return []
        if chunk.connection_id == 0 and (chunk.instance != self.identity.instance or chunk.seq < self._admitted_seq):
            return []
        identity = self.identity
        taken = facts.BlobsStableAcknowledged(identity.instance, identity.endpoint, self.connection_id, chunk.chunk_seq)
        return [ApplyStable(chunk, self.small_blob_mirror), Publish(taken)]

    def _evict(self, reason: DisconnectReason) -> list[Output]:
        if reason is DisconnectReason.REMOVED:
            return self._leave(1, sentence(reason), say_gone=False)
        if self.standing in (Standing.DRAINING, Standing.LEAVING):
            return self._leave(1, f"evicted while draining: {sentence(reason)}", say_gone=False)
        self.admitted = False
        self._waiting.clear()
        for answer in self._answered.values():
            answer.unsettled = False
        return [*self._stop_all(), Connect(sentence(reason))]

    def _kill(self, dispatch_id: int) -> list[Output]:
        run = self._runs.get(dispatch_id)
        if run is not None:
            return self._stop_run(dispatch_id, run)
        waiting = self._waiting.pop(dispatch_id, None)
        answer = self._answered.get(dispatch_id)
        if waiting is None and answer is not None and answer.fact.connection_id == self.connection_id:
            return []  # the report is in the log already, before or after this command
        if answer is not None:
            return self._answer_again(answer)
        # Also for a dispatch never heard of: its placement may still come, and must not be started then.
        return [self._report(dispatch_id, NEVER_STARTED, unsettled=False), *self._end_if_idle()]

    # -- placements -----------------------------------------------------------------------------------------------------

    def placement(self, placement: Placement, now_us: int, free_kib: int | None = None) -> list[Output]:
        """A placement for this worker's endpoint. `free_kib` is the memory free on this machine now; None, not measured."""
        if self.standing in (Standing.NEW, Standing.STOPPED):
            return []
        if isinstance(placement, ActionPlaced):
            return self._placed(placement, now_us, free_kib)
        run = self._runs.get(placement.dispatch_id)
        if run is not None:
            # Cancelled, or given to another worker: a KillRequested or an eviction says the rest.
            run.ended_in_log = True
        answer = self._answered.get(placement.dispatch_id)
        if answer is not None:
            answer.unsettled = False
        return []

    def _placed(self, placed: ActionPlaced, now_us: int, free_kib: int | None) -> list[Output]:
        dispatch_id = placed.dispatch_id
        if dispatch_id in self._runs or dispatch_id in self._waiting or dispatch_id in self._declined:
            return []
        answer = self._answered.get(dispatch_id)
        if answer is not None:
            return self._answer_again(answer)
        if placed.connection_id != self.connection_id:
            return []  # of a connection that was given up: not listed at the last connect, so it has ended
        if self.standing is Standing.CONNECTING:
            self._early.append(placed)
            return []
        asked = asked_by(placed.requirements)
        if self.standing in (Standing.DRAINING, Standing.LEAVING):
            return [self._decline(placed, DeclineReason.SHUTTING_DOWN, asked, free_kib)]
        if not self.ledger.could_ever(asked):
            reason = DeclineReason.MEMORY if asked.memory_kib > self.ledger.total.memory_kib else DeclineReason.FULL
            return [self._decline(placed, reason, asked, free_kib)]
        # An idle worker admits whatever it registered room for, or an action might be declined by the whole fleet.
        if free_kib is not None and asked.memory_kib > free_kib and self._runs:
            return [self._decline(placed, DeclineReason.MEMORY, asked, free_kib)]
        if self.ledger.why_not(asked) is not None:
            self._waiting[dispatch_id] = _Waiting(placed, asked, now_us + WAIT_FOR_ROOM_US)
            return []
        return self._take(placed, asked)

    def _take(self, placed: ActionPlaced, asked: Amounts) -> list[Output]:
        self.ledger.take(placed.dispatch_id, asked)
        self._runs[placed.dispatch_id] = _Run(placed)
        return [Publish(self._on_connection(facts.DispatchAccepted, placed.dispatch_id)), StartRun(placed)]

    def _decline(self, placed: ActionPlaced, reason: DeclineReason, asked: Amounts, free_kib: int | None) -> Output:
        fact = self._on_connection(facts.DispatchDeclined, placed.dispatch_id)
        fact.reason = reason
        # A takeover redelivers what it has not decided yet: what was declined must not be run when it comes again.
        self._declined[placed.dispatch_id] = None
        if len(self._declined) > MOST_ANSWERED:
            self._declined.popitem(last=False)
        if reason is DeclineReason.MEMORY:
            unlent = self.ledger.unlent_kib
            fact.needed_kib = asked.memory_kib
            fact.free_kib = unlent if free_kib is None else min(unlent, free_kib)
        return Publish(fact)

    def _take_waiting(self) -> list[Output]:
        outputs: list[Output] = []
        for dispatch_id, waiting in list(self._waiting.items()):
            if self.ledger.why_not(waiting.asked) is None:
                del self._waiting[dispatch_id]
                outputs += self._take(waiting.placed, waiting.asked)
        return outputs

    # -- runs -----------------------------------------------------------------------------------------------------------

    def run_ended(self, dispatch_id: int, report: RunReport) -> list[Output]:
        """A started run is over, by itself or because it was stopped; nothing of it is left on the machine."""
        run = self._runs.pop(dispatch_id)
        self.ledger.give_back(dispatch_id)
        outputs: list[Output] = []
        abandoned = self.standing is Standing.LEAVING and report.result is RunResult.KILLED
        if self._say_gone and not abandoned:
            unsettled = not (run.ended_in_log or report.result is RunResult.KILLED)
            outputs.append(self._report(dispatch_id, report, unsettled=unsettled))
        return outputs + self._take_waiting() + self._end_if_idle()

    def _stop_run(self, dispatch_id: int, run: _Run) -> list[Output]:
        if run.stopping:
            return []
        run.stopping = True
        return [StopRun(dispatch_id)]

    def _stop_all(self) -> list[Output]:
        return [output for dispatch_id, run in self._runs.items() for output in self._stop_run(dispatch_id, run)]

    def _report(self, dispatch_id: int, report: RunReport, *, unsettled: bool) -> Output:
        fact = self._on_connection(facts.ActionFinished, dispatch_id)
        fact.result, fact.exit_code, fact.message = report.result, report.exit_code, report.message
        fact.stdout_tail, fact.stderr_tail, fact.usage = report.stdout_tail, report.stderr_tail, report.usage
        self._answered[dispatch_id] = _Answer(fact, unsettled)
        self._answered.move_to_end(dispatch_id)
        if len(self._answered) > MOST_ANSWERED:
            self._answered.popitem(last=False)
        return Publish(fact)

    def _answer_again(self, answer: _Answer) -> list[Output]:
        fact = answer.fact
        # A new object: the former one may still wait to be published, on the connection of its time.
        report = RunReport(fact.result, fact.exit_code, fact.message, fact.stdout_tail, fact.stderr_tail, fact.usage)
        return [self._report(fact.dispatch_id, report, unsettled=answer.unsettled)]

    def _on_connection(self, kind: Callable[[str, str, int, int], OnConnection], dispatch_id: int) -> OnConnection:
        return kind(self.identity.instance, self.identity.endpoint, self.connection_id, dispatch_id)

    # -- time and leaving -----------------------------------------------------------------------------------------------

    def timer(self, now_us: int, free_kib: int | None = None) -> list[Output]:
        """Time passed; does what is due at `deadline_us`."""
        outputs: list[Output] = []
        connecting = self.standing is Standing.CONNECTING or (self.standing is Standing.DRAINING and not self.admitted)
        if connecting and now_us >= self._connect_at_us:
            self._connect_at_us = now_us + CONNECT_AGAIN_US
            outputs.append(Publish(self._connect_fact()))
        for dispatch_id, waiting in list(self._waiting.items()):
            if now_us >= waiting.until_us:
                del self._waiting[dispatch_id]
                reason = self.ledger.why_not(waiting.asked) or DeclineReason.FULL
                outputs.append(self._decline(waiting.placed, reason, waiting.asked, free_kib))
        if self._drain_until_us is not None and self.standing is Standing.DRAINING and now_us >= self._drain_until_us:
            outputs += self.abandon("the drain timeout passed")
        return outputs

    def drain(self, now_us: int, timeout_us: int | None = None) -> list[Output]:
        """Take nothing new, report what runs, then leave with exit code 0. After `timeout_us`, abandon (None: wait for ever)."""
        if self.standing is Standing.NEW:
            self.standing = Standing.STOPPED
            return [Stop(0, "stopped before it connected")]
        if self.standing not in (Standing.CONNECTING, Standing.SERVING):
            return []
        self.standing = Standing.DRAINING
        self._drain_until_us = None if timeout_us is None else now_us + timeout_us
        outputs: list[Output] = [Publish(facts.WorkerDrained(self.identity.instance, self.identity.endpoint))]
        for waiting in self._waiting.values():
            outputs.append(self._decline(waiting.placed, DeclineReason.SHUTTING_DOWN, waiting.asked, None))
        self._waiting.clear()
        self._early.clear()  # WorkerGone puts them back
        return outputs + self._end_if_idle()

    def abandon(self, why: str) -> list[Output]:
        """Stop what runs, without reports, and leave with exit code 1; 0 when nothing ran."""
        if self.standing in (Standing.LEAVING, Standing.STOPPED):
            return []
        return self._leave(1 if self._runs else 0, why, say_gone=self.standing is not Standing.NEW)

    def _leave(self, exit_code: int, why: str, *, say_gone: bool) -> list[Output]:
        self.standing = Standing.LEAVING
        self._waiting.clear()
        self._stop = Stop(exit_code, why)
        self._say_gone = self._say_gone and say_gone
        return [*self._stop_all(), *self._end_if_idle()]

    def _end_if_idle(self) -> list[Output]:
        if self._runs or self.standing not in (Standing.DRAINING, Standing.LEAVING):
            return []
        self.standing = Standing.STOPPED
        gone = facts.WorkerGone(self.identity.instance, self.identity.endpoint, self.connection_id)
        return [Publish(gone), self._stop] if self._say_gone else [self._stop]
