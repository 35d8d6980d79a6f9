"""A shadow beside a decider: it judges every fact, says once where it differs, and writes nothing but that."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from events import events as e
from events import facts as f
from events.codec import chain_of, encode_event
from events.errors import InvalidFact
from events.reasons import DecisionDifference, Outcome
from projections import redeciding
from proto.gen.headway.v1 import audit_pb2
from streams import audit, shadow
from streams.audit import diverged_record, read_audit, standings, this_auditor
from streams.crashing_log import Crash, CrashingLog, ProcessDied, When
from streams.health import HealthEndpoint
from streams.log import Log, Outgoing, Record
from streams.recovery import DamagedLog, OtherLog
from streams.shadow import AnotherShadow, JudgedFurther, Shadow
from streams.topics import AUDIT, EVENTS, FACTS, TOPICS, topic_table
from tests.properties.facts import CONFIGS, INSTANCES, World
from tests.streams.deciding import (
    DEADLINE_S,
    Cluster,
    configured,
    connected,
    decide_all,
    decider,
    leading,
    queued,
    running,
    until,
)
from tests.streams.test_decider import STORY

OTHERS = [spec.name for spec in TOPICS if spec.name != AUDIT]


async def decided(*facts: f.Fact) -> Cluster:
    """A cluster in which a decider has decided facts."""
    cluster = await Cluster.start()
    await cluster.put(*facts)
    await decide_all(cluster)
    return cluster


def numbered(count: int) -> list[f.Fact]:
    return [configured(), connected("w1", 4000), *(queued(f"a{number}") for number in range(count))]


async def judge(cluster: Cluster, log: Log | None = None, auditor: str = "candidate") -> Shadow:
    """Run a shadow to the end of the log."""
    one = Shadow(log or cluster.log, 0, auditor=auditor)
    await asyncio.wait_for(one.run(asyncio.Event(), until_caught_up=True), DEADLINE_S)
    return one


def said(cluster: Cluster, kind: str) -> list[audit_pb2.Audit]:
    messages = [read_audit((AUDIT, 0), record) for record in cluster.records(AUDIT)]
    return [message for message in messages if message.WhichOneof("kind") == kind]


def diverged(cluster: Cluster, auditor: str = "candidate") -> list[int]:
    """Facts that an auditor decides otherwise."""
    return [
        message.shadow_diverged.cause_offset
        for message in said(cluster, "shadow_diverged")
        if message.auditor == auditor
    ]


def last_progress(cluster: Cluster) -> audit_pb2.ShadowProgress:
    return said(cluster, "shadow_progress")[-1].shadow_progress


@pytest.fixture
def other_rules(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the shadow, and not the decider, decide chosen actions otherwise: a priority higher."""

    def change(*names: str) -> None:
        def decide(*arguments, **named):
            return [
                replace(event, priority=event.priority + 1)
                if isinstance(event, e.OperationQueued) and event.client_operation_id in names
                else event
                for event in real(*arguments, **named)
            ]

        monkeypatch.setattr(redeciding, "decide", decide)

    real = redeciding.decide
    return change


async def test_a_build_that_decides_the_same_is_said_to_and_nothing_else_is_written() -> None:
    cluster = await decided(*STORY)
    before = {topic: cluster.records(topic) for topic in OTHERS}
    one = await judge(cluster)
    assert one.caught_up
    assert diverged(cluster) == []
    progress = last_progress(cluster)
    assert (progress.seq, progress.next_fact_offset) == (len(cluster.events()), len(STORY))
    assert (progress.facts, progress.divergences, progress.not_judged) == (len(STORY), 0, 0)
    assert {topic: cluster.records(topic) for topic in OTHERS} == before


async def test_random_histories_with_poison_outages_and_leaders_in_between_have_no_divergence() -> None:
    cluster = await Cluster.start()
    world = World(random.Random("shadow"))
    await cluster.put(*(f.Configured(name, CONFIGS[number]) for number, name in enumerate(INSTANCES)))
    for number in range(4):
        for _ in range(60):
            at_us, fact = world.next()
            cluster.now_us = max(cluster.now_us, at_us + 1_700_000_000_000_000)
            try:
                await cluster.put(fact)
            except InvalidFact:
                continue
        await cluster.put_raw(b"\xff poison %d" % number)
        in_json = Outgoing(b'{"kind": "Tick"}', None, (("content-type", b"application/json"),))
        await cluster.log.publish((FACTS, 0), [in_json])
        seen = len(cluster.events()) if number else 0
        await decide_all(cluster)
        world.see(cluster.events()[seen:])
    one = await judge(cluster)
    assert diverged(cluster) == []
    assert one.stats.judged.elections == 4
    assert one.stats.judged.facts == len(cluster.records(FACTS))


async def test_what_is_decided_otherwise_is_published_with_both_sides(other_rules: Callable[..., None]) -> None:
    cluster = await decided(*numbered(6))
    other_rules("a2", "a4")
    await judge(cluster)
    assert diverged(cluster) == [4, 6]
    [first, _] = said(cluster, "shadow_diverged")
    found = first.shadow_diverged
    recorded = cluster.events()[found.seq - 1]
    assert isinstance(recorded, e.OperationQueued)
    assert recorded.client_operation_id == "a2"
    assert cluster.records(EVENTS)[found.seq - 1].offset == found.offset
    assert (found.difference, list(found.fields)) == (DecisionDifference.FIELDS, ["priority"])
    assert (found.recorded[0].operation_queued.priority, found.decided[0].operation_queued.priority) == (0, 1)
    assert (found.fact_kind, found.build, found.leader_epoch) == ("ActionQueued", "test", 1)
    assert (found.recorded_count, found.decided_count, found.shown_from) == (2, 2, 0)
    assert last_progress(cluster).divergences == 2


async def test_a_shadow_that_starts_again_goes_on_behind_what_it_said(other_rules: Callable[..., None]) -> None:
    cluster = await decided(*numbered(4))
    other_rules("a1", "late")
    await judge(cluster)
    once = cluster.records(AUDIT)
    one = await judge(cluster)
    assert cluster.records(AUDIT) == once, "nothing new is nothing said"
    await cluster.put(queued("late"))
    await decide_all(cluster)
    one = await judge(cluster)
    assert diverged(cluster) == [3, 6]
    assert (one.stats.judged.facts, one.stats.judged.divergences, one.stats.published) == (7, 2, 1)
    assert one.stats.judged.elections == 2


async def test_a_long_way_to_the_end_is_said_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow, "READ_AT_ONCE", 5)
    monkeypatch.setattr(shadow, "PROGRESS_US", 0)
    cluster = await decided(*numbered(12))
    await judge(cluster)
    seqs = [message.shadow_progress.seq for message in said(cluster, "shadow_progress")]
    assert len(seqs) > 3
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == len(cluster.events())


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_death_at_any_call_loses_and_doubles_no_divergence(
    when: When, other_rules: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "READ_AT_ONCE", 5)
    monkeypatch.setattr(shadow, "CLOSE_AT_BYTES", 400)
    cluster = await decided(*numbered(12))
    other_rules(*(f"a{number}" for number in range(0, 12, 2)))
    whole = CrashingLog(cluster.log)
    await judge(cluster, whole, auditor="whole")
    reference = diverged(cluster, "whole")
    assert len(reference) == 6
    assert whole.calls.count("append") > 2
    for at_call in range(len(whole.calls)):
        auditor = f"dies at {at_call}"
        log = CrashingLog(cluster.log, Crash(at_call, when))
        with pytest.raises(ProcessDied):
            await judge(cluster, log, auditor=auditor)
        one = await judge(cluster, auditor=auditor)
        assert diverged(cluster, auditor) == reference, f"after a death {when} call {at_call}, {whole.calls[at_call]}"
        assert one.stats.judged.facts == 14
        assert one.stats.judged.divergences == 6


@pytest.mark.parametrize("committed", [True, False, None])
async def test_a_commit_without_an_answer_is_looked_up(
    committed: bool | None, other_rules: Callable[..., None]
) -> None:
    cluster = await decided(*numbered(4))
    other_rules("a1")
    one = Shadow(cluster.log, 0, auditor="candidate")
    cluster.log.fail_next_append(committed=committed, transactional_id=shadow.transactional_id(0, "candidate"))
    await asyncio.wait_for(one.run(asyncio.Event(), until_caught_up=True), DEADLINE_S)
    assert one.stats.unavailable == 1
    assert diverged(cluster) == [3]
    assert one.stats.judged.divergences == 1


async def test_it_follows_what_a_decider_decides_now(other_rules: Callable[..., None]) -> None:
    cluster = await Cluster.start()
    await cluster.put(*numbered(2))
    other_rules("a1", "b3")  # the last one too: nothing comes behind it
    leader, one, stop = decider(cluster.log), Shadow(cluster.log, 0, auditor="candidate"), asyncio.Event()
    async with running(leader):
        await leading(leader)
        judging = asyncio.create_task(one.run(stop))
        await until(lambda: one.stats.role == shadow.FOLLOWING, "it has caught up")
        await cluster.put(*(queued(f"b{number}") for number in range(4)))
        await until(lambda: len(diverged(cluster)) == 2, "it has judged what came")
        assert one.stats.behind == 0
        stop.set()
        await asyncio.wait_for(judging, DEADLINE_S)
    assert diverged(cluster) == [3, 7]
    assert one.stats.role == shadow.STOPPED
    assert last_progress(cluster).seq == one.stats.seq


async def test_of_two_shadows_of_one_build_the_later_goes_on() -> None:
    cluster = await decided(*numbered(2))
    first, stop = Shadow(cluster.log, 0, auditor="candidate"), asyncio.Event()
    judging = asyncio.create_task(first.run(stop))
    await until(lambda: first.stats.role == shadow.FOLLOWING, "the first follows")
    await judge(cluster)
    await cluster.put(queued("x"))
    await decide_all(cluster)
    stop.set()
    with pytest.raises(AnotherShadow, match="shard 0"):
        await asyncio.wait_for(judging, DEADLINE_S)


async def test_two_builds_judge_beside_each_other(other_rules: Callable[..., None]) -> None:
    cluster = await decided(*numbered(2))
    await judge(cluster, auditor="one")
    other_rules("a1")
    await judge(cluster, auditor="other")
    assert (diverged(cluster, "one"), diverged(cluster, "other")) == ([], [3])
    rows = await standings(cluster.log, 0)
    assert [(row["auditor"], row["divergences"], row["differences"], row["behind"]) for row in rows] == [
        ("one", 0, {}, 0),
        ("other", 1, {"fields": 1}, 0),
    ]


async def test_records_of_a_replaced_leader_are_left_out() -> None:
    cluster = await decided(*numbered(2))
    before = cluster.records(EVENTS)
    stale, _ = encode_event(e.Ticked(len(before) + 1, 0, 4), 1, chain_of(before[-1].value))
    await decide_all(cluster)  # a second leader
    writer = await cluster.log.open("replaced")
    await writer.append({(EVENTS, 0): [Outgoing(stale)]})
    await cluster.put(queued("x"))
    one = decider(cluster.log)
    async with running(one):
        await until(lambda: one.stats.position >= 4, "the third leader has decided it")
    found = await judge(cluster)
    assert (found.stats.stale_events, diverged(cluster)) == (1, [])
    assert found.stats.judged.facts == 5


async def test_what_was_found_before_a_damage_is_published(other_rules: Callable[..., None]) -> None:
    cluster = await decided(*numbered(4))
    other_rules("a1")
    writer = await cluster.log.open("intruder")
    await writer.append({(EVENTS, 0): [Outgoing(b"not an event")]})
    with pytest.raises(DamagedLog, match="HW-204"):
        await judge(cluster)
    assert diverged(cluster) == [3]


async def test_an_event_that_has_no_place_ends_it_behind_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow, "FACT_PATIENCE_US", 1_000)
    cluster = await decided(*numbered(1))
    last = cluster.records(EVENTS)[-1]
    event = e.OperationFinished(len(cluster.events()) + 1, cluster.events()[-1].at_us, 7, 99, 99, Outcome.COMPLETED)
    forged, _ = encode_event(event, 1, chain_of(last.value))
    writer = await cluster.log.open("intruder")
    await writer.append({(EVENTS, 0): [Outgoing(forged)]})
    with pytest.raises(redeciding.CannotFollow, match="OperationFinished"):
        await judge(cluster)
    assert diverged(cluster) == [7]
    assert said(cluster, "shadow_diverged")[0].shadow_diverged.difference == DecisionDifference.NO_FACT


async def test_facts_that_retention_took_are_followed_and_counted() -> None:
    cluster = await decided(*numbered(6))
    await cluster.log.trim((FACTS, 0), 5)
    one = await judge(cluster)
    assert diverged(cluster) == []
    assert (one.stats.judged.not_judged, one.stats.judged.facts) == (5, 3)


async def test_a_fact_that_stands_nowhere_is_found_and_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow, "FACT_PATIENCE_US", 1_000)
    cluster = await decided(*numbered(1))
    last = cluster.events()[-1]
    forged, _ = encode_event(e.Ticked(last.seq + 1, last.at_us, 7), 1, chain_of(cluster.records(EVENTS)[-1].value))
    writer = await cluster.log.open("intruder")
    await writer.append({(EVENTS, 0): [Outgoing(forged)]})
    await judge(cluster)
    assert diverged(cluster) == [7]


async def test_a_log_that_is_away_is_waited_for() -> None:
    cluster = await decided(*numbered(2))
    one, stop = Shadow(cluster.log, 0, auditor="candidate"), asyncio.Event()
    judging = asyncio.create_task(one.run(stop))
    await until(lambda: one.stats.role == shadow.FOLLOWING, "it follows")
    cluster.log.cut()
    await until(lambda: one.stats.unavailable > 0, "it has noticed")
    cluster.log.mend()
    await cluster.put(queued("x"))
    await decide_all(cluster)
    await until(lambda: one.stats.judged.facts == 5, "it has judged what came")
    stop.set()
    await asyncio.wait_for(judging, DEADLINE_S)
    assert diverged(cluster) == []
    assert last_progress(cluster).facts == 5


async def test_a_copied_log_is_refused() -> None:
    cluster = await decided(*numbered(2))
    other = Cluster(cluster_id="elsewhere")
    await other.log.ensure_topics(topic_table(1))
    for topic in (FACTS, EVENTS):
        await other.log.publish((topic, 0), [Outgoing(record.value, record.key) for record in cluster.records(topic)])
    with pytest.raises(OtherLog, match="elsewhere"):
        await judge(other)


async def test_a_log_that_is_shorter_than_what_was_judged_is_refused() -> None:
    cluster = await decided(*numbered(2))
    record = audit.progress_record(
        "candidate", await cluster.log.topic_id(EVENTS), audit.Progress(99, 4, redeciding.Judged())
    )
    await cluster.log.publish((AUDIT, 0), [record])
    with pytest.raises(JudgedFurther, match="up to event 99"):
        await judge(cluster)


async def test_what_was_said_of_a_log_that_stood_here_before_is_left_out() -> None:
    cluster = await decided(*numbered(2))
    await cluster.log.publish(
        (AUDIT, 0), [audit.progress_record("candidate", "deleted", audit.Progress(99, 4, redeciding.Judged()))]
    )
    one = await judge(cluster)
    assert one.stats.judged.facts == 4
    assert len(await standings(cluster.log, 0)) == 1


async def test_its_health_is_that_it_judges() -> None:
    cluster = await decided(*numbered(2))
    one, stop = Shadow(cluster.log, 0, auditor="candidate"), asyncio.Event()
    endpoint = HealthEndpoint([one.stats], 0)
    await endpoint.start()
    url = f"http://127.0.0.1:{endpoint.port}"
    try:
        async with aiohttp.ClientSession() as session:

            async def ask(path: str) -> tuple[int, dict[str, Any]]:
                async with session.get(url + path) as response:
                    return response.status, await response.json()

            assert await ask("/healthz") == (200, {"ok": True, "roles": {"0": "catching up"}})
            judging = asyncio.create_task(one.run(stop))
            await until(lambda: one.stats.role == shadow.FOLLOWING, "it follows")
            stop.set()
            await asyncio.wait_for(judging, DEADLINE_S)
            status, stats = await ask("/stats")
            assert (status, stats["shards"][0]["judged"]["facts"], stats["shards"][0]["behind"]) == (200, 4, 0)
            assert (await ask("/healthz"))[0] == 503
    finally:
        await endpoint.close()


def test_a_divergence_of_many_events_is_cut_behind_the_first_that_differs() -> None:
    events = tuple(e.Ticked(seq, 0, 1) for seq in range(1, 1001))
    others = (*events[:500], *(replace(event, at_us=1) for event in events[500:]))
    found = redeciding.Divergence(
        501, 9, 1, DecisionDifference.FIELDS, events, others, 500, "Tick", ("at_us",), "", 1, "b"
    )
    message = audit_pb2.Audit.FromString(diverged_record("candidate", "t", found).value).shadow_diverged
    assert (message.recorded_count, message.decided_count, message.shown_from) == (1000, 1000, 500)
    assert [event.seq for event in message.recorded] == list(range(501, 501 + audit.MOST_EVENTS_SHOWN))
    assert [event.at_us for event in message.decided] == [1] * audit.MOST_EVENTS_SHOWN


def test_what_a_build_decides_and_cannot_write_is_said() -> None:
    events = (e.Ticked(1, 0, 1),)
    found = redeciding.Divergence(
        1, 9, 1, DecisionDifference.FIELDS, events, (e.Ticked(1, -5, 1),), 0, "Tick", (), "", 1, "b"
    )
    message = audit_pb2.Audit.FromString(diverged_record("candidate", "t", found).value).shadow_diverged
    assert "cannot be written" in message.error
    assert len(message.recorded) == 1


def test_an_event_that_only_the_candidate_knows_is_shown_by_its_place() -> None:
    message = audit_pb2.Audit(auditor="candidate")
    message.shadow_diverged.decided.add(seq=7, cause_offset=3).MergeFromString(b"\xca\x3e\x00")  # field 1001
    said = audit.divergence_json(Record(0, 0, None, b""), message, 2)
    assert (said["decided"][0]["seq"], said["decided"][0]["kind"], said["decided"][0]["shard"]) == (7, "", 2)


def test_an_auditor_is_a_build_and_its_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("rule = 1\n")
    monkeypatch.setattr(audit.core, "__path__", [str(tmp_path)])
    before = this_auditor()
    assert before == this_auditor()
    (tmp_path / "a.py").write_text("rule = 2\n")
    assert this_auditor() != before
    assert this_auditor().startswith(audit.this_build())


def test_its_transactional_id_is_no_deciders() -> None:
    from streams.leadership import transactional_id

    assert shadow.transactional_id(0, "a") not in (transactional_id(0), shadow.transactional_id(0, "b"))
    assert shadow.transactional_id(0, "a") != shadow.transactional_id(1, "a")
