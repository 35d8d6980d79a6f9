"""A story: steps on a virtual clock, and the events they cause, one readable line each."""

import json

from events import events as e
from events import facts as f
from events.codec import requirements_of
from events.reasons import PlacementEnd
from events.state import Stage
from proto.gen.headway.v1 import placements_pb2
from streams.rehearsal import Rehearsal
from tests.stories.notation import MAIN, Step, line

START_US = 1_800_000_000_000_000
VERDICTS = (e.DemandUnsatisfiable, e.DemandSatisfiable)
UNTOLD = (e.Ticked, e.WorkerReported, e.RequirementDefined, e.ClientHeard, e.RecoveryCompleted, *VERDICTS)
"""Happen all the time and say nothing of their own, or (verdicts) are beside the point of most stories; `every_event` holds them."""


class Story:
    """Given steps, when steps, then events: `given` forgets what it caused, `then` compares all since with the lines it is given."""

    def __init__(self, *, ticker: bool = True, configured: bool = True, rehearsal: Rehearsal | None = None) -> None:
        self.rehearsal = Rehearsal(ticker=ticker) if rehearsal is None else rehearsal
        self.now_us = START_US
        self.names: dict[int, str] = {}
        self.dispatches: dict[int, str] = {}
        self.dispatch_ids: dict[str, int] = {}
        self.endpoints: dict[str, str] = {}
        self.connections: dict[str, int] = {}
        self._told = 0
        self._connection = 0
        if configured:
            self.configure({})
            self._told = len(self.rehearsal.events)

    def given(self, *steps: Step) -> "Story":
        """What has happened before."""
        return self._go(steps, forget=True)

    def when(self, *steps: Step) -> "Story":
        """What happens now."""
        return self._go(steps, forget=False)

    def then(self, *lines: str) -> "Story":
        """Exactly these events have followed since, in this order."""
        assert self.told() == list(lines)
        self._told = len(self.rehearsal.events)
        return self

    def told(self) -> list[str]:
        """The lines of what has happened since the last `given` or `then`."""
        return self.lines(self.rehearsal.events[self._told :])

    def lines(self, events: list[e.Event]) -> list[str]:
        """Events as lines, without those that say nothing of their own."""
        return [line(event, self.names, self.dispatches) for event in events if not isinstance(event, UNTOLD)]

    def every_event(self) -> list[e.Event]:
        """All events so far."""
        return self.rehearsal.events

    def last(self, kind: type) -> e.Event:
        """The last event of a kind."""
        return next(event for event in reversed(self.rehearsal.events) if isinstance(event, kind))

    def take(self, fact: f.Fact, key: str | None = None) -> None:
        """Decide a fact now."""
        self._learn(self.rehearsal.take(fact, self.now_us, key))

    def configure(self, options: dict[str, object]) -> None:
        """Put a configuration in force."""
        self.take(f.Configured(MAIN, json.dumps({"kind": "simple", **options})))

    def advance(self, by_us: int) -> None:
        """Let time pass; ticks say so unless the story has no ticker."""
        self.now_us += by_us
        self._learn(self.rehearsal.run_until(self.now_us))

    def restart(self, waiting: int = 0) -> None:
        """Rebuild the state from the records; so many of the facts to come waited for the new leader."""
        self._learn(self.rehearsal.restart(waiting=waiting))

    def new_connection(self, endpoint: str) -> int:
        """A connection id that was not there before."""
        self._connection += 1
        return self._connection

    def connected(self) -> list[str]:
        """Endpoints of the connected workers."""
        return list(self.rehearsal.shard.instances[MAIN].workers)

    def waiting(self) -> list[str]:
        """Names of the queued operations in queue order."""
        queued = [row for row in self.rehearsal.shard.operations.values() if row.stage is Stage.QUEUED]
        return [self.names[row.operation_id] for row in sorted(queued, key=lambda row: row.sort_key)]

    def free(self, endpoint: str, pool: str = "cpu_millis") -> int:
        """What a worker has left."""
        instance = self.rehearsal.shard.instances[MAIN]
        return instance.workers[endpoint].remaining[instance.pools.index(pool)]

    def held(self) -> tuple[str, str] | None:
        """Whom the instance holds and for what: (endpoint, operation)."""
        hold = self.rehearsal.shard.instances[MAIN].hold
        return None if hold is None else (hold.worker.endpoint, self.names[hold.operation.operation_id])

    def operation_id(self, name: str) -> int:
        """The id of the operation a client_operation_id leads to."""
        return self.rehearsal.shard.instances[MAIN].by_client[name].operation_id

    def stage(self, name: str) -> str:
        """Where an operation stands."""
        return self.rehearsal.shard.instances[MAIN].by_client[name].stage.name.lower()

    def asks(self, name: str) -> dict[str, str]:
        """What an operation asks for now."""
        row = self.rehearsal.shard.instances[MAIN].by_client[name]
        return dict(requirements_of(self.rehearsal.shard.requirements[row.requirement_id]))

    def ended(self, since: int = 0) -> list[tuple[str, str]]:
        """(client_operation_id, how) of every `PlacementEnded` sent, from the `since`-th record on."""
        sent = [out for out in self.rehearsal.outbounds[since:] if out.kind == "PlacementEnded"]
        ends = [placements_pb2.Placement.FromString(out.value).placement_ended for out in sent]
        return [(end.client_operation_id, PlacementEnd(end.end).name.lower()) for end in ends]

    def verdicts(self) -> list[str]:
        """The lines of every verdict on what could be run so far."""
        return [
            line(event, self.names, self.dispatches) for event in self.rehearsal.events if isinstance(event, VERDICTS)
        ]

    def counters(self, name: str) -> tuple[int, int, int]:
        """(job failures, worker losses, free requeues) of an operation."""
        row = self.rehearsal.shard.instances[MAIN].by_client[name]
        return row.job_failures, row.worker_losses, row.free_requeues

    def _go(self, steps: tuple[Step, ...], forget: bool) -> "Story":
        for step in steps:
            step(self)
        if forget:
            self._told = len(self.rehearsal.events)
        return self

    def _learn(self, caused: list[e.Event]) -> None:
        for event in caused:
            if isinstance(event, e.OperationQueued):
                self.names[event.operation_id] = event.client_operation_id
            elif isinstance(event, e.OperationDispatched):
                name = self.names[event.operation_id]
                self.dispatches[event.dispatch_id] = name
                self.dispatch_ids[name] = event.dispatch_id
                self.endpoints[name] = event.endpoint
