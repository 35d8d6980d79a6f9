"""What workers are offered under the live memory veto (V1, V2) and after an idle decline (B5)."""

import random
from dataclasses import replace

import pytest

from events.config import PropertyKind, SimpleScheduler
from events.fitting import Caps, Demand, StaticNeed, may_take, offered
from events.matching import Matcher
from events.state import Dispatch, Operation, Worker, sort_key

POOLS = ("cpu_millis", "memory_kib")
NO_NEED = StaticNeed((), (), ())
VETO = SimpleScheduler(kind="simple", live_memory_veto="memory_kib")
PLAIN = SimpleScheduler(kind="simple")


def worker(**fields: object) -> Worker:
    made = Worker("main", "w", 1, 1, (), 0, "", 0, 0, 1, [8_000, 1_000], [8_000, 1_000])
    return replace(made, **fields)  # type: ignore[arg-type]


def wants(kib: int) -> Demand:
    return Demand(kib, NO_NEED, ((0, 1_000), (1, kib)))


def busy() -> dict[int, Dispatch]:
    op = Operation(1, "main", "", 0, 0, 1, 1, 1, Demand(0, NO_NEED, ()))
    return {1: Dispatch(1, 1, op, worker(), 1, 0, op.demand)}


@pytest.mark.parametrize(
    ("config", "fields", "taken", "refused"),
    [
        pytest.param(
            VETO, {"free_memory_kib": 400}, [0, 400, 1_000], [401, 999, 1_001], id="V1: up to f, or the whole"
        ),
        pytest.param(VETO, {"free_memory_kib": None}, [999, 1_000], [1_001], id="V1: never reported, never vetoed"),
        pytest.param(
            VETO, {"free_memory_kib": 900, "remaining": [8_000, 600]}, [600], [601, 1_000], id="V2: ledger too"
        ),
        pytest.param(VETO, {"free_memory_kib": 5_000}, [1_000], [1_001], id="V2: a report gives nothing"),
        pytest.param(VETO, {"free_memory_kib": 400, "admits_when_idle": True}, [999], [1_001], id="V1: idle and sure"),
        pytest.param(
            VETO, {"free_memory_kib": 400, "admits_when_idle": True, "running": busy()}, [400, 1_000], [401], id="busy"
        ),
        pytest.param(PLAIN, {"free_memory_kib": 400}, [999, 1_000], [1_001], id="no veto, no cap"),
        pytest.param(PLAIN, {"idle_declined_kib": 700}, [699], [700, 1_000], id="B5: not as much again"),
        pytest.param(
            VETO,
            {"idle_declined_kib": 700, "free_memory_kib": 800},
            [699],
            [700, 800, 1_000],
            id="B5: the whole neither",
        ),
        pytest.param(PLAIN, {"idle_declined_kib": 0}, [], [0, 1], id="B5: declined 0"),
    ],
)
def test_what_may_be_taken(
    config: SimpleScheduler, fields: dict[str, object], taken: list[int], refused: list[int]
) -> None:
    row = worker(**fields)
    for kib in taken:
        assert may_take(row, wants(kib), config, POOLS), kib
    for kib in refused:
        assert not may_take(row, wants(kib), config, POOLS), kib
    matcher = Matcher(config, POOLS)
    matcher.add_worker(row)
    for number, kib in enumerate([*taken, *refused]):
        op = Operation(number, "main", "", kib, 0, 0, sort_key(0, 0, number), 0, wants(kib))
        matcher.enqueue(op)
        assert (matcher.next_match() is not None) == (kib in taken), kib
        matcher.dequeue(op)


def test_what_is_offered_is_the_ledger_capped() -> None:
    assert offered(worker(free_memory_kib=400), VETO, POOLS) == [8_000, 400]
    assert offered(worker(free_memory_kib=400), PLAIN, POOLS) == [8_000, 1_000]
    assert offered(worker(idle_declined_kib=10), PLAIN, POOLS) == [8_000, 9]


def test_amounts_offered_say_what_may_be_taken() -> None:
    """Two ways to say the same: a predicate, and amounts that an index can compare; the whole by the amount behind the pools."""
    rng = random.Random(2)
    kinds = {"disk_mib": PropertyKind.MINIMUM}
    exempt = 0
    for _ in range(20_000):
        veto = rng.choice([None, "memory_kib", "disk_mib"])
        config = SimpleScheduler(kind="simple", supported_platform_properties=kinds, live_memory_veto=veto)
        pools = config.pools()
        caps = Caps(config, pools)
        totals = [rng.randrange(-1, 6) for _ in pools]
        row = worker(
            totals=totals,
            remaining=[total if rng.random() < 0.5 else rng.randrange(-1, total + 1) for total in totals],
            running=rng.choice([{}, busy()]),
            admits_when_idle=rng.random() < 0.3,
            free_memory_kib=rng.choice([None, *range(6)]),
            idle_declined_kib=rng.choice([None, None, *range(7)]),
        )
        amounts = tuple((pool, rng.randrange(6)) for pool in range(3) if rng.random() < 0.7)
        offer = caps.offer(row)
        assert len(offer) == caps.amounts
        whole = veto is not None and (caps.pool, totals[caps.pool]) in amounts
        fits = all(offer[caps.whole if whole and pool == caps.pool else pool] >= asked for pool, asked in amounts)
        assert fits == may_take(row, Demand(1, NO_NEED, amounts), config, pools), (row, amounts, veto)
        exempt += fits and any(asked > offer[pool] for pool, asked in amounts)
    assert exempt > 20


def test_an_idle_decline_counts_from_when_it_is_told() -> None:
    """Without a veto too: the worker is not offered as much again, and is when a report lifts it."""
    matcher = Matcher(PLAIN, POOLS)
    row = worker()
    matcher.add_worker(row)
    row.idle_declined_kib = 200
    matcher.refresh(row)
    op = Operation(5, "main", "", 200, 0, 0, sort_key(0, 0, 5), 0, wants(200))
    matcher.enqueue(op)
    assert matcher.next_match() is None
    row.idle_declined_kib = None
    matcher.refresh(row)
    match = matcher.next_match()
    assert match is not None
    assert match.operation is op


def test_a_better_report_is_room() -> None:
    matcher = Matcher(VETO, POOLS)
    row = worker(free_memory_kib=100)
    matcher.add_worker(row)
    op = Operation(5, "main", "", 200, 0, 0, sort_key(0, 0, 5), 0, wants(200))
    matcher.enqueue(op)
    assert matcher.next_match() is None
    row.free_memory_kib = 200
    matcher.refresh(row)
    match = matcher.next_match()
    assert match is not None
    assert match.operation is op


@pytest.mark.parametrize("merge_above", [0, 100])
def test_the_whole_of_one_machine_type_among_many_is_found(merge_above: int) -> None:
    """A line of many machine types cannot tell whose whole an action asks for; the lines of that total are asked."""
    matcher = Matcher(VETO, POOLS, probes=1, merge_above=merge_above)
    rows = []
    for number in range(30):
        total = 1_000 + number // 2 * 10
        row = worker(endpoint=f"w{number}", recency=number + 1, totals=[8_000, total], remaining=[8_000, total])
        row.free_memory_kib = 50
        rows.append(row)
        matcher.add_worker(row)
    for number, (kib, expected) in enumerate([(50, "w0"), (1_050, "w10"), (1_145, None)]):
        op = Operation(number, "main", "", kib, 0, 0, sort_key(0, 0, number), 0, wants(kib))
        matcher.enqueue(op)
        match = matcher.next_match()
        assert (None if match is None else match.worker.endpoint) == expected
        matcher.dequeue(op)


def test_a_configuration_without_minimums_places_everything_anywhere() -> None:
    kinds = {"cpu_millis": PropertyKind.IGNORE, "memory_kib": PropertyKind.IGNORE}
    config = SimpleScheduler(kind="simple", supported_platform_properties=kinds)
    assert config.pools() == ()
    matcher = Matcher(config, ())
    row = worker(totals=[], remaining=[])
    matcher.add_worker(row)
    matcher.enqueue(Operation(1, "main", "", 1, 0, 0, sort_key(0, 0, 1), 0, Demand(1, NO_NEED, ())))
    match = matcher.next_match()
    assert match is not None
    assert match.worker is row


def test_queue_order_holds_for_times_before_zero() -> None:
    """Aging makes them: queued at 5 s with a priority that is worth 100 s."""
    times = [-(2**63), -95_000_000, -1, 0, 1, 2**63 - 1]
    keys = [sort_key(0, time_us, 2**40 - 1 - number) for number, time_us in enumerate(times)]
    assert keys == sorted(keys)
    assert keys[0] > sort_key(1, 2**63 - 1, 0), "a higher priority comes first whatever the time"
    assert keys[-1] < sort_key(-1, -(2**63), 0)
    assert keys[0] > 0
