"""The world around the core: jobs arrive, workers run them for as long as they take, and every fact of it goes through `events.decide`.

What is simulated is the production core, on a virtual clock of whole microseconds. The world adds nothing of its own: a worker takes every
placement at once and reports at the end of the run; nothing is lost, and no message takes time. Of what happens at one moment, ends come
before arrivals, each in the order in which it was caused; every fact has its own pass, as on a log.

Passes happen when something happens. The world sends no keepalives and lets no ticks pass between (a trace of a year would be sixty
million of them), so its workers get a timeout of ten years, and gaps stand in the log as `LogSilent`, which moves liveness deadlines only.
Now and then a `Tick` follows a fact at the same moment, so that the core forgets what finished. Where the log is to look like one that
a decider left, `tick_us` lets ticks pass as its ticker would.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.config import SECOND_US, PropertyKind, SimpleScheduler, canonical_config
from events.config.options import TEN_YEARS_S
from events.decide import decide, elect
from events.errors import HeadwayError
from events.indexing import build_indexes
from events.reasons import HoldEnd
from events.state import Instance, Shard
from events.values import U63_MAX, Properties
from streams.simulate.recording import LEADER_EPOCH, Recording
from streams.simulate.workload import CPU, Workload

INSTANCE = "main"
START_US = 1_000_000
"""Virtual time of the first fact; 0 would mean "no time yet" to the core."""

FACTS_PER_TICK = 512

ROOMY = str(2**40)
"""Of each minimum, what runs a history without anything waiting; far from what a number of the contract holds."""


class SimulationStuck(HeadwayError):
    """The core did something the world cannot go on from; a defect, with the place to look at."""

    code = "HW-120"


@dataclass(slots=True)
class Run:
    """What became of the jobs of one simulation; times are microseconds since the first arrival, lists are by job."""

    workload: Workload
    started_us: list[int]
    ended_us: list[int]
    workers: list[str]
    facts: int = 0
    events: int = 0
    holds: int = 0
    moves: int = 0
    backfilled: int = 0
    hold_ends: Counter[HoldEnd] = field(default_factory=Counter)
    held_us: int = 0
    held_idle_millis_us: int = 0  # free thousandths of cores of the held worker, times microseconds


def _nothing_yet(workload: Workload) -> Run:
    count = len(workload.jobs)
    return Run(workload, [-1] * count, [-1] * count, [""] * count)


class World:
    """One run of a workload under a configuration. `run` may be called once.

    With `history` its jobs run first, each as it arrives, on workers of their own that are large enough for all and gone when the workload
    begins: what the log then says of durations is what it would say after that history, and nothing waits for anything. A `recording` is
    told every fact and event.
    """

    def __init__(
        self,
        workload: Workload,
        config: SimpleScheduler,
        history: Workload | None = None,
        recording: Recording | None = None,
        tick_us: int = 0,
    ) -> None:
        self._workload = workload
        self._recording = recording
        self._tick_us = tick_us
        self._ticked_us = START_US
        self._history = history
        self._start_us = START_US  # of the workload that runs
        self._config = config.model_copy(
            update={"worker_timeout_s": TEN_YEARS_S, "supported_platform_properties": dict(workload.kinds)}
        )
        self._shard = Shard()
        self._offset = 0
        self._run = _nothing_yet(workload)
        # (moment, serial, job, dispatch_id, endpoint) of every run that goes on.
        self._ends: list[tuple[int, int, int, int, str]] = []
        self._jobs: dict[int, int] = {}  # operation_id to the job's number
        self._connections: dict[str, int] = {}
        self._cpu = self._config.pools().index(CPU)
        self._held_from_us = 0
        self._held_free = 0  # of the held worker, since `_held_from_us`
        self._held = False

    @property
    def shard(self) -> Shard:
        """The core's state; after `run` that at the end."""
        return self._shard

    def run(self) -> Run:
        """Simulate until every job has ended.

        Raises SimulationStuck when jobs are left that the core never placed, or a job was lost by the core.
        """
        build_indexes(self._shard)
        if self._recording is None:
            elect(self._shard, leader_epoch=LEADER_EPOCH)
        else:
            self._recording.elect(self._shard)
        self._take(START_US, f.Configured(INSTANCE, canonical_config(self._config)))
        if self._history is not None:
            self._start_us = self._learn(self._history)
        self._connect((machine.name, machine.properties) for machine in self._workload.machines)
        self._play()
        left = [job.name for job, ended in zip(self._workload.jobs, self._run.ended_us, strict=True) if ended < 0]
        if left:
            raise SimulationStuck(
                f"{len(left)} of {len(self._workload.jobs)} jobs were never placed although nothing runs any more; the first is {left[0]}"
            )
        return self._run

    def _learn(self, history: Workload) -> int:
        """Run the history through; when the workload may begin."""
        measured, self._run = self._run, _nothing_yet(history)
        asked = dict.fromkeys(job.requirements for job in history.jobs)
        roomy = [(f"history-{number}", self._roomy(requirements)) for number, requirements in enumerate(asked)]
        self._connect(roomy)
        self._play()
        over_us = self._start_us + max(self._run.ended_us, default=0)
        for endpoint, _ in roomy:
            self._take(over_us, f.WorkerGone(INSTANCE, endpoint, self._connections.pop(endpoint)))
        self._run = measured
        return over_us + SECOND_US

    def _roomy(self, requirements: Properties) -> Properties:
        """What a worker offers that runs any number of jobs with these requirements."""
        minimum = PropertyKind.MINIMUM
        return tuple((name, ROOMY if self._config.kind_of(name) is minimum else value) for name, value in requirements)

    def _connect(self, machines: Iterable[tuple[str, Properties]]) -> None:
        for number, (name, properties) in enumerate(machines, start=1):
            self._connections[name] = number
            self._take(self._start_us, f.WorkerConnected(INSTANCE, name, number, number, properties))

    def _play(self) -> None:
        jobs, ends, start_us = self._run.workload.jobs, self._ends, self._start_us
        requirements = {asked: canonical_requirements(asked) for asked in dict.fromkeys(j.requirements for j in jobs)}
        arrived = 0
        while arrived < len(jobs) or ends:
            end_us = ends[0][0] if ends else U63_MAX
            arrival_us = start_us + jobs[arrived].arrival_us if arrived < len(jobs) else U63_MAX
            if self._tick_us and self._ticked_us + self._tick_us < min(end_us, arrival_us):
                self._ticked_us += self._tick_us
                self._take(self._ticked_us, f.Tick())
            elif end_us <= arrival_us:
                now_us, _, number, dispatch_id, endpoint = heappop(ends)
                self._run.ended_us[number] = now_us - start_us
                self._take(
                    now_us, f.ActionFinished(INSTANCE, endpoint, self._connections[endpoint], dispatch_id, exit_code=0)
                )
            else:
                job = jobs[arrived]
                self._jobs[self._offset] = arrived
                self._take(
                    arrival_us,
                    f.ActionQueued(
                        INSTANCE,
                        str(arrived),
                        requirements[job.requirements],
                        expected_duration_us=job.expected_us,
                    ),
                )
                arrived += 1

    def _take(self, now_us: int, fact: f.Fact) -> None:
        """Decide a fact, then what the workers answer to it and to those."""
        self._count_hold(now_us)
        due: deque[f.Fact] = deque([fact])
        while due:
            due.extend(self._decided(now_us, due.popleft()))
            if self._offset % FACTS_PER_TICK == 0:
                due.append(f.Tick())
        self._note_hold(now_us)

    def _decided(self, now_us: int, fact: f.Fact) -> list[f.Fact]:
        """Let the core decide one fact; what the workers answer at once."""
        caused = decide(self._shard, fact, offset=self._offset, append_us=now_us)
        self._offset += 1
        if self._recording is not None:
            self._recording.take(fact, now_us, caused)
        run = self._run
        run.facts += 1
        run.events += len(caused)
        answers: list[f.Fact] = []
        for event in caused:
            match event:
                case e.OperationDispatched():
                    answers.append(self._started(now_us, event))
                case e.HoldMade():
                    run.holds += 1
                case e.HoldMoved():
                    run.moves += 1
                case e.HoldReleased():
                    run.hold_ends[event.reason] += 1
                    run.held_us += event.held_us
                case e.WorkerDisconnected() if event.endpoint not in self._connections:
                    pass  # its part is over
                case e.OperationRequeued() | e.FactRejected() | e.WorkerDisconnected():
                    raise SimulationStuck(f"in a world without faults the core emitted {event}")
        return answers

    def _started(self, now_us: int, event: e.OperationDispatched) -> f.Fact:
        number = self._jobs[event.operation_id]
        run = self._run
        job = run.workload.jobs[number]
        if run.started_us[number] >= 0:
            raise SimulationStuck(f"{job.name} was dispatched twice: {event}")
        run.started_us[number] = now_us - self._start_us
        run.workers[number] = event.endpoint
        run.backfilled += event.backfilled
        heappush(self._ends, (now_us + job.run_us, event.seq, number, event.dispatch_id, event.endpoint))
        return f.DispatchAccepted(INSTANCE, event.endpoint, event.connection_id, event.dispatch_id)

    def _instance(self) -> Instance | None:
        return self._shard.instances.get(INSTANCE)

    def _count_hold(self, now_us: int) -> None:
        """Add up what the held worker kept free since the last moment something happened."""
        if self._held:
            self._run.held_idle_millis_us += self._held_free * (now_us - self._held_from_us)

    def _note_hold(self, now_us: int) -> None:
        instance = self._instance()
        hold = None if instance is None else instance.hold
        self._held = hold is not None
        if hold is not None:
            self._held_from_us, self._held_free = now_us, hold.worker.remaining[self._cpu]
