"""The judge on recorded histories: nothing to say of a sound one, and each fault is found by its own number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, decode_event, encode_event, envelope_of
from events.reasons import DigestRole, Outcome, RunResult
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.snapshots.following import SnapshotFollower
from streams.topics import EVENTS, FACTS, PLACEMENTS, topic_table
from streams.torture.__main__ import NOUGHTS, complaints, summary_of
from streams.torture.plan import draw_plan
from streams.torture.verdict import Verdict, judge
from tests.streams.deciding import (
    Cluster,
    configured,
    connected,
    decide_all,
    decided,
    decider,
    events_of,
    leading,
    queued,
    running,
)

NAMES = ["a0", "a1", "command-2"]


@pytest.fixture
async def sound() -> Cluster:
    """Three actions on one worker under three leaders: one runs, one is cancelled while it runs, one loses its worker once."""
    cluster = await Cluster.start()
    await cluster.put(configured(), connected("w", 2_000), *(queued(name) for name in NAMES), queued("a0"))
    await decide_all(cluster)
    first, second = (event.dispatch_id for event in events_of(cluster.events(), e.OperationDispatched))
    await cluster.put(
        f.DispatchAccepted("main", "w", 7, first),
        f.ActionFinished("main", "w", 7, first),
        f.CancelRequested("main", client_operation_id="a1"),
    )
    await decide_all(cluster)
    await cluster.put(
        f.ActionFinished("main", "w", 7, second, RunResult.KILLED),
        f.WorkerConnected("main", "w", 2, 8, (("cpu_millis", "2000"),)),
    )
    await decide_all(cluster)
    last = events_of(cluster.events(), e.OperationDispatched)[-1].dispatch_id
    await cluster.put(f.ActionFinished("main", "w", 8, last, stdout_tail=b"command-2 ran\n"))
    await decide_all(cluster)
    return cluster


Change = Callable[[list[e.Event]], Sequence[e.Event]]


async def copied(
    cluster: Cluster,
    *,
    events: Change = lambda events: events,
    values: Callable[[list[bytes]], list[bytes]] = lambda values: values,
    placements: Callable[[list[bytes]], list[bytes]] = lambda values: values,
) -> MemoryLog:
    """The history again with changed events (their chain made anew), then changed bytes of events or placements."""
    log = MemoryLog()
    await log.ensure_topics(topic_table(1))
    await log.publish((FACTS, 0), [Outgoing(record.value, record.key) for record in cluster.records(FACTS)])
    recorded = cluster.records(EVENTS)
    epochs = {envelope_of(record.value).seq: envelope_of(record.value).leader_epoch for record in recorded}
    chain, encoded = GENESIS_CHAIN, []
    for event in events([decode_event(record.value) for record in recorded]):
        value, chain = encode_event(event, epochs.get(event.seq, max(epochs.values())), chain)
        encoded.append(value)
    await log.publish((EVENTS, 0), [Outgoing(value) for value in values(encoded)])
    placed = placements([record.value for record in cluster.records(PLACEMENTS)])
    await log.publish((PLACEMENTS, 0), [Outgoing(value, b"w") for value in placed])
    return log


def found(verdict: Verdict) -> dict[str, object]:
    """The summary of a verdict, as a run would print it."""
    plan = replace(draw_plan(1, actions=3, kills=3), names=tuple(NAMES))
    return summary_of(plan, verdict, table_equals_replay=True)


def faults(verdict: Verdict) -> dict[str, object]:
    """What of the summary must be 0 and is not."""
    return {name: value for name, value in found(verdict).items() if name in NOUGHTS and value}


async def test_a_sound_history_is_sound(sound):
    verdict = await judge(await copied(sound), NAMES)
    assert verdict.complaints == []
    assert complaints(found(verdict)) == []
    summary = found(verdict)
    assert (summary["finished"], summary["cancelled"], summary["requeued"], summary["accepted"]) == (3, 1, 1, 1)
    assert (summary["leader_epochs"], summary["events"]) == (4, sound.events()[-1].seq)


async def test_an_action_without_an_end_is_lost(sound):
    verdict = await judge(await copied(sound), [*NAMES, "a3"])
    assert faults(verdict) == {"lost": 1}
    assert verdict.complaints == ["a3 has not ended"]


async def test_an_end_that_is_taken_out_leaves_a_gap_and_a_lost_action(sound):
    def without_last_end(events: list[e.Event]) -> list[e.Event]:
        last = events_of(events, e.OperationFinished)[-1]
        return [event for event in events if event is not last]

    verdict = await judge(await copied(sound, events=without_last_end), NAMES)
    # It was the last event of all, so that its fact is open and no number is missing.
    assert faults(verdict) == {"lost": 1, "placements_doubled": 1}


async def test_a_missing_event_is_a_gap(sound):
    def without_acceptance(events: list[e.Event]) -> list[e.Event]:
        return [event for event in events if not isinstance(event, e.OperationAccepted)]

    verdict = await judge(await copied(sound, events=without_acceptance), NAMES)
    assert faults(verdict) == {"seq_gaps": 1, "facts_undecided": 1}


async def test_a_second_end_is_doubled(sound):
    def with_second_end(events: list[e.Event]) -> list[e.Event]:
        return [*events, replace(events[-1], seq=events[-1].seq + 1)]

    verdict = await judge(await copied(sound, events=with_second_end), NAMES)
    assert faults(verdict) == {"doubled": 1, "unexplained": 1}


async def test_a_dispatch_while_another_is_current_is_doubled_and_over_capacity(sound):
    def with_second_dispatch(events: list[e.Event]) -> list[e.Event]:
        """In the place of the acceptance, so that every number stays."""
        first = events_of(events, e.OperationDispatched)[0]
        return [
            e.OperationDispatched(event.seq, event.at_us, event.cause_offset, first.operation_id, "w", 7)
            if isinstance(event, e.OperationAccepted)
            else event
            for event in events
        ]

    verdict = await judge(await copied(sound, events=with_second_dispatch), NAMES)
    wrong = faults(verdict)
    assert wrong.pop("over_capacity") >= 1
    # The run that nobody ends is still held when the worker connects anew, and was never announced.
    assert wrong == {"doubled": 1, "unexplained": 1, "placements_missing": 1}


async def test_a_changed_byte_breaks_the_chain(sound):
    def with_flipped_bit(values: list[bytes]) -> list[bytes]:
        queued_at = next(i for i, value in enumerate(values) if b"a1" in value)
        return [value.replace(b"a1", b"b1") if i == queued_at else value for i, value in enumerate(values)]

    verdict = await judge(await copied(sound, values=with_flipped_bit), NAMES)
    assert not verdict.chain_ok
    assert verdict.chain_breaks == 1
    assert any(line.startswith("chain_ok") for line in complaints(found(verdict)))


async def test_a_fact_decided_again_later_is_found(sound):
    def deciding_again(events: list[e.Event]) -> list[e.Event]:
        return [*events, e.Ticked(events[-1].seq + 1, events[-1].at_us, events[-1].cause_offset - 1)]

    verdict = await judge(await copied(sound, events=deciding_again), NAMES)
    assert faults(verdict) == {"facts_redecided": 1}


async def test_a_placement_that_stands_twice_or_not_at_all_is_found(sound):
    twice = await judge(await copied(sound, placements=lambda values: [*values, values[0]]), NAMES)
    assert faults(twice) == {"placements_doubled": 1}
    without = await judge(await copied(sound, placements=lambda values: values[1:]), NAMES)
    assert faults(without) == {"placements_missing": 1}


async def test_an_action_that_failed_or_printed_something_else_is_found(sound):
    def failing(events: list[e.Event]) -> list[e.Event]:
        return [*events[:-1], replace(events[-1], outcome=Outcome.WORKER_LOSSES_EXHAUSTED)]

    def printing(events: list[e.Event]) -> list[e.Event]:
        return [*events[:-1], replace(events[-1], stdout_tail=b"command-3 ran\n")]

    assert faults(await judge(await copied(sound, events=failing), NAMES)) == {"failed": 1}
    assert faults(await judge(await copied(sound, events=printing), NAMES)) == {"wrong_output": 1}


async def test_states_that_two_followers_or_a_fold_of_the_whole_do_not_agree_on_are_found(sound):
    leader = decider(sound.log)
    async with running(leader):
        await leading(leader)
        assert await SnapshotFollower(sound.log, 0, name="one").take(wait_s=60)
        await decided(leader, sound)
    whole = await judge(await copied(sound), NAMES)
    assert (whole.checkpoints, faults(whole)) == (1, {})

    def agreeing_on_another(events: list[e.Event]) -> list[e.Event]:
        return [
            replace(event, state_digest=bytes(16)) if isinstance(event, e.Checkpointed) else event for event in events
        ]

    def differing(events: list[e.Event]) -> list[e.Event]:
        last = events[-1]
        told = e.CheckpointDiverged(
            last.seq + 1, last.at_us, last.cause_offset, 3, b"a", 1, 1, "x", DigestRole.VERIFIED, b"b", 1, "y"
        )
        return [*events, told]

    assert faults(await judge(await copied(sound, events=agreeing_on_another), NAMES)) == {"states_differing": 1}
    assert faults(await judge(await copied(sound, events=differing), NAMES)) == {"states_differing": 1}


def test_a_table_that_differs_and_a_victim_that_was_spared_are_not_sound():
    plan = draw_plan(1, actions=3, kills=3)
    summary = summary_of(plan, Verdict(), table_equals_replay=False) | {
        "finished": 3,
        "kills": {"decider": 0, "worker": 1},
    }
    assert complaints(summary) == ["table_equals_replay is false", "no decider was killed"]
