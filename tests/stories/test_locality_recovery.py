"""What becomes of endpoints when the scheduler restarts (6.7, 10.1): unconfirmed until heard, kept, wiped, or swept in time.

The tests of a dump file, in a system that has none: the log is the map, so a restart is a replay and an election, and a long recovery is
facts that waited for the new leader. `restart(waiting=200)` is a leader behind whose election 200 facts stand; ticks come twice a second.
"""

import pytest

from events import events as e
from events.reasons import SweepCause
from proto.gen.headway.v1 import commands_pb2
from tests.stories.client_words import of_kind
from tests.stories.locality_words import (
    acknowledge,
    advertise,
    chunk_seqs,
    evict,
    held,
    holders,
    pinned,
    row,
    sent,
    stable,
    view,
    waiting,
)
from tests.stories.notation import (
    accept,
    advance,
    alive,
    configure,
    connect,
    finish,
    gone,
    keepalive,
    queue,
    remove,
    restart,
    tick,
)

OLD, NEW = 1111, 2222


@pytest.fixture
def holding(story):
    """w1 (process 1111) holds x and y, and pins p; w2 (process 7) holds x."""
    story.given(connect("w1", boot=OLD, cpu=8), connect("w2", boot=7))
    return story.given(advertise("w1", "x", "y", pins=("p",), full=True), advertise("w2", "x", full=True))


def only(endpoint, seconds):
    """Time passes; of all workers only this one is heard, every two seconds."""

    def step(story):
        for _ in range(round(seconds / 2)):
            advance(2)(story)
            keepalive(endpoint)(story)

    return step


def ticks(seconds):
    """Time passes in a story without a ticker; somebody ticks every two seconds."""

    def step(story):
        for _ in range(round(seconds / 2)):
            advance(2)(story)
            tick()(story)

    return step


def outage(seconds):
    """In a story without a ticker: for so long nobody could write."""
    return advance(seconds)


def swept(story):
    """The sweeps so far: (endpoint, cause)."""
    return [(event.endpoint, event.cause) for event in of_kind(story, e.EndpointSwept)]


def recovered_at_us(story):
    """When the last recovery was complete."""
    return story.last(e.RecoveryCompleted).at_us


def test_reloaded_entry_is_findable_without_rebackfill(holding):
    holding.when(restart()).then("leader 2 elected")
    assert holders(holding, "x") == ["w1", "w2"], "nobody connected since, and the map answers"
    assert held(holding, "w1") == ["x", "y"]
    assert pinned(holding, "w1") == ["p"]
    assert view(holding, "w1").confirmed is False, "and says that nobody confirmed it yet"
    assert row(holding, "w1").advertised is True, "the core knows that there is something to lose"


def test_reloaded_entry_wiped_on_boot_epoch_mismatch_via_primed_endpoint_state(holding):
    holding.given(restart())
    assert held(holding, "w1") == ["x", "y"]
    holding.when(connect("w1", boot=NEW)).then("w1 wiped: epoch_changed", "w1 admitted")
    assert held(holding, "w1") == [], "the row recovers with its epoch, or a fresh process would inherit these"
    assert holders(holding, "x") == ["w2"]


def test_reloaded_entry_kept_on_boot_epoch_match(holding):
    holding.given(restart()).when(connect("w1", boot=OLD)).then("w1 admitted again")
    assert held(holding, "w1") == ["x", "y"]
    assert pinned(holding, "w1") == ["p"]
    assert view(holding, "w1").confirmed is True
    holding.given(only("w1", 700))
    assert held(holding, "w1") == ["x", "y"], "they stay until its first full report"
    holding.given(advertise("w1", "z", full=True))
    assert held(holding, "w1") == ["z"]


def test_never_reconnect_entry_swept_reconnected_sibling_kept(holding):
    holding.given(restart(), connect("w2", boot=7), only("w2", 620))
    assert swept(holding) == [("w1", SweepCause.NEVER_RECONNECTED)], "exactly one"
    assert held(holding, "w2") == ["x"]
    assert held(holding, "w1") == []
    assert holders(holding, "x") == ["w2"]
    assert view(holding, "w1") is None
    assert row(holding, "w1") is None


def test_sweep_honors_grace_no_sweep_before_grace_elapses(story):
    story.given(configure(locality={"never_reconnect_s": 10_000}), connect("w1", boot=OLD), advertise("w1", "x"))
    story.given(restart(), advance(3000))
    assert swept(story) == [], "a huge grace sweeps nobody"
    assert holders(story, "x") == ["w1"]
    story.given(configure(locality={"never_reconnect_s": 0}), advance(1))
    assert swept(story) == [("w1", SweepCause.NEVER_RECONNECTED)], "no grace sweeps it at once"
    assert holders(story, "x") == []


def test_reload_does_not_clobber_live_reconnected_endpoint(holding):
    holding.given(configure(locality={"never_reconnect_s": 0}), restart(waiting=20))
    holding.given(connect("w1", boot=OLD), advertise("w1", "live"), only("w1", 20))
    assert recovered_at_us(holding) > holding.last(e.WorkerAdmitted).at_us, "it came while the recovery was going on"
    assert view(holding, "w1").confirmed is True, "the end of the recovery takes nothing from who came before it"
    assert held(holding, "w1") == ["live", "x", "y"]
    assert of_kind(holding, e.EndpointConfirmed) == [], "it had been heard under this leader, and stays so"
    assert {endpoint for endpoint, _ in swept(holding)} == {"w2"}
    first, out = of_kind(holding, e.EndpointSwept)[0], of_kind(holding, e.WorkerDisconnected)[0]
    assert (first.cause, first.at_us) == (SweepCause.NEVER_RECONNECTED, out.at_us), (
        "no grace: swept as its worker is out"
    )


def test_never_reconnect_sweep_fires_grace_after_baseline_not_boot(holding):
    holding.given(restart(waiting=200))
    boot_us = holding.last(e.LeaderElected).at_us
    holding.given(advance(110))
    assert 100_000_000 <= recovered_at_us(holding) - boot_us <= 101_000_000, "the recovery lasted 100 s"
    holding.given(advance((boot_us + 690_000_000 - holding.now_us) / 1_000_000))
    assert swept(holding) == [], "600 s after boot nobody is swept, nor at any time before the grace is over"
    assert holders(holding, "x") == ["w1", "w2"]
    holding.given(advance(12))
    assert swept(holding) == [("w1", SweepCause.NEVER_RECONNECTED), ("w2", SweepCause.NEVER_RECONNECTED)]
    for event in of_kind(holding, e.EndpointSwept):
        assert event.at_us - recovered_at_us(holding) == event.waited_us == 600_000_000, "right when it is over"


def test_recovery_is_complete_at_the_first_fact_that_did_not_wait(story):
    story.given(connect("w1", boot=OLD), advertise("w1", "x"), restart(waiting=3), tick(), tick(), tick())
    assert of_kind(story, e.RecoveryCompleted) == []
    story.given(tick())
    completed = story.last(e.RecoveryCompleted)
    elected = story.last(e.LeaderElected)
    assert (completed.elected_seq, completed.unconfirmed) == (elected.seq, 1)
    assert completed.cause_offset == elected.facts_end


def test_the_first_leader_has_nothing_to_recover(story):
    story.given(connect("w1"), alive(20))
    assert of_kind(story, e.RecoveryCompleted) == []


@pytest.mark.parametrize("restarts", [1, 2, 5])
def test_a_slow_recovery_and_restarts_in_its_midst_leave_no_endpoint_for_ever(holding, restarts):
    """PM9a: the deadline of each endpoint is its own, so no one-shot sweep can come too early and never again."""
    for _ in range(restarts):
        holding.given(restart(waiting=1500), advance(700))  # each longer than the 600 s, and than any gate waits
    assert swept(holding) == []
    holding.given(advance(100))
    base_us = recovered_at_us(holding)
    holding.given(advance(600))
    assert [endpoint for endpoint, _ in swept(holding)] == ["w1", "w2"]
    assert [event.at_us - base_us for event in of_kind(holding, e.EndpointSwept)] == [600_000_000] * 2
    assert holding.rehearsal.shard.instances["main"].endpoints == {}


def test_a_restart_while_a_sweep_is_due_begins_the_wait_anew(holding):
    holding.given(restart(), advance(590), restart(), advance(590))
    assert swept(holding) == []
    holding.given(advance(20))
    assert len(swept(holding)) == 2


def test_a_restart_without_any_reconnect_loses_nothing(holding):
    """10.1: a log has no stream that breaks. Keepalives on the connections there are confirm, once per leader."""
    holding.given(queue("a", cpu=8), accept("a"), restart())
    holding.when(alive(2)).then("w1 confirmed", "w2 confirmed")
    holding.when(alive(700)).then()
    assert (held(holding, "w1"), held(holding, "w2"), pinned(holding, "w1")) == (["x", "y"], ["x"], ["p"])
    assert view(holding, "w1").confirmed is True
    holding.when(finish("a")).then("a finished: completed")
    holding.when(restart(), alive(2)).then("leader 3 elected", "w1 confirmed", "w2 confirmed")


def test_an_endpoint_with_nothing_to_lose_needs_no_confirmation(story):
    story.given(connect("w1", boot=OLD), restart()).when(alive(700)).then()
    assert story.connected() == ["w1"]
    story.when(advertise("w1", "x")).then("w1 confirmed", "w1 reports 1.0: delta, the last")
    story.when(alive(700)).then()
    assert holders(story, "x") == ["w1"]


OWN_WORDS = {
    "a keepalive": keepalive("w1"),
    "a report": advertise("w1", "z"),
    "an eviction": evict("w1", "y"),
    "an acknowledgement": lambda story: acknowledge("w1", chunk_seqs(story, 5)[0])(story),
}


@pytest.mark.parametrize("word", OWN_WORDS.values(), ids=list(OWN_WORDS))
def test_whatever_the_owning_connection_says_confirms(holding, word):
    holding.given(stable(5), restart(), word)
    assert [event.endpoint for event in of_kind(holding, e.EndpointConfirmed)] == ["w1"]
    assert (view(holding, "w1").confirmed, view(holding, "w2").confirmed) == (True, False)
    holding.given(only("w1", 700))
    assert swept(holding) == [("w2", SweepCause.NEVER_RECONNECTED)]


def test_what_a_foreign_connection_says_confirms_nothing(holding):
    holding.given(restart(), advertise("w1", "z", connection=999), evict("w1", "x", connection=999))
    assert of_kind(holding, e.EndpointConfirmed) == []


def test_an_unconfirmed_worker_that_falls_silent_keeps_its_entries_until_the_sweep(holding):
    holding.given(restart()).when(only("w2", 12)).then("w2 confirmed", "w1 out: timeout")
    assert held(holding, "w1") == ["x", "y"], "it may not have noticed that there is another scheduler"
    assert view(holding, "w1").connected is False
    holding.when(connect("w1", boot=OLD)).then("w1 admitted")
    assert held(holding, "w1") == ["x", "y"], "and comes back with what it has"
    holding.given(restart(), only("w2", 620))
    assert swept(holding) == [("w1", SweepCause.NEVER_RECONNECTED)]
    assert held(holding, "w1") == []


def test_an_unconfirmed_worker_that_an_operator_removes_keeps_its_entries_until_the_sweep(holding):
    holding.given(restart()).when(remove("w1")).then("w1 out: removed")
    assert held(holding, "w1") == ["x", "y"]
    holding.given(only("w2", 620))
    assert swept(holding) == [("w1", SweepCause.NEVER_RECONNECTED)]


def test_a_worker_that_says_after_a_restart_that_it_leaves_takes_its_entries_with_it(holding):
    """O1: it was heard on the connection that owns the endpoint, so its end is that connection's end."""
    holding.given(restart()).when(gone("w1")).then("w1 confirmed", "w1 out: gone", "w1 wiped: disconnected")
    assert holders(holding, "x") == ["w2"]


def test_a_connected_worker_is_not_swept_before_it_is_out_however_short_the_grace(story):
    """Its next keepalive confirms it; a grace shorter than the keepalives' distance takes nothing from it."""
    story.given(configure(worker_timeout_s=5000), connect("w1", boot=OLD), advertise("w1", "x"), restart())
    story.when(advance(620)).then()
    assert holders(story, "x") == ["w1"]
    story.given(configure(worker_timeout_s=5000, locality={"never_reconnect_s": 0}))
    story.when(advance(4000), keepalive("w1"), advance(4000)).then("w1 confirmed")
    assert held(story, "w1") == ["x"]
    story.given(restart()).when(advance(5000)).then("w1 out: timeout", "w1 swept: never_reconnected")
    assert holders(story, "x") == []


def test_recovery_confirmation_and_sweep_say_nothing_of_stable_blobs(holding):
    """PM12: they are of the read path; nobody's chunk is acknowledged, and nobody is told to unpin."""
    holding.given(stable(5, 0, "x"))
    before = sent(holding)
    holding.given(restart(), only("w2", 620))
    assert swept(holding) == [("w1", SweepCause.NEVER_RECONNECTED)]
    told = [commands_pb2.WorkerCommand.FromString(out.value) for out in holding.rehearsal.outbounds[before:]]
    assert {command.WhichOneof("kind") for command in told} == {"evicted"}, "w1 was told that it timed out, that is all"
    assert waiting(holding, "w2") == chunk_seqs(holding, 5)
    assert len(of_kind(holding, e.BlobsStable)) == 1
    assert of_kind(holding, e.BlobsStableAcknowledged) == []


def test_a_disconnected_endpoint_is_forgotten_after_the_grace(holding):
    holding.given(gone("w1"), only("w2", 598))
    assert row(holding, "w1") is not None
    holding.when(only("w2", 4)).then("w1 swept: gone")
    assert holding.last(e.EndpointSwept).waited_us == 600_000_000
    assert (row(holding, "w1"), view(holding, "w1")) == (None, None)
    assert holders(holding, "x") == ["w2"]


def test_an_endpoint_that_comes_back_in_time_is_not_swept(holding):
    holding.given(gone("w1"), only("w2", 598), connect("w1", boot=NEW), advertise("w1", "z"), alive(700))
    assert swept(holding) == []
    assert held(holding, "w1") == ["z"]


def test_an_outage_of_the_log_moves_the_sweep_of_who_never_reconnected(silent_story):
    silent_story.given(connect("w1", boot=OLD), advertise("w1", "x"), restart(), tick(), ticks(590))
    silent_story.when(outage(1000), tick()).then("log silent for 1000 s")
    silent_story.when(ticks(8)).then()
    assert holders(silent_story, "x") == ["w1"], "while nobody could write, nobody could come back"
    silent_story.when(ticks(4)).then("w1 swept: never_reconnected")
    assert silent_story.last(e.EndpointSwept).waited_us == 600_000_000


def test_an_outage_of_the_log_moves_the_sweep_of_who_is_gone(silent_story):
    silent_story.given(connect("w1", boot=OLD), gone("w1"), ticks(590))
    silent_story.when(outage(1000), tick(), ticks(8)).then("log silent for 1000 s")
    silent_story.when(ticks(4)).then("w1 swept: gone")


def test_a_healthy_worker_is_not_evicted_by_what_a_new_leader_has_to_catch_up_with(holding):
    """V-9: its keepalives stand in the log. They are judged in the time of the log, however late they are read."""
    holding.given(queue("a", cpu=8), accept("a"), restart(waiting=250))
    holding.when(alive(100)).then("w1 confirmed", "w2 confirmed")
    assert holding.last(e.RecoveryCompleted).at_us < holding.now_us
    assert holding.counters("a") == (0, 0, 0)
    assert held(holding, "w1") == ["x", "y"]


def test_a_worker_that_waits_for_its_admission_is_not_evicted_by_what_a_new_leader_has_to_catch_up_with(holding):
    """V-9: it repeats its connect and says nothing else, since nobody could tell it yet that it is admitted."""
    holding.given(queue("a", cpu=8), accept("a"), restart(waiting=250))
    again = connect("w1", boot=OLD, cpu=8, running=("a",), connection=77)
    holding.when(again)
    for _ in range(12):
        holding.when(only("w2", 4), again)
    repeated = ["WorkerConnected ignored: duplicate_connection"]
    assert holding.told() == ["w1 admitted again with a", "w2 confirmed", *repeated * 12]
    assert holding.counters("a") == (0, 0, 0)
    assert held(holding, "w1") == ["x", "y"]


def test_a_worker_that_fell_silent_while_nobody_decided_is_out_in_the_time_of_the_log(holding):
    holding.given(restart(waiting=300)).when(only("w2", 20)).then("w2 confirmed", "w1 out: timeout")
    out = holding.last(e.WorkerDisconnected)
    assert out.silent_us == 10_000_000
    assert held(holding, "w1") == ["x", "y"], "and what it held waits for the sweep"


def test_a_healthy_worker_is_not_evicted_by_an_outage_of_the_log(silent_story):
    silent_story.given(connect("w1", boot=OLD), advertise("w1", "x"), ticks(8))
    silent_story.when(outage(3600), tick()).then("log silent for 3600 s")
    assert silent_story.connected() == ["w1"], "no keepalive could be written"
    assert holders(silent_story, "x") == ["w1"]
    silent_story.when(ticks(2)).then("w1 out: timeout", "w1 wiped: disconnected")


def test_a_healthy_worker_is_not_evicted_by_an_outage_of_log_and_scheduler(silent_story):
    silent_story.given(connect("w1", boot=OLD), advertise("w1", "x"), ticks(8), restart())
    silent_story.when(outage(3600), keepalive("w1"))
    silent_story.then("log silent for 3600 s", "w1 confirmed")
    silent_story.when(ticks(8)).then()
    assert holders(silent_story, "x") == ["w1"]
