"""The I/O of workers: one process serves one endpoint, or hundreds of simulated ones, from one reader of the log.

Tasks of their own, so that none starves another:

* reading: the shard's placements and worker commands from their ends on, read committed; records of other endpoints are dropped by
  their key, unparsed;
* the outbox: facts to the log, in order, again and again until acknowledged;
* keepalives: every quarter of the worker timeout, published directly, so that a report which waits for the log never holds them up;
* timers: what the state machines have due;
* blobs, where the worker keeps some: what it holds, told after each admission in full and then as it changes.

A worker keeps no position. It takes both ends first and connects then, so its answers lie ahead of it; when its place in the log is
lost (trimmed under it, or the log was made anew), it takes the ends again and connects again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from events import facts
from events.reasons import sentence
from streams.effects import record_of
from streams.errors import LogUnavailable, OffsetPastEnd, OffsetTrimmed, OutcomeUnknown
from streams.log import Follower, Log, Partition, Record
from streams.log_lines import say
from streams.placements import placement_message, placement_of
from streams.topics import FACTS, PLACEMENTS, WORKER_COMMANDS
from streams.worker.blobs import WorkerBlobs
from streams.worker.commands import StableChunk, command_in
from streams.worker.executors import Executor
from streams.worker.outbox import Outbox
from streams.worker.protocol import (
    ApplyStable,
    Connect,
    Output,
    Publish,
    RunReport,
    StartRun,
    Stop,
    StopRun,
    WorkerProtocol,
)

KEEPALIVES_PER_TIMEOUT = 4
FIRST_KEEPALIVE_S = 2.5
SHORTEST_KEEPALIVE_S = 0.25
TIMER_S = 0.1
READ_MS = 500
FOLLOW_AGAIN_S = 0.5

_log = logging.getLogger("headway.worker")


def monotonic_us() -> int:
    """This process's monotonic clock in microseconds."""
    return time.monotonic_ns() // 1000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the runtime takes from outside of itself.

    Args:
        draw: a connection id, never 0 and never the same twice: 64 random bits.
        available_kib: memory free on this machine now; None, not measured.
        now_us: a clock that never goes back.
    """

    draw: Callable[[], int]
    available_kib: Callable[[], int | None] = lambda: None
    now_us: Callable[[], int] = monotonic_us


@dataclass(slots=True)
class RuntimeStats:
    """What this process has done so far."""

    started: int = 0
    finished: int = 0
    declined: int = 0
    connects: int = 0
    keepalives: int = 0


class WorkerRuntime:
    """Runs workers of one shard until every one has stopped.

    Args:
        log: where they read and write; it stays the caller's.
        shard: their shard.
        workers: the state machines, each of another endpoint, none connected yet.
        executor: where their runs happen. Closed at the end.
        blobs: those of the one worker that keeps some; None: none does. They stay the caller's.
    """

    def __init__(
        self,
        log: Log,
        shard: int,
        workers: Sequence[WorkerProtocol],
        executor: Executor,
        surroundings: Surroundings,
        *,
        blobs: WorkerBlobs | None = None,
    ) -> None:
        self.stats = RuntimeStats()
        self._target = log
        self._shard = shard
        self._facts_at: Partition = (FACTS, shard)
        self._placements_at: Partition = (PLACEMENTS, shard)
        self._commands_at: Partition = (WORKER_COMMANDS, shard)
        self._positions: dict[Partition, int] = {self._placements_at: 0, self._commands_at: 0}
        self._follower: Follower | None = None
        self._workers = {worker.identity.endpoint.encode(): worker for worker in workers}
        if len(self._workers) != len(workers):
            raise ValueError("two workers of one process have the same endpoint")
        if blobs is not None and len(workers) != 1:
            raise ValueError(f"blobs belong to one worker, and there are {len(workers)}")
        self._blobs = blobs
        self._executor = executor
        self._draw, self._available_kib, self._now_us = (
            surroundings.draw,
            surroundings.available_kib,
            surroundings.now_us,
        )
        self._outbox = Outbox(log, self._facts_at)
        self._all_stopped = asyncio.Event()
        self._stops: dict[str, Stop] = {}
        self._failure: Exception | None = None
        self._last_connect: dict[str, int] = {}  # connection id by endpoint

    @property
    def stops(self) -> dict[str, Stop]:
        """By endpoint, how each worker that has stopped came to stop."""
        return dict(self._stops)

    async def run(self) -> int:
        """Connect, work, and return the highest exit code of the workers once all have stopped and all is acknowledged.

        Raises:
            NoSuchTopic, NoSuchPartition: the topics were not made.
            Refused: the log does not take a fact.
            UnreadablePlacement, UnreadableCommand: a record for one of these workers cannot be understood.
            LogUnavailable: no answer at the start.
        """
        self._follower = follower = await self._target.follow(dict.fromkeys(self._positions))
        try:
            await self._take_ends(follower)
            await self._work()
        finally:
            await self._leave_off()
            await self._executor.close()
        return max((stop.exit_code for stop in self._stops.values()), default=0)

    async def _work(self) -> None:
        works = [
            ("outbox", self._outbox.run()),
            ("reading", self._read()),
            ("keepalives", self._keep_alive()),
            ("timers", self._watch_timers()),
            ("stopping", self._all_stopped.wait()),
        ]
        if self._blobs is not None:
            (one,) = self._workers.values()
            works.append(("blobs", self._blobs.report(one, self._outbox.put)))
        tasks = [asyncio.create_task(work, name=name) for name, work in works]
        for worker in self._workers.values():
            if not worker.stopped:
                self._carry_out(worker, worker.connect(self._draw(), self._now_us()))
        try:
            # Each but one runs for ever: the first to end has failed, or all workers have stopped.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if self._failure is not None:
                raise self._failure
            emptied = asyncio.create_task(self._outbox.emptied())
            done, _ = await asyncio.wait([emptied, tasks[0]], return_when=asyncio.FIRST_COMPLETED)
            emptied.cancel()
            if tasks[0] in done:
                tasks[0].result()
            say(
                _log, logging.INFO, "every worker has stopped", workers=len(self._workers), finished=self.stats.finished
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def drain(self, timeout_us: int | None = None) -> None:
        """Let every worker finish what it runs and leave (the first SIGTERM). Abandons what runs after `timeout_us`."""
        self._from_outside(lambda worker: worker.drain(self._now_us(), timeout_us), self._workers.values())

    def abandon(self, why: str) -> None:
        """Stop what runs and leave (the second SIGTERM)."""
        self._from_outside(lambda worker: worker.abandon(why), self._workers.values())

    def _from_outside(self, ask: Callable[[WorkerProtocol], list[Output]], workers: Iterable[WorkerProtocol]) -> None:
        """Carry out what a callback of the event loop brings. Nobody would see it raise, so `run` raises it instead."""
        try:
            for worker in workers:
                self._carry_out(worker, ask(worker))
        except Exception as error:
            self._failure = self._failure or error
            self._all_stopped.set()

    # -- reading --------------------------------------------------------------------------------------------------------

    async def _take_ends(self, follower: Follower) -> None:
        for partition in self._positions:
            self._positions[partition] = await follower.end_offset(partition)
            follower.seek(partition, self._positions[partition])

    async def _leave_off(self) -> None:
        if self._follower is not None:
            follower, self._follower = self._follower, None
            await follower.close()

    async def _read(self) -> None:
        lost = False
        while True:
            try:
                if self._follower is None:
                    self._follower = await self._target.follow(self._positions)
                if lost:
                    await self._take_ends(self._follower)
                    lost = False
                    for worker in self._workers.values():
                        self._carry_out(worker, worker.lose_position())
                found = await self._follower.read(timeout_ms=READ_MS)
            except (OffsetTrimmed, OffsetPastEnd) as error:
                say(_log, logging.WARNING, "the place in the log is lost; connecting anew", error=str(error))
                lost = True
                continue
            except LogUnavailable as error:
                # A follower that says so may never recover; a new one goes on at the same place.
                say(_log, logging.WARNING, "the log is away", error=str(error))
                await self._leave_off()
                await asyncio.sleep(FOLLOW_AGAIN_S)
                continue
            # Commands first: an admission makes sense of the placements that came with it.
            for record in found.get(self._commands_at, ()):
                self._positions[self._commands_at] = record.offset + 1
                self._command(record)
            placed = found.get(self._placements_at, ())
            free_kib = self._available_kib() if placed else None
            for record in placed:
                self._positions[self._placements_at] = record.offset + 1
                self._placement(record, free_kib)

    def _command(self, record: Record) -> None:
        if not record.key:
            self._command_for_all(record)
            return
        worker = self._workers.get(record.key)
        if worker is not None:
            command = command_in(record.value, self._shard, record.offset)
            before = worker.admitted
            self._carry_out(worker, worker.command(command, self._now_us(), self._available_kib()))
            if worker.admitted and not before:
                self._note_admitted(worker)

    def _command_for_all(self, record: Record) -> None:
        """Stable blobs are told to all workers of an instance in one record."""
        command = command_in(record.value, self._shard, record.offset)
        if isinstance(command, StableChunk):
            for worker in self._workers.values():
                self._carry_out(worker, worker.command(command, self._now_us()))

    def _placement(self, record: Record, free_kib: int | None) -> None:
        worker = self._workers.get(record.key or b"")
        if worker is not None:
            message = placement_message(record.value, self._shard, record.offset)
            placement = placement_of(message, self._shard, record.offset)
            self._carry_out(worker, worker.placement(placement, self._now_us(), free_kib))

    # -- doing what the state machines say ------------------------------------------------------------------------------

    def _carry_out(self, worker: WorkerProtocol, outputs: list[Output]) -> None:
        endpoint = worker.identity.endpoint
        todo = deque(outputs)
        while todo:
            match todo.popleft():
                case Publish(fact):
                    self._note(fact)
                    self._outbox.put(fact)
                case StartRun(placed):
                    self.stats.started += 1
                    self._executor.start(placed, lambda ended_id, report: self._run_ended(worker, ended_id, report))
                case StopRun(dispatch_id):
                    self._executor.stop(dispatch_id)
                case ApplyStable(chunk, mirror):
                    if self._blobs is not None:
                        self._blobs.apply_stable(chunk, mirror=mirror)
                case Connect(why):
                    say(_log, logging.WARNING, "connecting again", endpoint=endpoint, because=why)
                    todo.extend(worker.connect(self._draw(), self._now_us()))
                case Stop() as stop:
                    crowd = logging.INFO if len(self._workers) == 1 else logging.DEBUG
                    level = logging.ERROR if stop.exit_code else crowd
                    say(_log, level, "the worker stops", endpoint=endpoint, exit_code=stop.exit_code, because=stop.why)
                    self._stops[endpoint] = stop
                    if all(each.stopped for each in self._workers.values()):
                        self._all_stopped.set()

    def _run_ended(self, worker: WorkerProtocol, dispatch_id: int, report: RunReport) -> None:
        self.stats.finished += 1
        self._from_outside(lambda ended: ended.run_ended(dispatch_id, report), [worker])

    def _note_admitted(self, worker: WorkerProtocol) -> None:
        """Say that workers are ready for work: one line for a fleet, when its last one is."""
        if len(self._workers) == 1:
            say(_log, logging.INFO, "admitted", endpoint=worker.identity.endpoint, shard=self._shard)
        elif all(each.admitted for each in self._workers.values()):
            say(_log, logging.INFO, "all workers are admitted", workers=len(self._workers), shard=self._shard)

    def _note(self, fact: facts.Fact) -> None:
        match fact:
            case facts.WorkerConnected():
                self.stats.connects += 1
                before = self._last_connect.get(fact.endpoint)
                self._last_connect[fact.endpoint] = fact.connection_id
                if before == fact.connection_id:
                    what = "not admitted yet, connecting again; does a decider run for this shard?"
                    say(_log, logging.WARNING, what, endpoint=fact.endpoint, shard=self._shard)
            case facts.DispatchDeclined():
                self.stats.declined += 1
                say(
                    _log,
                    logging.INFO,
                    "declined",
                    endpoint=fact.endpoint,
                    dispatch_id=fact.dispatch_id,
                    because=sentence(fact.reason),
                    needed_kib=fact.needed_kib or None,
                    free_kib=fact.free_kib or None,
                )
            case facts.DispatchAccepted():
                say(_log, logging.DEBUG, "accepted", endpoint=fact.endpoint, dispatch_id=fact.dispatch_id)
            case facts.ActionFinished():
                say(
                    _log,
                    logging.DEBUG,
                    "reported",
                    endpoint=fact.endpoint,
                    dispatch_id=fact.dispatch_id,
                    result=fact.result.name,
                    exit_code=fact.exit_code,
                )
            case _:
                return

    # -- time -----------------------------------------------------------------------------------------------------------

    async def _watch_timers(self) -> None:
        while True:
            await asyncio.sleep(TIMER_S)
            now_us = self._now_us()
            for worker in self._workers.values():
                deadline_us = worker.deadline_us
                if deadline_us is not None and now_us >= deadline_us:
                    self._carry_out(worker, worker.timer(now_us, self._available_kib()))

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(TIMER_S)
            # The interval is told at each admission, so it is asked anew; missed ones are skipped, only the latest figure matters.
            if loop.time() - last < self._keepalive_s():
                continue
            last = loop.time()
            available_kib = self._available_kib()
            said = [worker.keepalive(self._free_kib(worker, available_kib)) for worker in self._workers.values()]
            records = [record_of(fact) for fact in said if fact is not None]
            if not records:
                continue
            try:
                await self._target.publish(self._facts_at, records)
            except (OutcomeUnknown, LogUnavailable) as error:
                say(_log, logging.WARNING, "a keepalive did not reach the log", error=str(error))
            else:
                self.stats.keepalives += len(records)

    def _free_kib(self, worker: WorkerProtocol, available_kib: int | None) -> int:
        """What the worker reports as free: what it has not lent, or less where the machine has less to give."""
        unlent_kib = worker.ledger.unlent_kib
        return unlent_kib if available_kib is None else min(unlent_kib, available_kib)

    def _keepalive_s(self) -> float:
        told_us = [worker.worker_timeout_us for worker in self._workers.values() if worker.worker_timeout_us]
        if not told_us:
            return FIRST_KEEPALIVE_S
        return max(SHORTEST_KEEPALIVE_S, min(told_us) / KEEPALIVES_PER_TIMEOUT / 1e6)
