"""Placing by who holds an action's inputs (`locality.prefer_from_bytes`), and the same again from the log, where no store is asked."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.decide import decide, elect
from events.facts import Fact
from events.holders import MOST_HOLDERS, RecordedHolders
from events.indexing import build_indexes
from events.payloads import command_bytes, command_of
from events.state import Operation, Shard
from events.values import Digest, Holding
from tests.properties.facts import World

D = Digest(b"d" * 32, 1_000)
START_US = 1_800_000_000_000_000


class Told:
    """Holders by what a test says; counts what it was asked and checks that it saw every event before."""

    def __init__(self, held: dict[str, dict[Digest, None]] | None = None) -> None:
        self.held = held or {}
        self.asked: list[str] = []
        self.common: set[str] = set()
        self.seen: list[e.Event] = []
        self.shard: Shard | None = None

    def see(self, events: Sequence[e.Event]) -> None:
        for event in events:
            assert event.seq == (self.seen[-1].seq if self.seen else 1) + 1, "told each event once, in order"
            self.seen.append(event)

    def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
        assert self.shard is not None
        assert self.seen[-1].seq == self.shard.seq, "asked before it was told all that came before"
        self.asked.append(operation.client_operation_id)
        inputs = command_of(operation.command).inputs
        found = [
            Holding(endpoint, sum(digest.size_bytes for digest in inputs if digest in digests))
            for endpoint, digests in self.held.items()
            if endpoint not in self.common
        ]
        return tuple(sorted((each for each in found if each.bytes), key=lambda each: (-each.bytes, each.endpoint)))

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        assert self.shard is not None
        assert self.seen[-1].seq == self.shard.seq, "asked before it was told all that came before"
        held = self.held.get(endpoint, {})
        return sum(digest.size_bytes for digest in command_of(operation.command).inputs if digest in held)


class Desk:
    """A shard whose holders are told by the test; facts come a millisecond apart."""

    def __init__(self, holders: Told, prefer_from_bytes: int | None = 1, **options: object) -> None:
        self.shard = Shard()
        self.holders = holders
        holders.shard = self.shard
        build_indexes(self.shard)
        self.events = elect(self.shard, leader_epoch=1)
        self.offset = 0
        self.history: list[tuple[int, Fact]] = []
        config = {"kind": "simple", "locality": {"prefer_from_bytes": prefer_from_bytes}, **options}
        self.take(f.Configured("main", json.dumps(config)))

    def take(self, *facts: Fact) -> list[e.Event]:
        caused: list[e.Event] = []
        for fact in facts:
            append_us = START_US + self.offset * 1000
            self.history.append((append_us, fact))
            caused += decide(self.shard, fact, offset=self.offset, append_us=append_us, holders=self.holders)
            self.offset += 1
        self.events += caused
        return caused

    def dispatched(self) -> list[tuple[str, str]]:
        """(client_operation_id, endpoint) of every dispatch so far."""
        return [
            (self.shard.operations[event.operation_id].client_operation_id, event.endpoint)
            for event in self.events
            if isinstance(event, e.OperationDispatched)
        ]

    def last_dispatch(self) -> e.OperationDispatched:
        return next(event for event in reversed(self.events) if isinstance(event, e.OperationDispatched))


def worker(endpoint: str, cpu: int = 4) -> f.WorkerConnected:
    return f.WorkerConnected("main", endpoint, 1, int(endpoint), (("cpu_millis", str(cpu * 1000)),))


def action(
    name: str, cpu: int = 1, inputs: Sequence[Digest] = (D,), command: bytes | None = None, priority: int = 0
) -> f.ActionQueued:
    requirements = canonical_requirements([("cpu_millis", str(cpu * 1000))])
    return f.ActionQueued(
        "main",
        name,
        requirements,
        priority,
        command=command_bytes(["true"], (), inputs) if command is None else command,
    )


def with_memory(endpoint: str) -> f.WorkerConnected:
    return f.WorkerConnected("main", endpoint, 1, int(endpoint), (("memory_kib", "8000"),))


def action_with_memory(name: str) -> f.ActionQueued:
    requirements = canonical_requirements([("memory_kib", "3000")])
    return f.ActionQueued("main", name, requirements, command=command_bytes(["true"], (), [D]))


def dispatch_id_of(desk: Desk, name: str) -> int:
    dispatch = desk.shard.instances["main"].by_client[name].dispatch
    assert dispatch is not None
    return dispatch.dispatch_id


# -- field failure 85: Qa needs d, L d>2 => D a>2 when both fit ---------------------------------------------------------------


def test_an_action_goes_where_its_inputs_are_when_both_fit() -> None:
    desk = Desk(Told({"2": {D: None}}))
    desk.take(worker("1"), worker("2"), action("a"))
    assert desk.dispatched() == [("a", "2")]
    dispatched = desk.last_dispatch()
    assert (dispatched.holders, dispatched.saved_bytes) == ((Holding("2", 1_000),), 1_000)


def test_without_the_option_nothing_is_asked_and_the_strategy_decides() -> None:
    desk = Desk(Told({"2": {D: None}}), prefer_from_bytes=None)
    desk.take(worker("1"), worker("2"), action("a"))
    assert desk.dispatched() == [("a", "1")]
    assert desk.holders.asked == []
    assert (desk.last_dispatch().holders, desk.last_dispatch().saved_bytes) == ((), 0)


def test_an_action_without_a_command_is_not_asked_for() -> None:
    desk = Desk(Told({"2": {D: None}}))
    desk.take(worker("1"), worker("2"), action("a", command=b""))
    assert desk.dispatched() == [("a", "1")]
    assert desk.holders.asked == []


def test_each_placed_action_is_asked_for_once_and_a_waiting_one_never() -> None:
    desk = Desk(Told({"2": {D: None}}))
    desk.take(worker("1", 1), worker("2", 1), action("a"), action("b"), action("c"))
    assert desk.holders.asked == ["a", "b"]


@pytest.mark.parametrize(("from_bytes", "endpoint"), [(1_000, "2"), (1_001, "1")])
def test_a_holder_below_the_threshold_is_not_preferred_but_recorded(from_bytes: int, endpoint: str) -> None:
    desk = Desk(Told({"2": {D: None}}), prefer_from_bytes=from_bytes)
    desk.take(worker("1"), worker("2"), action("a"))
    assert desk.dispatched() == [("a", endpoint)]
    assert desk.last_dispatch().holders == (Holding("2", 1_000),)
    assert desk.last_dispatch().saved_bytes == (1_000 if endpoint == "2" else 0)


def test_the_saved_bytes_are_those_of_the_worker_taken_whoever_chose_it() -> None:
    desk = Desk(Told({"1": {D: None}}), prefer_from_bytes=5_000)
    desk.take(worker("1"), worker("2"), action("a"))
    assert desk.dispatched() == [("a", "1")]
    assert desk.last_dispatch().saved_bytes == 1_000


def test_a_choice_of_the_strategy_that_holds_as_much_is_not_left() -> None:
    desk = Desk(Told({"1": {D: None}, "2": {D: None}}))
    desk.take(worker("2"), worker("1"), action("a"), action("b"))
    assert desk.dispatched() == [("a", "2"), ("b", "1")], "the load is spread as without the option"
    assert desk.last_dispatch().holders == (Holding("1", 1_000), Holding("2", 1_000))


@pytest.mark.parametrize(("more", "endpoint", "saved"), [(999, "1", 1_000), (1_000, "1", 1_000), (1_001, "2", 1_001)])
def test_a_choice_that_is_not_named_is_left_only_for_one_that_holds_more(more: int, endpoint: str, saved: int) -> None:
    other = Digest(b"o" * 32, more)
    told = Told({"1": {D: None}, "2": {other: None}})
    told.common = {"1"}
    desk = Desk(told)
    desk.take(worker("1"), worker("2"), action("a", inputs=(D, other)))
    assert desk.dispatched() == [("a", endpoint)]
    assert desk.last_dispatch().holders == (Holding("2", more),)
    assert desk.last_dispatch().saved_bytes == saved, "also where nobody named the worker it went to"


def test_a_full_holder_is_passed_over_for_the_next_one() -> None:
    other = Digest(b"o" * 32, 400)
    desk = Desk(Told({"2": {D: None, other: None}, "3": {D: None}}))
    desk.take(worker("1"), worker("2", 1), worker("3"), action("full", inputs=(D, other)))
    assert desk.dispatched() == [("full", "2")]
    desk.take(action("a", inputs=(D, other)))
    assert desk.dispatched()[-1] == ("a", "3")
    assert desk.last_dispatch().holders == (Holding("2", 1_400), Holding("3", 1_000))
    assert desk.last_dispatch().saved_bytes == 1_000


@pytest.mark.parametrize("away", ["draining", "paused", "gone", "never connected", "at its inflight limit"])
def test_a_holder_that_takes_nothing_is_not_preferred(away: str) -> None:
    desk = Desk(Told({"2": {D: None}}))
    desk.take(worker("1"))
    if away != "never connected":
        desk.take(replace(worker("2"), max_inflight=1))
    if away == "draining":
        desk.take(f.WorkerDrained("main", "2"))
    elif away == "paused":
        desk.take(action("declined"))
        desk.take(f.DispatchDeclined("main", "2", 2, dispatch_id_of(desk, "declined")))
    elif away == "gone":
        desk.take(f.WorkerGone("main", "2"))
    elif away == "at its inflight limit":
        desk.take(action("runs"))
        assert desk.dispatched() == [("runs", "2")]
    desk.take(action("a"))
    assert desk.dispatched()[-1] == ("a", "1")


def test_a_holder_that_refused_as_much_while_idle_is_not_preferred() -> None:
    desk = Desk(Told({"2": {D: None}}))
    desk.take(with_memory("1"), with_memory("2"), action_with_memory("a"))
    assert desk.dispatched() == [("a", "2")]
    desk.take(f.DispatchDeclined("main", "2", 2, dispatch_id_of(desk, "a"), needed_kib=3_000, free_kib=2_000))
    desk.take(f.WorkerReported("main", "2", 2), action_with_memory("b"))
    assert not desk.shard.instances["main"].workers["2"].paused
    assert desk.dispatched()[1:] == [("a", "1"), ("b", "1")]


def test_a_worker_of_the_wrong_kind_is_not_preferred() -> None:
    desk = Desk(Told({"2": {D: None}}), supported_platform_properties={"zone": "exact"})
    there = f.WorkerConnected("main", "1", 1, 1, (("cpu_millis", "4000"), ("zone", "a")))
    elsewhere = f.WorkerConnected("main", "2", 1, 2, (("cpu_millis", "4000"), ("zone", "b")))
    requirements = canonical_requirements([("cpu_millis", "1000"), ("zone", "a")])
    desk.take(there, elsewhere, f.ActionQueued("main", "a", requirements, command=command_bytes(["true"], (), [D])))
    assert desk.dispatched() == [("a", "1")]


@pytest.mark.parametrize(("free_kib", "endpoint"), [(3_000, "2"), (2_999, "1")])
def test_the_report_of_a_worker_vetoes_a_preference_too(free_kib: int, endpoint: str) -> None:
    desk = Desk(Told({"2": {D: None}}), live_memory_veto="memory_kib")
    desk.take(with_memory("1"), with_memory("2"), f.WorkerReported("main", "2", 2, free_kib), action_with_memory("a"))
    assert desk.dispatched() == [("a", endpoint)]


def with_a_hold() -> Desk:
    """Worker 1 has a core left and is held for an action that needs all four of its own; worker 2 came after it and has three."""
    desk = Desk(Told(), hold={"kind": "shortfall", "after_s": 0})
    desk.take(worker("1"), action("small", cpu=2), action("large", cpu=4), action("overtakes", cpu=1), worker("2", 3))
    hold = desk.shard.instances["main"].hold
    assert hold is not None
    assert (hold.worker.endpoint, hold.operation.client_operation_id) == ("1", "large")
    return desk


def test_a_held_worker_is_not_preferred() -> None:
    desk = with_a_hold()
    desk.holders.held = {"1": {D: None}}
    desk.take(action("a"))
    assert desk.dispatched()[-1] == ("a", "2"), "a held worker takes nothing that sorts after the held action"
    assert (desk.last_dispatch().holders, desk.last_dispatch().saved_bytes) == ((Holding("1", 1_000),), 0)


def test_what_the_pass_gives_a_held_worker_is_not_taken_from_it() -> None:
    desk = with_a_hold()
    desk.holders.held = {"2": {D: None}}
    desk.take(action("first", priority=1))
    assert desk.dispatched()[-1] == ("first", "1"), "least recently used, and it sorts before the held action"
    assert desk.last_dispatch().saved_bytes == 0


def test_the_queue_keeps_its_order_whoever_holds_what() -> None:
    desk = Desk(Told({"2": {D: None}}))
    other = Digest(b"o" * 32, 5)
    desk.take(action("first", inputs=(other,)), action("second"), worker("2", 1), worker("1", 1))
    assert desk.dispatched() == [("first", "2"), ("second", "1")], (
        "the second one's inputs do not let it pass the first"
    )


def test_the_most_bytes_win_and_equals_stay_as_answered() -> None:
    more = Digest(b"m" * 32, 3_000)
    desk = Desk(Told({"1": {D: None}, "3": {more: None}, "2": {more: None}}))
    desk.take(worker("1"), worker("2"), worker("3"), action("a", inputs=(D, more)))
    assert desk.dispatched() == [("a", "2")]
    assert desk.last_dispatch().holders == (Holding("2", 3_000), Holding("3", 3_000), Holding("1", 1_000))


def test_no_event_grows_with_the_fleet() -> None:
    desk = Desk(Told({str(number): {D: None} for number in range(1, 30)}))
    desk.take(worker("1"), action("a"))
    assert len(desk.last_dispatch().holders) == MOST_HOLDERS


# -- deciding again -----------------------------------------------------------------------------------------------------------


def random_holders(seed: int) -> Told:
    """Answers that depend on nothing but the operation and how often it was asked for."""

    class Drawn(Told):
        def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
            super().most_bytes(operation)
            rng = random.Random(f"{seed} {operation.operation_id} {len(self.asked)}")
            return tuple(Holding(f"w{rng.randrange(8)}", rng.randrange(1_000)) for _ in range(rng.randrange(6)))

        def bytes_at(self, operation: Operation, endpoint: str) -> int:
            super().bytes_at(operation, endpoint)
            return random.Random(f"{seed} {operation.operation_id} {len(self.asked)} {endpoint}").randrange(1_000)

    return Drawn()


@pytest.mark.parametrize("seed", range(4))
def test_deciding_the_same_facts_again_from_the_log_gives_the_same_events(
    seed: int,
) -> None:
    world = World(random.Random(seed))
    desk = Desk(random_holders(seed), prefer_from_bytes=300)
    for _ in range(300):
        _, fact = world.next()
        if not isinstance(fact, f.Configured):
            world.see(desk.take(fact))
    assert desk.holders.asked
    assert any(event.saved_bytes for event in desk.events if isinstance(event, e.OperationDispatched))
    again = Shard()
    build_indexes(again)
    events = elect(again, leader_epoch=1)
    recorded = RecordedHolders(desk.events)
    for offset, (append_us, fact) in enumerate(desk.history):
        events += decide(again, fact, offset=offset, append_us=append_us, holders=recorded)
    assert events == desk.events


def test_a_second_dispatch_is_answered_as_the_second_was() -> None:
    def dispatched(seq: int, *holders: Holding) -> e.OperationDispatched:
        return e.OperationDispatched(seq, 0, 0, 7, "1", 1, holders=holders)

    first, second = dispatched(5, Holding("1", 10)), dispatched(9, Holding("2", 20))
    recorded = RecordedHolders([first, e.Ticked(6, 0, 0), second])
    shard = Desk(Told({}))
    shard.take(action("a"))
    operation = shard.shard.instances["main"].by_client["a"]
    assert recorded.most_bytes(operation) == ()  # never dispatched in what was recorded
    operation.operation_id = 7
    assert recorded.most_bytes(operation) == first.holders
    assert recorded.most_bytes(operation) == first.holders, "asking changes nothing; a dispatch does"
    recorded.see([first])
    assert recorded.most_bytes(operation) == second.holders
    recorded.see([second])
    assert recorded.most_bytes(operation) == second.holders, "dispatched more often than recorded"


def test_what_a_recorded_dispatch_saved_is_what_its_worker_held() -> None:
    dispatched = e.OperationDispatched(5, 0, 0, 7, "1", 1, holders=(Holding("2", 20),), saved_bytes=30)
    recorded = RecordedHolders([dispatched])
    desk = Desk(Told({}))
    desk.take(action("a"))
    operation = desk.shard.instances["main"].by_client["a"]
    assert recorded.bytes_at(operation, "1") == 0  # never dispatched in what was recorded
    operation.operation_id = 7
    assert [recorded.bytes_at(operation, endpoint) for endpoint in ("1", "2", "3")] == [30, 20, 0]
