"""State lost or wrong after a restart, as others met it (field failures, group B3): each report's sequence, and what must hold here.

Numbers are those of the collection (tests/fixtures/spec/failures.toml).
"""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, decode_event, encode_event
from events.decide import decide, elect
from events.indexing import build_indexes
from events.payloads import digests_bytes
from events.reasons import RunResult
from events.state import Stage
from projections import answers, fleet, locality
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from streams.crashing_log import Crash, CrashingLog, ProcessDied
from streams.errors import OutcomeUnknown
from streams.log import Record
from streams.ownership import Role
from streams.recovery import DamagedLog, Fold
from streams.store import Store
from streams.topics import EVENTS
from tests.properties.walks import Walk
from tests.reference.rows import rows_of
from tests.stories.client_words import digest_of, dispatches_of, of_kind, placed
from tests.stories.crowds import arrive, end, names, overtake
from tests.stories.notation import (
    accept,
    advance,
    alive,
    configure,
    connect,
    finish,
    gone,
    pause,
    queue,
    restart,
    resume,
    tick,
)
from tests.streams.deciding import (
    Clock,
    Cluster,
    assert_exactly_once,
    configured,
    connected,
    decide_all,
    decided,
    decider,
    events_of,
    queued,
    running,
    until,
    without_elections,
)

ROOT = Path(__file__).parents[2]


def records_of(story) -> list[Record]:
    """The records of a story's events, as they would stand in the log."""
    records, chain, epoch = [], GENESIS_CHAIN, 0
    for event in story.every_event():
        if isinstance(event, e.LeaderElected):
            epoch = event.leader_epoch
        value, chain = encode_event(event, epoch, chain)
        records.append(Record(len(records), event.at_us, None, value))
    return records


def test_38_what_ran_when_the_scheduler_stopped_goes_on_and_completes_once(story):
    story.given(connect("w1", cpu=8), connect("w2", cpu=8), queue("a", cpu=8), accept("a"))
    story.when(restart(), tick()).then("leader 2 elected")
    assert len({each.dispatch_id for each in placed(story)}) == 1, "said again under its own id, which its worker knows"
    story.when(finish("a"), finish("a")).then("a finished: completed", "ActionFinished ignored: dispatch_not_current")
    assert dispatches_of(story, "a") == ["w1"]
    assert len(of_kind(story, e.OperationFinished)) == 1
    assert story.counters("a") == (0, 0, 0)


def test_39_what_a_lost_worker_leaves_is_placed_by_the_pass_of_the_same_fact(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"), connect("w2", cpu=8))
    story.when(gone("w1")).then("a requeued: worker_gone", "w1 out: gone", "a to w2")
    assert len({event.cause_offset for event in story.every_event()[-3:]}) == 1


def test_39_what_was_requeued_while_no_pass_could_place_it_is_found_by_the_next_one(story):
    """No index can lag behind a requeue: it is a row of the same state, and rebuilt from the log it is there as well."""
    story.given(connect("w1", cpu=8), queue("a", cpu=8), connect("w2", cpu=8), pause())
    story.when(gone("w1")).then("a requeued: worker_gone", "w1 out: gone")
    story.given(restart()).when(resume()).then("main resumed", "a to w2")
    story.given(gone("w2"), restart(), advance(2)).when(connect("w3", cpu=8)).then("w3 admitted", "a to w3")


def test_40_a_log_that_lost_any_event_is_found_out_at_its_place(story):
    """Whoever folds it stops there: neither the decider's recovery nor the state table goes on past it."""
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"), advance(2), finish("a"), queue("b", cpu=8))
    records = records_of(story)
    for lost in range(1, len(records) - 1):
        rest = [record for record in records if record.offset != lost]
        with pytest.raises(DamagedLog) as found:
            Fold(0).apply(rest)
        assert (found.value.seq, found.value.offset) == (lost, lost + 1)
        table = Table(MemoryRows(), 0)
        took = [take(table, record.offset, record.value) for record in rest[: lost + 1]]
        assert took == [Taken.FOLDED] * lost + [Taken.GAP]
        assert table.shard.seq == lost, "it stands right before the gap"


def test_42_every_incarnation_says_once_that_it_began_and_once_that_it_has_recovered(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    story.when(restart(), advance(2), restart(), advance(2)).then("leader 2 elected", "leader 3 elected")
    elected = of_kind(story, e.LeaderElected)
    assert [event.leader_epoch for event in elected] == [1, 2, 3]
    recovered = of_kind(story, e.RecoveryCompleted)
    assert [event.elected_seq for event in recovered] == [event.seq for event in elected[1:]]
    assert [following.seq - event.elected_seq for event, following in zip(recovered, recovered, strict=True)] == [1, 1]


def test_42_one_that_ended_before_any_fact_came_says_only_that_it_began(story):
    story.given(connect("w1", cpu=8)).when(restart(), restart(), tick()).then("leader 2 elected", "leader 3 elected")
    (recovered,) = of_kind(story, e.RecoveryCompleted)
    assert recovered.elected_seq == of_kind(story, e.LeaderElected)[-1].seq


def test_44_a_replay_that_stops_after_any_fact_becomes_a_leader_that_decides():
    """Whatever state operations are in there: no recovery waits for one that has passed already."""
    stages: set[Stage] = set()
    for seed in range(4):
        walk, ends = Walk(random.Random(seed)), []
        for _ in walk.go(160):
            ends.append(len(walk.records))
            stages |= {operation.stage for operation in walk.shard.operations.values()}
        for number in ends[seed::4]:
            fold = Fold(0)
            fold.apply(walk.records[:number])
            shard = fold.shard
            build_indexes(shard)
            facts_end = shard.position + 1
            elect(shard, leader_epoch=shard.leader_epoch + 1, facts_end=facts_end)
            assert shard.recovers_at == facts_end, f"seed {seed}, after {number} events"
            first, *_ = decide(shard, f.Tick(), offset=facts_end, append_us=shard.now_us)
            assert isinstance(first, e.RecoveryCompleted), f"seed {seed}, after {number} events"
            assert shard.recovers_at is None
    assert stages == set(Stage), "every state is passed through"


def test_46_a_hold_that_was_served_before_the_restart_is_not_made_again(story):
    story.given(configure(hold={"kind": "shortfall", "after_s": 0}, retain_completed_for_s=10_000), connect("w", cpu=8))
    story.given(*(arrive(name) for name in names("s", 8)), arrive("b", cpu=8), overtake("s1", "t1"))
    assert story.held() == ("w", "b")
    story.given(end(names("s", 7, first=2)), finish("t1"), accept("b"), finish("b"))
    story.when(restart(), queue("c", cpu=8), alive(3)).then("leader 2 elected", "c queued", "c to w")
    assert story.held() is None
    assert len(of_kind(story, e.HoldMade)) == 1


def test_47_nothing_is_decided_on_a_state_that_is_not_whole(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), queue("b", cpu=8))
    records = records_of(story)
    for number in range(2, len(records)):
        fold = Fold(0)
        fold.apply(records[:number])
        assert not fold.shard.live
        wants = f.ActionQueued("main", "c", b"")
        with pytest.raises(AttributeError, match="None"):
            decide(fold.shard, wants, offset=fold.shard.position + 1, append_us=fold.shard.now_us)


async def test_47_who_takes_over_places_after_it_has_read_everything_that_is_in_use():
    cluster = await Cluster.start()
    await cluster.put(configured(), connected("w1", 4000), *(queued(f"a{number}") for number in range(4)))
    await decide_all(cluster)
    before = cluster.events()
    await cluster.put(*(queued(f"b{number}") for number in range(4)))
    await decide_all(cluster)
    later = cluster.events()[len(before) :]
    assert isinstance(later[0], e.LeaderElected)
    assert events_of(later, e.OperationDispatched) == [], "the worker is full, which only the events before tell"
    dispatch = events_of(before, e.OperationDispatched)[0]
    await cluster.put(f.ActionFinished("main", "w1", 7, dispatch.dispatch_id, RunResult.EXITED))
    await decide_all(cluster)
    assert len(events_of(cluster.events(), e.OperationDispatched)) == 5
    assert_exactly_once(cluster)


async def test_48_a_shard_whose_leader_stopped_evaluating_is_decided_by_the_standby_without_anybody_restarting_it():
    cluster = await Cluster.start()
    stopping = CrashingLog(cluster.log, Crash(2, "before", of="append"))  # behind its election and the first two facts
    first, clock = decider(stopping), Clock()
    standby = decider(cluster.log, claim=False, monotonic_us=clock)
    await cluster.put(configured(), connected("w1"))

    async def evaluates_until_it_stops() -> None:
        async with running(first):
            await decided(first, cluster)
            await cluster.put(queued("a"))
            await until(stopping.is_dead)

    with pytest.raises(ProcessDied):
        await evaluates_until_it_stops()
    assert events_of(cluster.events(), e.OperationQueued) == []
    async with running(standby):

        def leads() -> bool:
            clock.now_us += 20_000
            return standby.role is Role.LEADING

        await until(leads, "the standby sees a fact without an event and leads")
        await decided(standby, cluster)
    assert len(events_of(cluster.events(), e.OperationDispatched)) == 1
    assert_exactly_once(cluster)


BLOBS = (digest_of("one"), digest_of("two"))
FACTS = (
    configured(),
    connected("w1", 2000),
    *(queued(f"a{number}") for number in range(3)),
    f.BlobsAvailable("main", "w1", 7, 1, 0, False, True, digests_bytes(BLOBS[:1])),
    f.BlobsAvailable("main", "w1", 7, 1, 1, True, True, digests_bytes(BLOBS[1:]), digests_bytes(BLOBS)),
    f.BlobsStable("main", 1, 0, True, "", digests_bytes(BLOBS)),
    f.WorkerReported("main", "w1", 7),
    f.BlobsEvicted("main", "w1", 7, digests_bytes(BLOBS[:1])),
    f.CancelRequested("main", None, "a2"),
    f.WorkerReported("main", "w1", 7),
)


async def test_50_where_the_log_does_not_take_what_was_decided_the_state_has_not_gone_on():
    reference = await Cluster.start()
    await reference.put(*FACTS)
    await decide_all(reference, most_facts=3)
    appends = 1 + -(-len(FACTS) // 3)
    for refused in range(1, appends):
        cluster = await Cluster.start()
        await cluster.put(*FACTS)
        seen: list[int] = []

        def refuse(name: str, count: int, cluster=cluster, refused=refused, seen=seen) -> None:
            if name == "append" and count in (refused, refused + 1):
                seen.append(cluster.fold().shard.position)
            if (name, count) == ("append", refused):
                cluster.log.fail_next_append(OutcomeUnknown, committed=False)

        one = await decide_all(cluster, CrashingLog(cluster.log, on_call=refuse), most_facts=3)
        assert one.stats.unknown_outcomes == 1
        assert seen[0] == seen[1], "the next thing it writes stands where the refused one would have stood"
        assert_exactly_once(cluster)
        assert without_elections(cluster.events()) == without_elections(reference.events()), f"append {refused}"


def test_52_the_first_listing_after_a_restart_needs_no_log(tmp_path, story):
    story.given(connect("w1", cpu=40), *(queue(f"a{number}", cpu=1) for number in range(120)))
    clean = Table(MemoryRows(), 0)
    store = Store.open(tmp_path / "table", cluster_id="c", topic_id="t")
    table = store.table(0)
    for record in records_of(story):
        take(table, record.offset, record.value)
        take(clean, record.offset, record.value)
    table.flush()
    clean.flush()
    store.close()
    again = Store.open(tmp_path / "table", cluster_id="c", topic_id="t")
    found = again.table(0)
    assert found.shard.seq == story.rehearsal.shard.seq, "it says as of when it answers"
    assert len(list(answers.queue(found, "main"))) == 80
    assert list(answers.operations(found)) == list(answers.operations(clean))
    assert list(fleet.workers(found)) == list(fleet.workers(clean))
    again.close()


PHASES = ("read, nothing folded", "half folded", "folded, nothing written", "written")
KILLED = """
import json, os, signal, sys
from pathlib import Path
from streams import catch_up
from streams.log import Record
from streams.store import Store

path, phase, batch, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
records = [Record(n, 0, None, bytes.fromhex(v)) for n, v in enumerate(json.loads(sys.stdin.read()))]
store = Store.open(path, cluster_id="c", topic_id="t")
table = store.table(0)
number = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Deadly:
    offset = at * batch + batch // 2
    value = property(lambda self: die())

if phase == "half folded":
    records[Deadly.offset] = Deadly()

def write(self, changes, write=Store.write):
    if phase == "folded, nothing written" and number == at:
        die()
    write(self, changes)
    if phase == "written" and number == at:
        die()

Store.write = write
while number * batch < len(records):
    if phase == "read, nothing folded" and number == at:
        die()
    catch_up.take_records(table, records[number * batch:(number + 1) * batch])
    number += 1
"""


@pytest.mark.parametrize("phase", PHASES)
def test_53_a_fold_that_is_killed_in_any_phase_goes_on_as_a_clean_replay_would(tmp_path, phase):
    """SIGKILL of the process that folds, then rows and position against a replay from the first record; blobs and pins included."""
    walk, batch, at = Walk(random.Random(53)), 40, 2
    for _ in walk.go(150):
        pass
    records = walk.records
    values = json.dumps([record.value.hex() for record in records])
    command = [sys.executable, "-c", KILLED, str(tmp_path / "table"), phase, str(batch), str(at)]
    ended = subprocess.run(command, input=values, text=True, cwd=ROOT, capture_output=True, timeout=60)
    assert ended.returncode == -9, ended.stderr

    store = Store.open(tmp_path / "table", cluster_id="c", topic_id="t")
    table = store.table(0)
    assert table.shard.seq == batch * (at + (phase == "written")), "what was written is there, and no more"
    assert dict(store.scan(b"", b"")) == clean_rows(records[: table.shard.seq])
    for record in records:  # what it knows already comes again, as it does after any restart
        take(table, record.offset, record.value)
    table.flush()
    assert dict(store.scan(b"", b"")) == clean_rows(records)
    store.close()


def clean_rows(records: list[Record]) -> dict[bytes, bytes]:
    """The rows of a table into which these records were folded, in memory and one by one."""
    rows = MemoryRows()
    table = Table(rows, 0)
    for record in records:
        assert take(table, record.offset, record.value) is Taken.FOLDED
        table.flush()
    return rows.by_key


@pytest.mark.parametrize("when", ["before", "after"])
async def test_53_a_decider_that_is_killed_at_any_call_leaves_the_log_that_one_that_lived_would_have_written(when):
    reference = await Cluster.start()
    await reference.put(*FACTS)
    log = CrashingLog(reference.log)
    await decide_all(reference, log, most_facts=3)
    appends = [number for number, name in enumerate(log.calls) if name == "append"]
    for at_call in range(appends[0], appends[-1] + 1):
        cluster = await Cluster.start()
        await cluster.put(*FACTS)
        dying = CrashingLog(cluster.log, Crash(at_call, when))
        with pytest.raises(ProcessDied):
            async with running(decider(dying, most_facts=3)):
                await until(dying.is_dead)
        await decide_all(cluster, most_facts=3)
        assert_exactly_once(cluster)
        assert without_elections(cluster.events()) == without_elections(reference.events()), f"{when} call {at_call}"
        rows, clean = MemoryRows(), clean_rows(cluster.records(EVENTS))
        fold, table = Fold(0), Table(rows, 0)
        for record in cluster.records(EVENTS):
            fold.apply([record])
            take(table, record.offset, record.value)
        table.flush()
        assert rows.by_key == clean
        assert [holder.endpoint for holder in locality.holders(rows, 0, BLOBS[1])] == ["w1"]
        assert locality.holders(rows, 0, BLOBS[0]) == []
        assert rows_of(fold.shard)["instances"].keys() == {"main"}
        assert [decode_event(record.value).seq for record in cluster.records(EVENTS)][-1] == fold.shard.seq
