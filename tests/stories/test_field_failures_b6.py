"""Thundering reconnects and stale locality, as others met them (field failures, group B6): each report's sequence, and what must hold.

Numbers are those of the collection (tests/fixtures/spec/failures.toml).
"""

import random
from itertools import count

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.evolving.locality import RESENT_AT_ONCE
from events.payloads import command_bytes
from projections import answers
from projections.explain import explain_operation
from streams import recovery
from streams.blobs.directory import BlobDirectory
from streams.blobs.naming import digest_of
from streams.cli.explaining import operation_in_words
from tests.stories.client_words import of_kind, placed
from tests.stories.crowds import both
from tests.stories.locality_words import (
    advertise,
    blob,
    gone_on,
    held,
    holders,
    row,
    sent,
    sent_chunks,
    stable,
    view,
    waiting,
)
from tests.stories.notation import (
    MAIN,
    Step,
    accept,
    advance,
    alive,
    configure,
    connect,
    drain,
    fact,
    gone,
    keepalive,
    queue,
    restart,
    tick,
)
from tests.stories.read_side import table_of
from tests.stories.story import Story

FLEET = 1_000


def fleet_at_work(story: Story, workers: int) -> Story:
    """So many workers of one core, each with an action that it has accepted, and as many again that wait; all heard just now."""
    story.given(configure(retain_completed_for_s=10_000))
    for number in range(workers):
        story.given(connect(f"w{number}", cpu=1), queue(f"a{number}", cpu=1), accept(f"a{number}"))
    story.given(*(queue(f"b{number}", cpu=1) for number in range(workers)))
    return story.given(*(keepalive(f"w{number}") for number in range(workers)))


def come_back(story: Story, order: list[int], apart_s: float) -> None:
    """The workers connect anew in this order, each with what it runs; those that are back are heard every two seconds."""
    back: list[int] = []
    heard_at_us = story.now_us
    for number in order:
        story.when(connect(f"w{number}", cpu=1, running=(f"a{number}",)), advance(apart_s))
        back.append(number)
        if story.now_us - heard_at_us >= 2_000_000:
            heard_at_us = story.now_us
            story.when(*(keepalive(f"w{each}") for each in back))


class Folds:
    """How often an event is folded into rows by a recovery."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.events = 0
        apply = recovery.Fold.apply

        def counting(fold, records):
            folded = apply(fold, records)
            self.events += folded
            return folded

        patched.setattr(recovery.Fold, "apply", counting)


def reconnected_within_a_second(workers: int, folds: Folds) -> tuple[Story, int, int]:
    """A restart and a whole fleet that comes back at once: the story, the events before, and what the passes have looked at."""
    story = fleet_at_work(Story(), workers)
    before, folded = len(story.every_event()), folds.events
    story.given(restart())
    assert folds.events - folded == before, "one fold: each event once"
    work = story.rehearsal.shard.instances[MAIN].matcher.work
    looked = work.total()
    come_back(story, list(range(workers)), 1 / workers)
    assert folds.events - folded == before, "no reconnect folds anything again"
    assert story.rehearsal.shard.instances[MAIN].matcher.work is work, "nor builds the indexes anew"
    return story, before, work.total() - looked


def test_75_a_thousand_workers_that_reconnect_within_a_second_cost_one_fold_and_bounded_passes(monkeypatch):
    folds = Folds(monkeypatch)
    story, before, looked = reconnected_within_a_second(FLEET, folds)
    later = story.every_event()[before:]
    kinds = {kind: sum(type(event) is kind for event in later) for kind in {type(event) for event in later}}
    ticks = kinds.pop(e.Ticked)
    assert ticks <= 3
    assert kinds == {e.LeaderElected: 1, e.RecoveryCompleted: 1, e.WorkerAdmitted: FLEET}, "one event for each"
    assert all(event.kept for event in later if type(event) is e.WorkerAdmitted), "it goes on with what it runs"

    _, _, looked_by_fewer = reconnected_within_a_second(FLEET // 10, folds)
    each, each_of_fewer = looked / FLEET, looked_by_fewer / (FLEET // 10)
    assert each <= 2 * each_of_fewer, f"{each} looks for a reconnect among {FLEET}, {each_of_fewer} among a tenth"


def test_75_each_reconnect_sends_what_concerns_its_worker_alone(story):
    fleet_at_work(story, 50).given(restart())
    for number in range(50):
        since = sent(story)
        story.when(connect(f"w{number}", cpu=1, running=(f"a{number}",)))
        out = story.rehearsal.outbounds[since:]
        assert [(each.kind, each.key) for each in out] == [
            ("WorkerAdmitted", f"w{number}"),
            ("ActionPlaced", f"w{number}"),
        ]
    assert [each.redelivered for each in placed(story)[-50:]] == [True] * 50


@pytest.mark.parametrize("seed", [0, 1])
def test_77_a_thousand_workers_that_reconnect_within_ten_seconds_lose_nothing(story, seed):
    """In any order and with the default timeout of ten seconds; what nobody could say while the log was down counts against nobody."""
    fleet_at_work(story, FLEET)
    before = len(story.every_event())
    running = {dispatch_id: name for name, dispatch_id in story.dispatch_ids.items()}
    order = list(range(FLEET))
    random.Random(seed).shuffle(order)
    story.given(restart())
    come_back(story, order, 9.9 / FLEET)
    later = story.every_event()[before:]
    lost = [event for event in later if isinstance(event, e.OperationRequeued | e.WorkerDisconnected | e.KillRequested)]
    assert lost == []
    assert [event for event in later if isinstance(event, e.OperationDispatched)] == [], "nor is anything run twice"
    workers = story.rehearsal.shard.instances[MAIN].workers
    now = {dispatch_id: running[dispatch_id] for worker in workers.values() for dispatch_id in worker.running}
    assert len(now) == FLEET
    story.when(fact(f.Tick()), advance(1))
    assert story.connected() == [f"w{number}" for number in range(FLEET)]


def test_77_an_outage_before_the_takeover_counts_against_no_worker(silent_story):
    story = silent_story
    story.given(connect("w1", cpu=1), queue("a", cpu=1), accept("a"), advance(40), restart())
    story.when(connect("w1", cpu=1, running=("a",))).then("log silent for 40 s", "w1 admitted again with a")


def test_79_a_worker_that_owes_many_acknowledgements_is_sent_few_chunks_at_once(story):
    """Not one that is asked for its state by a master's poll: it says it once, and what it missed comes a bounded bit at a time."""
    story.given(connect("w1", cpu=1), connect("w2", cpu=1))
    story.given(*(stable(1, sequence, last=sequence == 99) for sequence in range(100)))
    owed = waiting(story, "w1")
    assert len(owed) == 100
    story.given(restart())
    since = sent(story)
    story.when(connect("w1", cpu=1))
    assert sent_chunks(story, since, "w1") == owed[:RESENT_AT_ONCE]
    assert sent(story) - since == 1 + RESENT_AT_ONCE
    assert sent_chunks(story, since, "w2") == sent_chunks(story, since, "") == [], "nobody else hears of it"


def impostor(story: Story, *between: Step) -> Story:
    """w1 held d; another process took its address."""
    story.given(configure(locality={"prefer_from_bytes": 1}), connect("w1", cpu=8, boot=1), connect("w2", cpu=8))
    story.given(advertise("w1", "d", "other", pins=("p",), full=True))
    assert holders(story, "d") == ["w1"]
    return story.given(*between, connect("w1", cpu=8, boot=2))


@pytest.mark.parametrize(
    "between",
    [(gone("w1"),), (), (gone("w1"), restart()), (restart(),)],
    ids=["it was gone", "it was not gone", "gone before a restart", "a restart before"],
)
def test_80_a_new_worker_on_an_old_address_inherits_nothing(story, between):
    impostor(story, *between)
    assert holders(story, "d") == []
    assert held(story, "w1") == []
    assert view(story, "w1").pins == 0
    story.given(advertise("w1", "e"))
    assert held(story, "w1") == ["e"], "what it says itself counts"


def needing(name: str, *inputs: str, cpu: int = 1) -> Step:
    """An action that needs these blobs is queued."""
    requirements = canonical_requirements([("cpu_millis", str(cpu * 1000))])
    command = command_bytes(("true",), (), [blob(each) for each in inputs])
    return fact(f.ActionQueued(MAIN, name, requirements, command=command))


def explained(story: Story, name: str) -> str:
    """What `headway explain operation` says of it."""
    table = table_of(story)
    found = answers.lookup(table, name)
    return "\n".join(operation_in_words(explain_operation(table, found)))


def test_81_nobody_is_sent_for_a_blob_to_a_worker_that_came_back_with_an_empty_disk(story):
    impostor(story, gone("w1")).when(needing("a", "d"))
    assert story.last(e.OperationDispatched).holders == ()
    assert story.last(e.OperationDispatched).saved_bytes == 0
    assert "inputs there already" not in explained(story, "a")
    seen = view(story, "w1")
    assert (seen.blobs, seen.wiped.name, seen.wiped_epoch) == (0, "DISCONNECTED", 1), "and what became of them is said"
    story.given(advertise("w1", "d")).when(needing("b", "d"))
    assert story.endpoints["b"] == "w1"
    assert "of its inputs there already; who held most: w1" in explained(story, "b")


def preferring(story: Story) -> Story:
    """Both workers could run the action, w1 would be taken, and w2 holds what it needs."""
    story.given(configure(locality={"prefer_from_bytes": 500}))
    return story.given(connect("w1", cpu=4), connect("w2", cpu=4), advertise("w2", "d", full=True))


def test_85_an_action_goes_to_the_worker_that_holds_what_it_needs_when_both_have_room(story):
    preferring(story).when(needing("a", "d")).then("a queued", "a to w2")
    dispatched = story.last(e.OperationDispatched)
    assert [tuple(each) for each in dispatched.holders] == [("w2", 1000)]
    assert dispatched.saved_bytes == 1000


def test_85_what_a_restart_did_not_confirm_is_still_likely(story):
    preferring(story).given(restart()).when(needing("a", "d")).then("a queued", "a to w2")


def test_85_nobody_waits_for_a_worker_that_holds_it_and_has_no_room(story):
    preferring(story).given(needing("full", "d", cpu=4)).when(needing("a", "d"))
    story.then("a queued", "a to w1")
    assert story.last(e.OperationDispatched).saved_bytes == 0
    assert [each.endpoint for each in story.last(e.OperationDispatched).holders] == ["w2"]


@pytest.mark.parametrize("lost", [drain("w2"), gone("w2")], ids=["drained", "gone"])
def test_85_nor_for_one_that_takes_no_work(story, lost):
    preferring(story).given(lost).when(needing("a", "d")).then("a queued", "a to w1")


def test_85_without_the_option_what_workers_hold_decides_nothing(story):
    preferring(story).given(configure()).when(needing("a", "d")).then("a queued", "a to w1")
    assert story.last(e.OperationDispatched).holders == ()


def test_86_the_late_end_of_an_old_connection_leaves_what_the_new_one_holds(story):
    story.given(connect("w1", cpu=8, boot=1), advertise("w1", "old"))
    old = story.connections["w1"]
    story.given(connect("w1", cpu=8, boot=2), advertise("w1", "d", pins=("p",), full=True))
    story.when(gone_on("w1", old)).then("WorkerGone ignored: stale_connection")
    assert holders(story, "d") == ["w1"]
    assert view(story, "w1").pins == 1
    assert row(story, "w1").connection_id == story.connections["w1"] != old


def test_86_the_sweep_takes_who_never_came_back_and_nobody_else(story):
    story.given(configure(locality={"never_reconnect_s": 60}, worker_timeout_s=40))
    story.given(*(both(connect(f"w{number}", cpu=1), advertise(f"w{number}", "d")) for number in (1, 2)), restart())
    story.given(tick(), keepalive("w1"), advance(30), keepalive("w1"), advance(29.9))
    assert of_kind(story, e.EndpointSwept) == []
    assert story.connected() == ["w1"]
    assert holders(story, "d") == ["w1", "w2"]
    story.when(advance(0.6)).then("w2 swept: never_reconnected")
    assert holders(story, "d") == ["w1"]


def test_86_a_recovery_changes_nothing_of_a_worker_that_is_back_already(story):
    """It reconnects between the election and the end of the recovery, while facts from before are still decided."""
    story.given(configure(locality={"never_reconnect_s": 0}), connect("w1", cpu=8, boot=1), advertise("w1", "old"))
    story.given(restart(waiting=3))
    story.given(connect("w1", cpu=8, boot=2), advertise("w1", "d"), tick())
    assert of_kind(story, e.RecoveryCompleted) == []
    story.when(tick(), advance(3))
    assert of_kind(story, e.RecoveryCompleted)[-1].unconfirmed == 0
    assert holders(story, "d") == ["w1"]
    assert of_kind(story, e.EndpointSwept) == []


def test_87_a_worker_that_restarts_over_and_over_is_told_once_though_every_disconnect_is_cleaned_up(story):
    for boot in range(1, 5):
        story.given(connect("w1", cpu=8, boot=boot), gone("w1"), alive(30))
        assert story.connected() == []
    (flapping,) = of_kind(story, e.WorkerFlapping)
    assert (flapping.endpoint, flapping.changes) == ("w1", 3)
    assert flapping.within_us == 60_000_000


def test_83_reading_a_blob_keeps_it(tmp_path):
    """The directory gives up what was not used for longest, not what came first."""
    ticks = count(1)
    directory = BlobDirectory(tmp_path, 30, now_ns=lambda: next(ticks) * 1_000_000_000)
    contents = [bytes([letter]) * 10 for letter in b"abcd"]
    digests = [digest_of(content) for content in contents]
    for digest, content in zip(digests[:3], contents, strict=False):
        directory.write(digest, content)
    opened = directory.open(digests[0])
    assert opened is not None
    with opened:
        assert opened.read() == contents[0]
    directory.write(digests[3], contents[3])
    assert [directory.holds(digest) for digest in digests] == [True, False, True, True]
    directory.close()
