"""A recorded window decided again under other settings: given facts come as they came, answers come from how the runs went.

The core decides; this is the world around it. While a run is the same as in the record (same operation, attempt, endpoint and moment) its
worker's recorded facts are taken as they are, under the new dispatch id. Any other run goes the way `Courses` says. Connecting workers list
the runs they have here. An outage of the log is one here, too: nobody says anything while it lasts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final

from events import events as e
from events import facts as f
from events.config import canonical_config
from events.decide import decide, elect, reject_undecidable
from events.errors import HeadwayError, InvalidConfiguration
from events.holders import NO_HOLDERS, Holders, RecordedHolders
from events.indexing import build_indexes
from events.reasons import CacheAnswer, RunResult
from events.state import Operation, Shard
from projections.state_copy import copy_of
from projections.whatif.decisions import Comparison
from projections.whatif.durations import Course, Courses, Source
from projections.whatif.meter import Meter
from projections.whatif.record import ANSWERS, Answer, AnswerFact, Attempt, Given, Record, kind_of
from projections.whatif.setting import Setting, changed, changed_if_valid

_LATE: Final = 1 << 62
"""Of what happens at one moment, what no record orders comes last."""

FACTS_TOLD: Final = 2_000


class CannotDecide(HeadwayError):
    """The core failed on a fact of the new history; a defect, with the place to look at."""

    code = "HW-131"


@dataclass(slots=True, eq=False)
class Run:
    """One run that goes on. `recorded` is the attempt it is the same as."""

    instance: str
    endpoint: str
    dispatch_id: int
    began_us: int
    course: Course
    recorded: Attempt | None
    killed: bool = False
    over: bool = False
    generation: int = 0  # modelled facts of an earlier one are not due any more


@dataclass(slots=True)
class Told:
    """Where the facts of a history came from."""

    given: int = 0
    real: int = 0  # recorded answers of runs that are the same
    modelled: int = 0
    same_runs: int = 0
    runs: Counter[Source] = field(default_factory=Counter)  # that are not the same, by what their length is known from


class World:
    """One history of a record. `play` may be called once.

    Args:
        settings: what the instance's configuration is changed by, from the window's first moment on.
        regenerate: no recorded answer is taken as it was, every one is modelled. What comes out then differs from the record by what
            the model gets wrong.
        told: called with the number of facts decided since the last call.
    """

    def __init__(
        self,
        record: Record,
        instance: str,
        settings: Sequence[Setting] = (),
        *,
        courses: Courses,
        regenerate: bool = False,
        told: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.meter = Meter(instance)
        self.comparison = Comparison(record.decisions)
        self.facts = Told()
        self._record, self._instance, self._settings = record, instance, settings
        self._courses, self._regenerate, self._told = courses, regenerate, told
        self._shard: Shard = copy_of(record.base)
        self._holders: Holders = NO_HOLDERS
        if any(event.holders or event.saved_bytes for event in record.dispatches):
            self._holders = RecordedHolders(record.dispatches)
        # When it is due, its place within the moment, a serial number; who says what; of which generation of the run.
        self._due: list[tuple[int, int, int, Run | None, Answer | f.Fact, int]] = []
        self._serial = 0
        self._position = record.base.position
        self._runs: dict[int, Run] = {}  # by dispatch_id
        self._at: dict[tuple[str, str], dict[int, Run]] = {}  # by instance and endpoint
        self._attempts: Counter[int] = Counter()
        self._ids: dict[int, int] = {}  # of runs that are the same: recorded dispatch_id to the one here
        self._chunks: dict[int, int] = {}  # seq of BlobsStable in the record to the one here
        self._offsets_of_chunks = {offset: seq for seq, offset in record.stable_seqs.items()}

    @property
    def shard(self) -> Shard:
        """The core's state; after `play` that at the end."""
        return self._shard

    def play(self) -> None:
        """Decide every fact of the window, and what workers say in between.

        Raises:
            CannotDecide: the core failed.
            InvalidConfiguration, BadSetting: a configuration of the window does not take the settings.
        """
        record, shard = self._record, self._shard
        build_indexes(shard)
        self.meter.begin(shard)
        self._resume()
        self._configure()
        decided = 0
        for given in record.givens:
            self._answer_until(given.order)
            self._give(given)
            decided += 1
            if decided % FACTS_TOLD == 0:
                self._told(FACTS_TOLD)
        self._answer_until((record.last_at_us, _LATE + 1))
        self._told(decided % FACTS_TOLD)
        self.meter.finish(shard, record.last_at_us)
        self.comparison.finish()

    def _resume(self) -> None:
        """Runs that go on from before the window are those of the record."""
        base_seq = self._record.base.seq
        for operation_id, attempts in self._record.attempts.items():
            before = sum(attempt.dispatch_id <= base_seq for attempt in attempts)
            if before:
                self._attempts[operation_id] = before
        for instance in self._shard.instances.values():
            for worker in instance.workers.values():
                for dispatch in worker.running.values():
                    attempt = self._record.by_dispatch[dispatch.dispatch_id]
                    run = self._begin(
                        dispatch.operation,
                        attempt.number,
                        worker.endpoint,
                        dispatch.dispatch_id,
                        dispatch.dispatched_at_us,
                        attempt,
                    )
                    run.killed = dispatch.revoked
                    self._let_answer(run, accepted=dispatch.accepted)

    def _configure(self) -> None:
        instance = self._shard.instances.get(self._instance)
        if instance is None or not self._settings:
            return
        text = changed(_text(self._shard, self._instance), self._settings)
        self._decide(f.Configured(self._instance, text), self._position, self._shard.now_us, "")

    def _give(self, given: Given) -> None:
        if given.election is not None:
            self._elect(given.election)
            return
        fact = given.fact
        assert fact is not None, "what is no election is a fact"
        self._position = given.offset
        self.facts.given += 1
        if given.written_off:
            self._see(
                reject_undecidable(
                    self._shard,
                    fact,
                    offset=given.offset,
                    append_us=given.append_us,
                    key=given.key,
                    error=given.written_off,
                )
            )
            return
        match fact:
            case f.Configured() if fact.instance == self._instance and self._settings:
                fact = replace(fact, config_json=changed_if_valid(fact.config_json, self._settings))
            case f.WorkerConnected() if fact.running or self._at.get((fact.instance, fact.endpoint)):
                fact = replace(fact, running=self._running(fact, given.offset))
            case f.BlobsStableAcknowledged():
                fact = replace(fact, chunk_seq=self._chunks.get(fact.chunk_seq, fact.chunk_seq))
        self._decide(fact, given.offset, given.append_us, given.key)

    def _elect(self, election: e.LeaderElected) -> None:
        events = elect(
            self._shard,
            leader_epoch=election.leader_epoch,
            cluster_id=election.cluster_id,
            facts_topic_id=election.facts_topic_id,
            events_topic_id=election.events_topic_id,
            build=election.build,
            facts_end=election.facts_end,
        )
        self._holders.see(events)
        self._see(events)

    def _answer_until(self, order: tuple[int, ...]) -> None:
        """Take what is due before a moment."""
        due = self._due
        while due and due[0][:2] < order:
            at_us, _, _, run, what, generation = heappop(due)
            if isinstance(what, Answer):
                assert run is not None, "answers are about runs"
                self._take_recorded(run, what)
            elif run is None:
                self._model(what, at_us)
            elif not run.over and run.generation == generation:
                assert isinstance(what, ANSWERS), "workers say nothing else of runs"
                self._model(self._about(run, what), at_us)

    def _take_recorded(self, run: Run, answer: Answer) -> None:
        fact = answer.fact
        if run.recorded is None:
            return  # it was told to stop here, and not there: what it said there it does not say here
        stopped = type(fact) is f.ActionFinished and fact.result == RunResult.KILLED
        if stopped and not run.killed and not run.over and 0 < run.recorded.killed_at_us < answer.at_us:
            return  # it was told to stop there, and not here: it runs on to its modelled end
        self._position = max(self._position, answer.offset)
        self.facts.real += 1
        self._decide(replace(fact, dispatch_id=run.dispatch_id), answer.offset, answer.append_us, answer.key)

    def _model(self, fact: f.Fact, at_us: int) -> None:
        self.facts.modelled += 1
        self._decide(fact, self._position, at_us, getattr(fact, "endpoint", ""))

    def _about(self, run: Run, fact: AnswerFact) -> f.Fact:
        """A fact as this run's worker says it, on the connection it has now."""
        worker = self._shard.instances[run.instance].workers[run.endpoint]
        return replace(
            fact,
            instance=run.instance,
            endpoint=run.endpoint,
            connection_id=worker.connection_id,
            dispatch_id=run.dispatch_id,
        )

    def _decide(self, fact: f.Fact, offset: int, append_us: int, key: str) -> None:
        try:
            events = decide(self._shard, fact, offset=offset, append_us=append_us, key=key, holders=self._holders)
        except Exception as error:
            raise CannotDecide(
                f"the core failed on {type(fact).__name__} at offset {offset}, after event {self._shard.seq} of the new history: "
                f"{type(error).__name__}: {error}"
            ) from error
        if type(fact) is f.Configured and fact.instance == self._instance and self._settings:
            _check_taken(events)
        self._see(events)

    def _see(self, events: list[e.Event]) -> None:
        self.comparison.see(events)
        self.meter.see(events, self._shard)
        for event in events:
            match event:
                case e.Ticked() | e.WorkerReported():
                    pass
                case e.OperationDispatched():
                    self._start(event)
                case e.OperationRequeued() | e.OperationFinished():
                    run = self._runs.get(event.dispatch_id)
                    if run is not None and not run.killed:  # what was told to stop pays until it has
                        self._end(run)
                case e.KillRequested() if event.dispatch_id in self._runs:
                    self._kill(self._runs[event.dispatch_id], event.at_us)
                case e.DispatchSettled() if event.dispatch_id in self._runs:
                    self._end(self._runs[event.dispatch_id])
                case e.WorkerDisconnected():
                    for run in list(self._at.get((event.instance, event.endpoint), {}).values()):
                        self._end(run)
                case e.WorkerAdmitted():
                    for run in list(self._at.get((event.instance, event.endpoint), {}).values()):
                        if run.dispatch_id not in event.kept:
                            self._end(run)
                case e.CacheLookupRequested() if not self._was_asked(event.operation_id):
                    self._miss(event)
                case e.BlobsStable() if event.cause_offset in self._offsets_of_chunks:
                    self._chunks[self._offsets_of_chunks[event.cause_offset]] = event.seq

    def _start(self, event: e.OperationDispatched) -> None:
        operation = self._shard.operations[event.operation_id]
        number = self._attempts[event.operation_id]
        self._attempts[event.operation_id] += 1
        attempts = self._record.attempts.get(event.operation_id, ())
        own = attempts[number] if number < len(attempts) else None
        same = own is not None and (own.endpoint, own.dispatched_at_us) == (event.endpoint, event.at_us)
        run = self._begin(operation, number, event.endpoint, event.dispatch_id, event.at_us, own if same else None)
        self._let_answer(run)

    def _begin(
        self,
        operation: Operation,
        number: int,
        endpoint: str,
        dispatch_id: int,
        began_us: int,
        recorded: Attempt | None,
    ) -> Run:
        """A run that goes on from here; nothing of it is due yet."""
        kind = kind_of(self._shard, operation)
        course = self._courses.of(operation.operation_id, number, kind, operation.expected_duration_us)
        run = Run(operation.instance, endpoint, dispatch_id, began_us, course, recorded)
        self._runs[dispatch_id] = run
        self._at.setdefault((run.instance, endpoint), {})[dispatch_id] = run
        if recorded is not None:
            self._ids[recorded.dispatch_id] = dispatch_id
        return run

    def _let_answer(self, run: Run, *, accepted: bool = False) -> None:
        """What its worker will say of it is due."""
        recorded, course = run.recorded, run.course
        if recorded is not None and not self._regenerate:
            self.facts.same_runs += 1
            for answer in recorded.answers:
                self._serial += 1
                heappush(self._due, (answer.at_us, answer.offset, self._serial, run, answer, 0))
            if recorded.end() is None and not run.killed:  # should it outlive here what ended it there
                self._let_end(run, run.began_us)
            return
        self.facts.runs[course.source] += 1
        if run.killed:  # before the window
            stopped = None if recorded is None else recorded.stopped()
            if stopped is not None:
                self._let_say(run, stopped.at_us, stopped.offset, stopped.fact)
            return
        if not accepted and course.accept_us is not None:
            accept = f.DispatchAccepted(run.instance, run.endpoint, 0, run.dispatch_id)
            self._let_say(run, run.began_us + course.accept_us, course.accept_offset, accept)
        self._let_end(run, run.began_us)

    def _let_end(self, run: Run, not_before_us: int) -> None:
        """Its own end is due, if it has any."""
        course = run.course
        if course.run_us is not None:
            end = course.end or f.ActionFinished(run.instance, run.endpoint, 0, run.dispatch_id)
            self._let_say(run, max(run.began_us + course.run_us, not_before_us), course.end_offset, end)

    def _let_say(self, run: Run | None, at_us: int, offset: int, fact: f.Fact) -> None:
        """A modelled fact is due; `offset` is that of the recorded one it follows, -1: none."""
        self._serial += 1
        generation = 0 if run is None else run.generation
        order = _LATE if offset < 0 else offset
        heappush(self._due, (self._record.awake_us(at_us), order, self._serial, run, fact, generation))

    def _kill(self, run: Run, at_us: int) -> None:
        """It was told to stop. Where the record has that at the same moment, its worker answers as it did there."""
        if run.killed:
            return
        run.killed = True
        run.generation += 1  # nothing that was modelled before is due any more
        recorded = run.recorded
        if recorded is not None and recorded.killed_at_us != at_us:
            recorded = None
        if recorded is not None and not self._regenerate:
            return
        run.recorded = None
        stop_us, offset = self._courses.stop_us, -1
        if recorded is not None:
            stopped = recorded.stopped()
            if stopped is None:
                return  # it never answered
            stop_us, offset = stopped.at_us - at_us, stopped.offset
        run_us = run.course.run_us
        if run_us is not None and run.began_us + run_us <= at_us + stop_us:
            self._let_end(run, at_us)
            return
        killed = f.ActionFinished(run.instance, run.endpoint, 0, run.dispatch_id, RunResult.KILLED)
        self._let_say(run, at_us + stop_us, offset, killed)

    def _end(self, run: Run) -> None:
        run.over = True
        del self._runs[run.dispatch_id]
        del self._at[run.instance, run.endpoint][run.dispatch_id]

    def _was_asked(self, operation_id: int) -> bool:
        """Whether the record asked the cache for it, too: then it has the answer, or there was none."""
        return operation_id in self._record.cache_answers_us or operation_id in self._record.lookups_us

    def _miss(self, event: e.CacheLookupRequested) -> None:
        """Nobody asked the cache for this action in the record, because it had joined another: it is not there."""
        instance = self._shard.operations[event.operation_id].instance
        answer = f.CacheAnswered(instance, event.operation_id, CacheAnswer.MISS)
        self._let_say(None, event.at_us + self._courses.lookup_us, -1, answer)

    def _running(self, fact: f.WorkerConnected, offset: int) -> tuple[int, ...]:
        """The runs that a worker lists as it connects: those of the record where they are the same, its own others where it lived on."""
        listed = dict.fromkeys(fact.running)
        instance = self._shard.instances.get(fact.instance)
        worker = None if instance is None else instance.workers.get(fact.endpoint)
        lived_on = worker is not None and fact.boot_epoch != 0 and worker.boot_epoch == fact.boot_epoch
        here = self._at.get((fact.instance, fact.endpoint), {})
        running = [
            dispatch_id
            for dispatch_id, run in here.items()
            if (lived_on if run.recorded is None else run.recorded.dispatch_id in listed)
        ]
        for dispatch_id in listed:
            ours = self._ids.get(dispatch_id)
            if ours is None and self._record.attempt_before(dispatch_id, offset) is None:
                ours = self._record.foreign(dispatch_id)
            if ours is not None and ours not in here:  # else it is one of those above, or runs nowhere here
                running.append(ours)
        return tuple(running)


def _check_taken(events: list[e.Event]) -> None:
    """A configuration that the rows do not allow is refused by an event; going on would tell of another policy than was asked for."""
    for event in events:
        if type(event) is e.FactRejected:
            raise InvalidConfiguration(event.field, event.value, event.rule)


def _text(shard: Shard, instance: str) -> str:
    return canonical_config(shard.instances[instance].scheduler)
