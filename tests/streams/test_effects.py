"""What became of published facts, with the real decider on the in-memory log."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from events import events as e
from events import facts as f
from events.reasons import IgnoreReason, RejectReason
from streams.decider import Decider
from streams.effects import NotDecided, publish_and_see, publish_facts, record_of
from streams.memory_log import MemoryLog
from streams.provisioning import provision


@asynccontextmanager
async def deciding():
    """A log with instance `main`, and its decider at work."""
    log = MemoryLog()
    await provision(log, {"main": 0})
    stop = asyncio.Event()
    running = asyncio.create_task(Decider(log, 0).run(stop))
    try:
        yield log
    finally:
        stop.set()
        await running


async def test_each_fact_has_its_own_events():
    async with deciding() as log:
        queued = f.ActionQueued("main", "a")
        first, second, third = await publish_and_see(
            log, 0, [queued, queued, f.CancelRequested("main", client_operation_id="a")]
        )
    assert [type(event) for event in first.events][-1] is e.OperationQueued
    assert (first.said, first.unchanged) == ("", False)
    assert second.ignored.reason is IgnoreReason.DUPLICATE_OPERATION
    assert second.said == "An operation with this client_operation_id is already known."
    assert type(third.events[-1]) is e.OperationFinished
    assert first.seq < second.seq < third.seq
    assert third.ignored is third.rejected is None


async def test_what_is_already_so_is_unchanged_and_what_is_wrong_is_rejected_with_its_rule():
    async with deciding() as log:
        await publish_and_see(log, 0, [f.InstancePaused("main")])
        again, wrong = await publish_and_see(
            log, 0, [f.InstancePaused("main"), f.Configured("main", '{"kind":"simple","worker_timeout_s":0}')]
        )
    assert again.unchanged
    assert wrong.rejected.reason is RejectReason.INVALID_CONFIGURATION
    assert wrong.said.startswith(
        "The configuration breaks a rule; the one in force stays. Field 'worker_timeout_s' is '0'"
    )


async def test_all_events_of_the_last_fact_are_waited_for():
    async with deciding() as log:
        facts = [f.ActionQueued("main", f"a{number}") for number in range(50)]
        await publish_and_see(log, 0, facts)
        (admitted,) = await publish_and_see(
            log, 0, [f.WorkerConnected("main", "w", 1, 1, (("cpu_millis", "1"), ("memory_kib", "1")))]
        )
    kinds = [type(event) for event in admitted.events]
    assert kinds[0] is e.WorkerAdmitted
    assert kinds.count(e.OperationDispatched) == 50


async def test_without_a_decider_it_says_so_in_time():
    log = MemoryLog()
    await provision(log, {"main": 0})
    with pytest.raises(NotDecided, match=r"2 of 2 fact\(s\) published .* had no event after 0\.2 s") as caught:
        await publish_and_see(log, 0, [f.InstancePaused("main"), f.Tick()], timeout_s=0.2)
    assert len(caught.value.offsets) == 2
    assert "headway decider run --shard 0" in caught.value.remedy


async def test_no_facts_have_no_effects():
    log = MemoryLog()
    await provision(log, {"main": 0})
    assert await publish_and_see(log, 0, []) == []


async def test_publishing_alone_returns_offsets_in_order():
    log = MemoryLog()
    await provision(log, {"main": 0})
    effects = await publish_facts(log, 0, [f.Tick() for _ in range(1_001)])
    offsets = [effect.offset for effect in effects]
    assert offsets == sorted(set(offsets))
    assert all(effect.seq == 0 and not effect.events for effect in effects)


def test_records_are_keyed_by_operation_or_endpoint():
    assert record_of(f.ActionQueued("main", "a")).key == b"a"
    assert record_of(f.WorkerDrained("main", "w")).key == b"w"
    assert record_of(f.InstancePaused("main")).key is None
