"""The timeline: rows as of every event are those of a replay, however it was built; events by subject are those of the whole log."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from events import events as e
from events.codec import decode_event, encode_event
from events.reasons import HoldEnd
from projections.position import take
from projections.rows import MemoryRows
from projections.story.history import Told
from projections.story.recorded import Recorded
from projections.table import Table
from streams.errors import LogUnavailable
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.moments import Moment, NoSuchMoment
from streams.store import Store, StoreLocked
from streams.timeline import Timeline
from streams.topics import EVENTS, topic_table
from tests.projections.histories import History

YEAR_2100_US = 4_102_444_800_000_000

Log = list[tuple[int, bytes]]


async def log_of(values: Sequence[bytes], *, cluster_id: str = "memory") -> MemoryLog:
    log = MemoryLog(clock_us=lambda: 0, cluster_id=cluster_id)
    await log.ensure_topics(topic_table(shards=1))
    await append(log, values)
    return log


async def append(log: MemoryLog, values: Sequence[bytes]) -> None:
    """In transactions of seven, so that offsets have holes."""
    writer = await log.open("decider-0")
    for begin in range(0, len(values), 7):
        await writer.append({(EVENTS, 0): [Outgoing(value) for value in values[begin : begin + 7]]})


async def records(log: MemoryLog) -> Log:
    follower = await log.follow({(EVENTS, 0): None})
    found: Log = []
    while await follower.position((EVENTS, 0)) < await follower.end_offset((EVENTS, 0)):
        read = await follower.read()
        found += [(record.offset, record.value) for record in read.get((EVENTS, 0), ())]
    return found


def all_rows(table: Table) -> dict[bytes, bytes]:
    return dict(table.rows.scan(b"", b""))


def assert_every_moment(timeline: Timeline, log: Log, *, order: random.Random | None = None) -> None:
    """Rows of the timeline are those of a fold that goes along."""
    replayed = Table(MemoryRows(), 0)
    expected: dict[int, dict[bytes, bytes]] = {}
    for offset, value in log:
        take(replayed, offset, value)
        replayed.flush()
        assert isinstance(replayed.rows, MemoryRows)
        expected[replayed.shard.seq] = dict(replayed.rows.by_key)
    seqs = list(expected)
    if order is not None:
        order.shuffle(seqs)
    assert timeline.last_seq == len(seqs)
    for seq in seqs:
        assert all_rows(timeline.table_at(seq)) == expected[seq], seq


@pytest.fixture(scope="module")
def values() -> list[bytes]:
    return list(History(5).run(350).values())


@pytest.fixture
async def log(values: list[bytes]) -> MemoryLog:
    return await log_of(values)


@pytest.fixture
async def timeline(log: MemoryLog, tmp_path: Path) -> AsyncIterator[Timeline]:
    made = await Timeline.open(log, 0, tmp_path, boundary_events=40, epoch_bytes=20_000)
    yield made
    made.close()


@pytest.mark.parametrize(("boundary_events", "epoch_bytes"), [(1, 1), (7, 5_000), (50, 1 << 20), (10_000, 1 << 20)])
@pytest.mark.parametrize("seed", [1, 2])
async def test_the_rows_at_every_event_are_those_of_a_replay(
    seed: int, boundary_events: int, epoch_bytes: int, tmp_path: Path
) -> None:
    log = await log_of(list(History(seed).run(250).values()))
    timeline = await Timeline.open(log, 0, tmp_path, boundary_events=boundary_events, epoch_bytes=epoch_bytes)
    assert_every_moment(timeline, await records(log))
    assert_every_moment(timeline, await records(log), order=random.Random(seed))
    timeline.close()


async def test_what_is_built_bit_by_bit_is_what_is_built_at_once(values: list[bytes], tmp_path: Path) -> None:
    log = await log_of([])
    rng = random.Random(3)
    timeline = await Timeline.open(log, 0, tmp_path, boundary_events=30, epoch_bytes=9_000)
    begin = 0
    while begin < len(values):
        size = rng.choice([1, 2, 5, 33, 90])
        await append(log, values[begin : begin + size])
        begin += size
        if rng.random() < 0.5:
            timeline.close()
            timeline = await Timeline.open(log, 0, tmp_path, boundary_events=30, epoch_bytes=9_000)
        else:
            await timeline.update()
        assert timeline.last_seq == min(begin, len(values))
        assert not timeline.rebuilt
    assert_every_moment(timeline, await records(log), order=rng)
    timeline.close()


class Killed(BaseException):
    """What a test ends a process with, in the middle of what it does."""


@pytest.mark.parametrize("writes", range(0, 40, 3))
async def test_a_build_that_dies_at_any_write_is_gone_on_with(
    writes: int, log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, write = writes, Store.write

    def dying(store: Store, changes: dict[bytes, bytes | None]) -> None:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        write(store, changes)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "write", dying)
        with pytest.raises(Killed):
            await Timeline.open(log, 0, tmp_path, boundary_events=25, epoch_bytes=6_000)
    timeline = await Timeline.open(log, 0, tmp_path, boundary_events=25, epoch_bytes=6_000)
    assert not timeline.rebuilt
    assert_every_moment(timeline, await records(log))
    timeline.close()


async def test_each_moment_is_found_in_its_own_epoch(log: MemoryLog, tmp_path: Path) -> None:
    """Though there are many."""
    timeline = await Timeline.open(log, 0, tmp_path, boundary_events=10, epoch_bytes=1)
    assert len({timeline._boundary_at(seq)[1] for seq in range(1, timeline.last_seq + 1)}) > 5
    assert_every_moment(timeline, await records(log))
    timeline.close()


# -- subjects ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_events_by_subject_are_those_that_the_events_alone_tell(seed: int, tmp_path: Path) -> None:
    log = await log_of(list(History(seed).run(900).values()))
    told = [Told(offset, decode_event(value)) for offset, value in await records(log)]
    recorded = Recorded(0, told)
    timeline = await Timeline.open(log, 0, tmp_path, boundary_events=100, epoch_bytes=40_000)
    queued = [each.event for each in told if isinstance(each.event, e.OperationQueued)]
    workers = {(each.event.instance, each.event.endpoint) for each in told if isinstance(each.event, e.WorkerAdmitted)}
    assert queued
    assert workers
    for event in queued:
        identity = event.operation_id
        assert timeline.events_of_operation(identity) == list(recorded.events_of_operation(identity))
        assert timeline.overtakings_of(identity) == list(recorded.overtakings_of(identity))
        for instance in (None, "main", "night"):
            name = event.client_operation_id
            assert timeline.operations_named(name, instance) == list(recorded.operations_named(name, instance))
    times = [each.event.at_us for each in told]
    rng = random.Random(seed)
    for instance, endpoint in sorted(workers):
        assert timeline.events_of_worker(instance, endpoint) == list(recorded.events_of_worker(instance, endpoint))
        for _ in range(5):
            begin, end = sorted((rng.choice(times), rng.choice(times)))
            found = timeline.runs_of_worker(instance, endpoint, begin, end)
            assert found == list(recorded.runs_of_worker(instance, endpoint, begin, end))
    for instance in ("main", "night"):
        for begin, end in ((1, len(told)), (10, 60), (200, 201)):
            found_events = timeline.events_of_instance(instance, begin, end)
            assert found_events == list(recorded.events_of_instance(instance, begin, end))
    assert timeline.events_between(20, 90) == told[19:90]
    timeline.close()


async def test_an_instant_stands_for_the_last_event_at_or_before_it(timeline: Timeline, log: MemoryLog) -> None:
    events = [decode_event(value) for _, value in await records(log)]
    for at_us in sorted({at for event in events for at in (event.at_us - 1, event.at_us, event.at_us + 1)}):
        assert timeline.seq_at(at_us) == sum(event.at_us <= at_us for event in events)


async def test_a_moment_begins_and_ends_a_range(timeline: Timeline, log: MemoryLog) -> None:
    events = [decode_event(value) for _, value in await records(log)]
    shared = next(a.at_us for a, b in itertools.pairwise(events) if a.at_us == b.at_us and a.seq > 5)
    inside = [event.seq for event in events if event.at_us == shared]
    assert timeline.seq_of(Moment(at_us=shared)) == inside[-1]
    assert timeline.seq_of(Moment(at_us=shared), first=True) == inside[0]
    assert timeline.seq_of(Moment(seq=17)) == 17


async def test_a_moment_that_the_log_does_not_reach_is_refused(timeline: Timeline) -> None:
    with pytest.raises(NoSuchMoment):
        timeline.seq_of(Moment(seq=timeline.last_seq + 1))
    with pytest.raises(NoSuchMoment):
        timeline.seq_of(Moment(at_us=YEAR_2100_US), first=True)
    assert timeline.seq_of(Moment(at_us=YEAR_2100_US)) == timeline.last_seq
    with pytest.raises(NoSuchMoment, match=f"its last event is seq {timeline.last_seq}"):
        timeline.table_at(timeline.last_seq + 1)


# -- which log it is of -----------------------------------------------------------------------------------------------------------


async def test_another_log_is_indexed_anew(values: list[bytes], timeline: Timeline, tmp_path: Path) -> None:
    timeline.close()
    other = await log_of(list(History(8).run(100).values()), cluster_id="other")
    again = await Timeline.open(other, 0, tmp_path)
    assert again.rebuilt == "other_log"
    assert_every_moment(again, await records(other))
    again.close()


async def test_a_log_of_the_same_name_with_other_events_is_indexed_anew(timeline: Timeline, tmp_path: Path) -> None:
    """Restored from a copy, say: the ids are the same, the chain at the last event is not."""
    timeline.close()
    other = await log_of(list(History(9).run(600).values()))
    again = await Timeline.open(other, 0, tmp_path)
    assert again.rebuilt == "other_log"
    assert_every_moment(again, await records(other))
    again.close()


async def test_a_log_that_ends_before_the_timeline_does_is_another_one(
    values: list[bytes], timeline: Timeline, tmp_path: Path
) -> None:
    timeline.close()
    again = await Timeline.open(await log_of(values[:50]), 0, tmp_path)
    assert (again.rebuilt, again.last_seq) == ("other_log", 50)
    again.close()


async def test_a_log_in_files_that_changed_is_indexed_anew(log: MemoryLog, tmp_path: Path) -> None:
    for state, rebuilt in (("a", ""), ("a", ""), ("b", "other_log")):
        timeline = await Timeline.open(log, 0, tmp_path, log_state=state)
        assert timeline.rebuilt == rebuilt
        timeline.close()


async def test_what_was_trimmed_from_the_log_is_still_answered(
    values: list[bytes], timeline: Timeline, log: MemoryLog, tmp_path: Path
) -> None:
    found = await records(log)
    timeline.close()
    await log.trim((EVENTS, 0), found[-1][0] + 1)
    again = await Timeline.open(log, 0, tmp_path)
    assert not again.rebuilt
    assert_every_moment(again, found)
    again.close()


# -- damage -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["changed", "missing", "swapped", "forged"])
async def test_a_damaged_log_is_indexed_up_to_the_damage(damage: str, values: list[bytes], tmp_path: Path) -> None:
    at = 123
    broken = list(values)
    match damage:
        case "changed":
            broken[at] = broken[at][:9] + bytes([broken[at][9] ^ 1]) + broken[at][10:]
        case "missing":
            del broken[at]
        case "swapped":
            broken[at], broken[at + 1] = broken[at + 1], broken[at]
        case "forged":  # with a right chain: a hold expires for who never was, which is seen when half of it is folded
            before = decode_event(broken[at - 1])
            forged = e.HoldReleased(at + 1, before.at_us, before.cause_offset, "main", 999_999, "w", HoldEnd.EXPIRED, 7)
            broken[at] = encode_event(forged, 1, broken[at - 1][-16:])[0]
    log = await log_of(broken)
    for boundary_events in (10, 1_000):
        timeline = await Timeline.open(log, 0, tmp_path / str(boundary_events), boundary_events=boundary_events)
        assert timeline.damage is not None
        assert timeline.damage.seq == at
        assert timeline.last_seq == at
        assert_every_moment(timeline, (await records(log))[:at])
        with pytest.raises(NoSuchMoment, match="damaged"):
            timeline.table_at(at + 1)
        timeline.close()


async def test_a_log_that_is_mended_is_gone_on_with(values: list[bytes], tmp_path: Path) -> None:
    log = await log_of(values[:100])
    await append(log, [b"no event"])
    timeline = await Timeline.open(log, 0, tmp_path)
    assert timeline.damage is not None
    assert timeline.last_seq == 100
    timeline.close()
    timeline = await Timeline.open(await log_of(values), 0, tmp_path)
    assert timeline.damage is None
    assert timeline.last_seq == len(values)
    timeline.close()


async def test_a_log_whose_beginning_is_gone_cannot_be_indexed_and_says_so(log: MemoryLog, tmp_path: Path) -> None:
    await log.trim((EVENTS, 0), (await records(log))[20][0])
    timeline = await Timeline.open(log, 0, tmp_path)
    assert timeline.last_seq == 0
    assert "event 1 is missing" in str(timeline.damage)
    timeline.close()


async def test_events_of_a_replaced_leader_are_left_out_and_counted(tmp_path: Path) -> None:
    history = History(4)
    values = list(history.run(60).values())
    chain = values[-1][-16:]
    history.elect()
    stale = encode_event(e.Ticked(len(values) + 1, history.world.now_us, 1), 1, chain)[0]
    values += [*history.values(), stale, *history.run(30).values()]
    log = await log_of(values)
    for boundary_events in (1_000, 5):
        timeline = await Timeline.open(log, 0, tmp_path / str(boundary_events), boundary_events=boundary_events)
        assert timeline.damage is None
        last = timeline.table_at(timeline.last_seq)
        assert last.shard.stale_events == 1
        replayed = Table(MemoryRows(), 0)
        for offset, value in await records(log):
            take(replayed, offset, value)
        replayed.flush()
        assert all_rows(last) == all_rows(replayed)
        timeline.close()


# -- two processes ----------------------------------------------------------------------------------------------------------------


async def test_one_process_at_a_time_and_the_other_is_told_which(
    timeline: Timeline, log: MemoryLog, tmp_path: Path
) -> None:
    with pytest.raises(StoreLocked, match="open in another process"):
        await Timeline.open(log, 0, tmp_path)
    with pytest.raises(StoreLocked):
        await Timeline.open(log, 0, tmp_path, wait_s=0.3)
    timeline.close()
    (await Timeline.open(log, 0, tmp_path, wait_s=0.3)).close()


async def test_an_unreadable_directory_is_made_anew(timeline: Timeline, log: MemoryLog, tmp_path: Path) -> None:
    timeline.close()
    for path in (tmp_path / "rows").iterdir():
        path.write_bytes(b"nothing that RocksDB knows")
    again = await Timeline.open(log, 0, tmp_path)
    assert again.rebuilt == "unreadable"
    assert_every_moment(again, await records(log))
    again.close()


async def test_a_log_that_does_not_answer_frees_the_directory(log: MemoryLog, tmp_path: Path) -> None:
    log.cut()
    with pytest.raises(LogUnavailable):
        await Timeline.open(log, 0, tmp_path)
    log.mend()
    (await Timeline.open(log, 0, tmp_path)).close()
