"""The fold's invariants V-1 to V-11, each by its number, on random facts: declines, reconnects, holds, requeues, clock jumps, restarts.

Most are told from the events alone, by an account of its own, so that the core is not asked about itself. Hypothesis draws the facts; it
prints how to run a failure again.
"""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events import events as e
from events import facts as f
from events.codec import decode_event, encode_event, encode_fact, requirements_of
from events.config import SECOND_US, parse_config, resolve
from events.decide import decide
from events.errors import SequenceBroken
from events.evolve import evolve
from events.fitting import compile_demand, worker_totals
from events.indexing import build_indexes
from events.reasons import DisconnectReason, HoldEnd, Outcome, RequeueCause
from events.state import Shard, Stage
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from proto.gen.headway.v1 import commands_pb2
from streams.log import Outgoing, Record
from streams.recovery import Fold
from streams.topics import EVENTS, FACTS, topic_settings, topic_table
from tests.properties.walks import Walk
from tests.reference.rows import rows_of
from tests.streams.deciding import START_US, Cluster, decide_all

ROOT = Path(__file__).parents[2]
FACTS_PER_WALK = 150
RESTARTS = 3

walks = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
drawn = given(rng=st.randoms(use_true_random=True), again=st.integers(0, RESTARTS))
"""Facts of a walk, and how often it is restarted: `use_true_random` draws a seed, which is what hypothesis shrinks and prints."""


def told(rng: random.Random, restarts: int, facts: int = FACTS_PER_WALK) -> Walk:
    """A whole walk with restarts in its middle."""
    walk = Walk(rng)
    for part in range(restarts + 1):
        for _ in walk.go(facts // (restarts + 1)):
            pass
        if part < restarts:
            walk.restart()
    return walk


class Account:
    """Who holds what, kept from the events alone: no rows, no demand of the core's own, no index."""

    def __init__(self) -> None:
        self.requirements: dict[int, tuple[tuple[str, str], ...]] = {}
        self.asked: dict[int, int] = {}  # operation to requirement
        self.instance: dict[int, str] = {}  # operation to instance
        self.configs: dict[str, object] = {}
        self.properties: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}
        self.running: dict[
            tuple[str, str], dict[int, tuple[int, int]]
        ] = {}  # worker to dispatch to (operation, requirement)
        self.current: dict[int, int] = {}  # operation to its current dispatch
        self.revoked: set[int] = set()

    def add(self, event: e.Event) -> None:
        """Take the next event."""
        match event:
            case e.RequirementDefined():
                self.requirements[event.requirement_id] = requirements_of(event.requirements)
            case e.Configured():
                self.configs[event.instance] = resolve(parse_config(event.config_json)).base
            case e.OperationQueued():
                self.asked[event.cause_offset] = event.requirement_id
                self.instance[event.cause_offset] = event.instance
            case e.WorkerAdmitted():
                worker = (event.instance, event.endpoint)
                self.properties[worker] = event.properties
                self.running[worker] = {
                    dispatch: held for dispatch, held in self.running.get(worker, {}).items() if dispatch in event.kept
                }
            case e.WorkerDisconnected():
                del self.running[(event.instance, event.endpoint)]
            case e.OperationDispatched():
                worker = (self.instance[event.operation_id], event.endpoint)
                self.running[worker][event.seq] = (event.operation_id, self.asked[event.operation_id])
                assert event.operation_id not in self.current, "V-2: a second current dispatch"
                self.current[event.operation_id] = event.seq
            case e.KillRequested() if event.dispatch_id in self.running[(event.instance, event.endpoint)]:
                # One it does not hold is told to stop as well, under whatever number the worker made up.
                self.revoked.add(event.dispatch_id)
            case e.OperationRequeued() | e.OperationFinished() if event.dispatch_id:
                assert self.current.pop(event.operation_id) == event.dispatch_id, "V-2: it ends what is not current"
                if event.dispatch_id not in self.revoked:
                    del self.running[(self.instance[event.operation_id], event.endpoint)][event.dispatch_id]
                if isinstance(event, e.OperationRequeued) and event.requirement_id:
                    self.asked[event.operation_id] = event.requirement_id
            case e.DispatchSettled():
                del self.running[(event.instance, event.endpoint)][event.dispatch_id]

    def remaining(self, worker: tuple[str, str]) -> dict[str, int]:
        """What is left on a worker of each minimum it declares."""
        config = self.configs[worker[0]]
        pools = config.pools()
        left = dict(zip(pools, worker_totals(self.properties[worker], pools), strict=True))
        for _, requirement_id in self.running[worker].values():
            demand = compile_demand(requirement_id, self.requirements[requirement_id], config, pools)
            for pool, amount in demand.amounts:
                left[pools[pool]] -= amount
        return left


@walks
@drawn
def test_v_1_what_is_registered_is_what_remains_and_what_is_charged(rng: random.Random, again: int) -> None:
    walk, account, folded = told(rng, again), Account(), Shard()
    causes = Counter(event.cause_offset for event in walk.events)
    for event in (decode_event(record.value) for record in walk.records):
        evolve(folded, event)
        account.add(event)
        if isinstance(event, e.OperationDispatched):
            worker = (account.instance[event.operation_id], event.endpoint)
            charged = dict(account.requirements[account.asked[event.operation_id]])
            assert all(left >= 0 for pool, left in account.remaining(worker).items() if pool in charged)
        if isinstance(event, e.LeaderElected):
            continue
        causes[event.cause_offset] -= 1
        if causes[event.cause_offset]:
            continue  # within a fact
        for worker in account.running:
            instance = folded.instances[worker[0]]
            kept = dict(zip(instance.pools, instance.workers[worker[1]].remaining, strict=True))
            assert kept == account.remaining(worker), f"{worker} after event {event.seq}"


@walks
@drawn
def test_v_2_one_dispatch_of_an_operation_is_current_and_only_others_are_killed(rng: random.Random, again: int) -> None:
    walk, account = Walk(rng), Account()
    for part in range(again + 1):
        for step in walk.go(FACTS_PER_WALK // (again + 1)):
            for event in step.events:
                account.add(event)
            current = set(account.current.values())
            for out in step.outbounds:
                if out.kind == "KillRequested":
                    kill = commands_pb2.WorkerCommand.FromString(out.value).kill_requested
                    # On this worker: one that claims another's dispatch is told to stop, and the other goes on.
                    here = account.running.get((out.instance, out.key), {})
                    assert kill.dispatch_id not in here or kill.dispatch_id not in current, (
                        f"a kill of a current run after {step.fact}"
                    )
        if part < again:
            walk.restart()


@walks
@drawn
def test_v_3_one_live_operation_for_each_cacheable_action(rng: random.Random, again: int) -> None:
    live: dict[tuple[str, object], int] = {}
    of: dict[int, tuple[str, object]] = {}
    for event in told(rng, again).events:
        match event:
            case e.OperationQueued() if event.cacheable and not event.skip_cache_lookup and event.action_digest.hash:
                key = (event.instance, event.action_digest)
                assert key not in live, f"event {event.seq}: a second live operation of {key}"
                live[key] = event.cause_offset
                of[event.cause_offset] = key
            case e.OperationJoined():
                assert live[of[event.operation_id]] == event.operation_id
            case e.OperationFinished() if event.operation_id in of:
                del live[of.pop(event.operation_id)]


JOB = (RequeueCause.JOB_ERROR, RequeueCause.ACTION_TIMEOUT, RequeueCause.EXECUTING_TIMEOUT)
LOSS = (
    RequeueCause.WORKER_GONE,
    RequeueCause.WORKER_TIMEOUT,
    RequeueCause.WORKER_REPLACED,
    RequeueCause.KILL_OVERDUE,
)
FREE = (RequeueCause.DECLINED, RequeueCause.BACKPRESSURE, RequeueCause.UNACKNOWLEDGED)


@walks
@drawn
def test_v_4_attempts_change_for_counted_causes_only_and_a_restart_counts_none(rng: random.Random, again: int) -> None:
    walk = told(rng, again)
    counts: dict[int, Counter[str]] = {}
    for event in walk.events:
        if isinstance(event, e.OperationRequeued):
            before = counts.setdefault(event.operation_id, Counter())
            before["job"] += event.cause in JOB
            before["loss"] += event.cause in LOSS
            before["free"] += event.cause in FREE
            before["escalated"] += event.cause is RequeueCause.ESCALATED
            after = (event.job_failures, event.worker_losses, event.free_requeues, event.escalations)
            assert after == (before["job"], before["loss"], before["free"], before["escalated"]), event
        elif isinstance(event, e.OperationFinished):
            before = counts.get(event.operation_id, Counter())
            spent = (
                event.outcome is Outcome.JOB_RETRIES_EXHAUSTED,
                event.outcome is Outcome.WORKER_LOSSES_EXHAUSTED,
            )
            assert (event.job_failures, event.worker_losses) == (before["job"] + spent[0], before["loss"] + spent[1]), (
                event
            )


def check_holds(shard: Shard, fact: f.Fact) -> None:
    """V-5 at the end of a fact."""
    for instance in shard.instances.values():
        hold = instance.hold
        if hold is not None:
            assert hold.operation.stage is Stage.QUEUED, fact
            assert instance.workers.get(hold.worker.endpoint) is hold.worker, fact
            assert not hold.worker.draining, fact
            assert not hold.worker.paused, fact


@walks
@drawn
def test_v_5_a_hold_is_of_a_queued_action_and_a_worker_that_takes_work(rng: random.Random, again: int) -> None:
    walk = Walk(rng, tuple(text for text in Walk.configs if '"hold"' in text))
    for part in range(again + 1):
        for step in walk.go(FACTS_PER_WALK // (again + 1)):
            check_holds(walk.shard, step.fact)
            holding = next((instance for instance in walk.shard.instances.values() if instance.hold), None)
            if holding is not None and holding.hold is not None and rng.random() < 0.3:
                # A hold lasts for few facts; left to chance, they would hardly ever be about its own worker or operation. While the
                # instance is paused no pass puts right what the fact itself left undone.
                name, endpoint, operation = holding.name, holding.hold.worker.endpoint, holding.hold.operation
                against: tuple[f.Fact, ...] = (
                    f.WorkerDrained(name, endpoint),
                    f.WorkerGone(name, endpoint),
                    f.CancelRequested(name, operation.operation_id),
                )
                for fact in (f.InstancePaused(name), rng.choice(against), f.InstanceResumed(name)):
                    walk.take(walk.shard.now_us, fact)
                    check_holds(walk.shard, fact)
            for number, event in enumerate(step.events):
                if isinstance(event, e.HoldReleased) and event.reason is HoldEnd.PLACED:
                    dispatched = step.events[number - 1]
                    assert isinstance(dispatched, e.OperationDispatched)
                    assert dispatched.operation_id == event.operation_id
        if part < again:
            walk.restart()


@walks
@drawn
def test_v_6_an_event_that_comes_twice_changes_nothing_the_second_time(rng: random.Random, again: int) -> None:
    walk = told(rng, again, 60)
    fold, table = Fold(0), Table(MemoryRows(), 0)
    for record in walk.records:
        fold.apply([record])
        assert take(table, record.offset, record.value) is Taken.FOLDED
        assert take(table, record.offset, record.value) is Taken.KNOWN
        with pytest.raises(SequenceBroken):
            evolve(fold.shard, decode_event(record.value))
    assert rows_of(fold.shard) == rows_of(walk.shard)


@walks
@drawn
def test_v_6_what_goes_out_follows_from_the_fact_alone_and_is_the_same_again(rng: random.Random, again: int) -> None:
    walk = told(rng, again)
    repeated = replayed(walk)
    assert [step.outbounds for step in repeated.steps] == [step.outbounds for step in walk.steps]


def replayed(walk: Walk) -> Walk:
    """The same facts decided anew, without restarts."""
    other = Walk(random.Random(0))
    other.shard, other.steps, other.records = Shard(), [], []
    build_indexes(other.shard)
    # Elections number events too, so they come where they came: a second decider decides what the first one did.
    elections = [decode_event(record.value) for record in walk.records]
    at = 0
    for step in walk.steps:
        while isinstance(elections[at], e.LeaderElected):
            evolve(other.shard, elections[at])
            at += 1
        other.take(step.append_us, step.fact)
        at += len(step.events)
    return other


@walks
@drawn
def test_v_7_deciding_the_same_facts_again_gives_the_same_events(rng: random.Random, again: int) -> None:
    walk = told(rng, again)
    assert replayed(walk).events == walk.events


@pytest.mark.slow
def test_v_7_the_order_of_hashes_changes_nothing() -> None:
    program = """
import random
from tests.properties.walks import Walk
for seed in range(4):
    walk = Walk(random.Random(seed))
    for _ in walk.go(150):
        pass
    print(walk.records[-1].value.hex())
"""

    def ends(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert ends("1") == ends("2")


@walks
@drawn
def test_v_8_nothing_is_decided_before_the_state_is_whole(rng: random.Random, again: int) -> None:
    walk = told(rng, again, 40)
    fold = Fold(0)
    fold.apply(walk.records[: len(walk.records) // 2])
    assert not fold.shard.live
    with pytest.raises(AttributeError, match="None"):
        decide(fold.shard, f.Tick(), offset=fold.shard.position + 1, append_us=fold.shard.now_us)


@walks
@drawn
def test_v_9_no_worker_is_out_for_silence_in_which_nobody_could_write(rng: random.Random, again: int) -> None:
    walk = told(rng, again)
    heard: dict[tuple[str, str], int] = {}
    account, silent_us = Account(), 0  # outages so far
    for event in walk.events:
        account.add(event)
        now_us = event.at_us - silent_us
        match event:
            case e.LogSilent():
                silent_us += event.gap_us
            case e.WorkerAdmitted() | e.WorkerReported() | e.DispatchSettled():
                heard[(event.instance, event.endpoint)] = now_us
            case e.WorkerDisconnected() if event.reason is DisconnectReason.TIMEOUT:
                timeout_us = account.configs[event.instance].worker_timeout_s * SECOND_US
                assert now_us - heard[(event.instance, event.endpoint)] >= timeout_us, event


@walks
@drawn
def test_v_10_what_a_stale_leader_writes_in_between_is_left_out(rng: random.Random, again: int) -> None:
    walk = told(rng, again, 60)
    stale = Fold(0)
    half = len(walk.records) // 2
    stale.apply(walk.records[:half])
    build_indexes(stale.shard)
    chain, epoch = stale.chain, stale.shard.leader_epoch
    walk.restart()
    for _ in walk.go(10):
        pass
    zombies = []
    for number in range(1, 6):
        tick = decide(stale.shard, f.Tick(), offset=stale.shard.position + 1, append_us=stale.shard.now_us + number)
        for event in tick:
            value, chain = encode_event(event, epoch, chain)
            zombies.append(value)
    log = list(walk.records)
    for value in zombies:
        # Anywhere behind the election that it had not read.
        place = rng.randrange(len(walk.records) - 9, len(log) + 1)
        log.insert(place, Record(0, 0, None, value))
    reader = Fold(0)
    reader.apply([record._replace(offset=offset) for offset, record in enumerate(log)])
    assert reader.stale == len(zombies)
    assert rows_of(reader.shard) == rows_of(walk.shard)


def test_v_11_no_event_is_ever_compacted_or_trimmed_away() -> None:
    (events,) = [topic_settings(topic) for topic in topic_table(1) if topic.name == EVENTS]
    assert events["cleanup.policy"] == "delete"
    assert events["retention.ms"] == "-1"
    assert "retention.bytes" not in events, "Kafka's own default is no limit"


@pytest.mark.parametrize("seed", range(3))
async def test_any_batching_of_the_same_facts_gives_the_same_events(seed: int) -> None:
    walk = told(random.Random(seed), 0, 200)

    async def decided_by(most_facts: int) -> list[e.Event]:
        cluster = await Cluster.start()
        offset_us = START_US - walk.steps[0].append_us
        for step in walk.steps:
            cluster.now_us = max(cluster.now_us, step.append_us + offset_us)
            await cluster.log.publish((FACTS, 0), [Outgoing(encode_fact(step.fact))])
        await decide_all(cluster, most_facts=most_facts)
        return cluster.events()[1:]  # behind the election

    one, seven, all_at_once = [await decided_by(most_facts) for most_facts in (1, 7, 1_000)]
    assert one == seven == all_at_once
    assert len(one) >= len(walk.steps)
