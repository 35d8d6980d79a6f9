"""Random fact sequences for property tests: an honest world and a dishonest one (stale, foreign, duplicate facts), from one seed.

A `World` knows what a real fleet would know (which dispatches each worker holds) by reading the events, and now and then lies.
"""

import random
from dataclasses import dataclass, field

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.reasons import CacheAnswer, Outcome, RunResult, UpstreamState
from events.values import NO_DIGEST, Digest, ResourceHint, Usage
from tests.properties.blob_facts import BlobFacts
from tests.properties.digest_facts import DigestFacts

INSTANCES = ("main", "night")
SHAPES = (
    {"cpu_millis": "1000"},
    {"cpu_millis": "4000", "memory_kib": "1000"},
    {"cpu_millis": "2000", "zone": "a"},
    {"os": "linux", "cpu_millis": "1000"},
    {"memory_kib": "3000"},
    {"memory_kib": "6000"},
    {},
    {"gpu": "1", "cpu_millis": "1000"},
    {"flavour": "b"},
)
CONFIGS = (
    '{"kind":"simple","supported_platform_properties":{"zone":"exact","gpu":"minimum","flavour":"priority"},"max_job_retries":1}',
    '{"kind":"simple","allocation_strategy":"most_recently_used","supported_platform_properties":{"zone":"exact","gpu":"minimum"},'
    '"max_worker_loss_retries":2,"max_free_requeues":2,"locality":{"max_unacknowledged_chunks":2,"never_reconnect_s":9}}',
    '{"kind":"simple","worker_timeout_s":5,"unacknowledged_kill_timeout_s":7,"retain_completed_for_s":3}',
    '{"kind":"simple","client_action_timeout_s":3,"max_action_executing_timeout_s":6,"dispatch_ack_timeout_s":2,'
    '"max_unaccepted_dispatches":2,"fair_share":{"between":"client"},"max_job_retries":2}',
    '{"kind":"simple","live_memory_veto":"memory_kib","memory_escalation":{"max_steps":2},"aging_s":5,'
    '"unsatisfiable_action_timeout_s":4,"no_worker_action_timeout_s":3,"compatible_builds":["","b1"]}',
    '{"kind":"simple","allocation_strategy":"best_fit","memory_escalation":{"ladder_kib":[2000,4000]},'
    '"hold":{"kind":"shortfall","after_s":0,"max_hold_s":9},"live_memory_veto":"memory_kib"}',
    '{"kind":"simple","allocation_strategy":"least_loaded","hold":{"kind":"drain_time","after_s":0,"min_runs":1,"last_runs":5},'
    '"dispatch_ack_timeout_s":5}',
    '{"kind":"simple","hold":{"kind":"backfill","after_s":1},"fair_share":{"between":"invocation"}}',
    '{"kind":"cache_lookup","scheduler":{"kind":"historical_resource","scheduler":{"kind":"property_modifier","modifications":'
    '[{"kind":"remove","name":"flavour"},{"kind":"add","name":"zone","value":"a"}],"scheduler":{"kind":"simple",'
    '"unsatisfiable_action_timeout_s":2,"hold":{"kind":"shortfall","after_s":0,"spare_last":true}}}}}',
    '{"kind":"cache_lookup","scheduler":{"kind":"upstream","instance":"there"}}',
    '{"kind":"simple","worker_timeout_s":5,"locality":{"never_reconnect_s":2,"max_unacknowledged_chunks":2,"flap_threshold":1,'
    '"flap_cooldown_s":1,"prefer_from_bytes":1}}',
    '{"kind":"simple","worker_timeout_s":60,"locality":{"never_reconnect_s":9,"flap_threshold":2,"flap_window_s":40}}',
)
DIGESTS = tuple(Digest(bytes([number]) * 32, number) for number in range(1, 5))
BLOB_WEIGHT = 30
"""Of what is said about blobs, where all the rest weighs 132."""


@dataclass
class World:
    """Makes the next fact; `see` tells it what the scheduler decided."""

    rng: random.Random
    now_us: int = 1_000_000_000
    epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    connections: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)  # what each worker process really runs
    clients: list[tuple[str, str]] = field(default_factory=list)
    placed: dict[int, tuple[str, str]] = field(default_factory=dict)
    instance_of: dict[int, str] = field(default_factory=dict)
    looked_up: list[int] = field(default_factory=list)  # operations that wait for the cache
    forwarded: list[int] = field(default_factory=list)
    drained: list[tuple[str, str]] = field(default_factory=list)
    drawn: int = 0
    blobs: BlobFacts = field(init=False)
    digests: DigestFacts = field(default_factory=DigestFacts)
    ticks: int = 0

    def __post_init__(self) -> None:
        self.blobs = BlobFacts(self.rng, self.connections, self.epochs)

    def draw(self) -> int:
        """A fresh number."""
        self.drawn += 1
        return self.drawn

    def see(self, events: list[e.Event]) -> None:
        """Note dispatches, as a worker would that reads its placements, and chunks of stable blobs, as one that reads its commands."""
        self.blobs.see(events)
        self.digests.see(events)
        for event in events:
            if isinstance(event, e.OperationQueued):
                self.instance_of[event.operation_id] = event.instance
            elif isinstance(event, e.OperationDispatched):
                worker = (self.instance_of[event.operation_id], event.endpoint)
                self.placed[event.seq] = worker
                self.held.setdefault(worker, {})[event.seq] = None
            elif isinstance(event, e.CacheLookupRequested):
                self.looked_up.append(event.operation_id)
            elif isinstance(event, e.OperationForwarded):
                self.forwarded.append(event.operation_id)

    def next(self) -> tuple[int, f.Fact]:
        """The next fact and its append time."""
        rng = self.rng
        self.now_us += rng.choice((0, 1, 1000, 300_000, 500_000, 900_000))
        if rng.random() < 0.01:
            self.now_us += rng.choice((5_000_000, 70_000_000))  # an outage
        append_us = self.now_us - (
            rng.randrange(2_000_000) if rng.random() < 0.02 else 0
        )  # the broker's clock stepped back
        instance = rng.choice(INSTANCES) if rng.random() < 0.3 else "main"
        worker = (instance, f"w{rng.randrange(6)}")
        makers = (
            (30, self._queue),
            (8, self._connect),
            (16, self._report),
            (16, self._accept),
            (22, self._finish),
            (3, self._decline),
            (2, self._drain),
            (1, self._leave),
            (4, self._cancel),
            (2, self._reprioritise),
            (1, self._pause),
            (1, self._configure),
            (6, self._hear),
            (1, self._go),
            (5, self._answer),
            (4, self._relay),
            (1, self._hint),
            (10, self._tick),
            (BLOB_WEIGHT, lambda _, worker: self.blobs.next(worker)),
        )
        make = rng.choices([maker for _, maker in makers], [weight for weight, _ in makers])[0]
        return append_us, make(instance, worker)

    def _tick(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        self.ticks += 1
        return self.digests.next() if self.ticks % 3 == 0 else f.Tick()

    def _queue(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        if self.clients and self.rng.random() < 0.05:
            instance, client = self.rng.choice(self.clients)
        else:
            client = f"c{self.draw()}"
            self.clients.append((instance, client))
        shape = self.rng.choice(SHAPES)
        if self.rng.random() < 0.02:
            shape = {"cpu_millis": "many"}
        return f.ActionQueued(
            "elsewhere" if self.rng.random() < 0.01 else instance,
            client,
            canonical_requirements(shape.items()),
            priority=self.rng.choice((0, 0, 0, 5, -3)),
            queued_at_us=self.rng.choice((0, 0, self.now_us - 1_000_000, self.now_us + 10**9, 1)),
            command=b"\x0a\x04true" if self.rng.random() < 0.5 else b"",
            client_id=self.rng.choice(("", "anna", "ben")),
            invocation_id=self.rng.choice(("", "i1", "i2")),
            attached=self.rng.random() < 0.3,
            action_digest=self.rng.choice((NO_DIGEST, *DIGESTS)),
            cacheable=self.rng.random() < 0.6,
            skip_cache_lookup=self.rng.random() < 0.1,
            timeout_us=self.rng.choice((0, 0, 0, 1, 2_000_000)),
            expected_duration_us=self.rng.choice((0, 1_000_000, 5_000_000)),
            target_id=self.rng.choice(("", "//a")),
            mnemonic=self.rng.choice(("", "Link")),
        )

    def _connect(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        rng = self.rng
        if worker not in self.epochs or rng.random() < 0.3:  # a new process: it runs nothing
            self.epochs[worker] = 0 if rng.random() < 0.1 else self.draw()
            self.held[worker] = {}
        self.connections[worker] = self.draw()
        number = int(worker[1][1:])
        properties = {"cpu_millis": str(4000 + 4000 * (number % 3)), "memory_kib": "8000", "zone": "ab"[number % 2]}
        properties.update({"os": "linux"} if number % 2 else {"flavour": "b", "gpu": "2"})
        if rng.random() < 0.02:
            properties["memory_kib"] = "lots"
        running = [dispatch for dispatch in self.held[worker] if rng.random() < 0.8]
        if rng.random() < 0.05:
            running.append(999_999)
        return f.WorkerConnected(
            *worker,
            self.epochs[worker],
            self.connections[worker],
            tuple(sorted(properties.items())),
            rng.choice((0, 0, 2, 3)),
            rng.choice(("", "b1", "b1", "b2")),
            tuple(running),
            admits_when_idle=number == 4,
            blobs_url=f"http://{worker[1]}:8080" if number else "",
        )

    def _connection(self, worker: tuple[str, str]) -> int:
        return self.draw() if self.rng.random() < 0.03 else self.connections.get(worker, 7)

    def _report(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        return f.WorkerReported(*worker, self._connection(worker), self.rng.choice((None, 100, 2500, 5000, 9000)))

    def _dispatch(self, worker: tuple[str, str]) -> tuple[tuple[str, str], int]:
        if self.placed and self.rng.random() < 0.9:
            dispatch_id = self.rng.choice(list(self.placed)[-12:])
            return self.placed[dispatch_id], dispatch_id
        return worker, self.rng.randrange(1, 500)

    def _accept(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        worker, dispatch_id = self._dispatch(worker)
        return f.DispatchAccepted(*worker, self._connection(worker), dispatch_id)

    def _decline(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        worker, dispatch_id = self._dispatch(worker)
        self.held.get(worker, {}).pop(dispatch_id, None)
        return f.DispatchDeclined(
            *worker, self._connection(worker), dispatch_id, needed_kib=self.rng.choice((0, 900, 3000)), free_kib=2
        )

    def _finish(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        worker, dispatch_id = self._dispatch(worker)
        self.held.get(worker, {}).pop(dispatch_id, None)
        result = self.rng.choice([RunResult.EXITED] * 6 + list(RunResult)[1:])
        return f.ActionFinished(
            *worker,
            self._connection(worker),
            dispatch_id,
            result,
            exit_code=self.rng.choice((0, 1)),
            usage=Usage(peak_memory_kib=self.rng.choice((0, 1500))),
        )

    def _drain(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        change = self.rng.choice((f.WorkerDrained, f.WorkerUndrained))
        if change is f.WorkerDrained:
            self.drained.append(worker)
        elif self.drained:
            worker = self.drained.pop()  # left to chance, hardly ever one that is drained
        return change(*worker)

    def _leave(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        return f.WorkerGone(*worker, self.rng.choice((0, self._connection(worker))))

    def _cancel(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        if self.clients and self.rng.random() < 0.8:
            instance, client = self.rng.choice(self.clients[-20:])
            return f.CancelRequested(instance, None, client)
        return f.CancelRequested(instance, self.rng.randrange(1000))

    def _reprioritise(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        if not self.clients:
            return f.Tick()
        instance, client = self.rng.choice(self.clients[-20:])
        return f.PriorityRequested(instance, None, client, self.rng.choice((-5, 0, 9)))

    def _hear(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        if not self.clients or self.rng.random() < 0.05:
            return f.ClientHeard(instance, "nobody")
        return f.ClientHeard(*self.rng.choice(self.clients[-30:]))

    def _go(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        return f.ClientGone(*self.rng.choice(self.clients[-20:])) if self.clients else f.Tick()

    def _waits(self, waiting: list[int]) -> tuple[str, int]:
        """An operation that waits for an answer; now and then one that does not."""
        if waiting and self.rng.random() < 0.9:
            operation_id = waiting.pop(self.rng.randrange(len(waiting)))
            return self.instance_of[operation_id], operation_id
        return "main", self.rng.randrange(500)

    def _answer(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        answer = self.rng.choice((CacheAnswer.HIT, CacheAnswer.MISS, CacheAnswer.MISS, CacheAnswer.FAILED))
        return f.CacheAnswered(*self._waits(self.looked_up), answer)

    def _relay(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        state = self.rng.choice(list(UpstreamState)[1:])
        instance, operation_id = self._waits(self.forwarded)
        if state in (UpstreamState.PLACED, UpstreamState.REQUEUED) and operation_id in self.instance_of:
            self.forwarded.append(operation_id)
        outcome = Outcome.COMPLETED if state is UpstreamState.FINISHED else Outcome.UNSPECIFIED
        return f.UpstreamReported(instance, operation_id, state, outcome)

    def _hint(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        return f.HintsLoaded(
            instance, self.rng.choice(((), (ResourceHint("//a", "", 3000, 0), ResourceHint("", "Link", 0, 2000))))
        )

    def _pause(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        return self.rng.choice((f.InstancePaused, f.InstanceResumed, f.InstanceResumed))(instance)

    def _configure(self, instance: str, worker: tuple[str, str]) -> f.Fact:
        return f.Configured(instance, self.rng.choice((*CONFIGS, '{"kind":"simple","worker_timeout_s":-1}')))
