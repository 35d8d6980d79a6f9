"""Boot epochs and connection ownership (6.1 to 6.3, 6.5): what another process at an endpoint takes with it, and what a late end does not.

In these stories the old connection is open unless it is said to end: no WorkerGone and no timeout before the new connect, so only the
connect itself can wipe.
"""

from dataclasses import asdict

import pytest

from events import events as e
from events.reasons import WipeCause
from proto.gen.headway.v1 import commands_pb2
from tests.reference.rows import plain_row
from tests.stories.client_words import of_kind
from tests.stories.locality_words import (
    advertise,
    everything,
    gone_on,
    held,
    holders,
    pinned,
    row,
    view,
)
from tests.stories.notation import advance, alive, configure, connect, gone, keepalive

OLD, NEW = 1111, 2222


@pytest.fixture
def holding(story):
    """The process 1111 of w1 holds x and y, pins p, and mirrors something; w2 holds x and pins q."""
    story.given(connect("w1", boot=OLD), connect("w2", boot=7))
    story.given(advertise("w1", "x", "y", pins=("p",), mirror=(1, 2, 300), full=True))
    return story.given(advertise("w2", "x", pins=("q",), full=True))


def test_boot_epoch_same_preserves_locality_entries(holding):
    old = holding.connections["w1"]
    holding.when(connect("w1", boot=OLD), gone_on("w1", old))
    holding.then("w1 admitted again", "WorkerGone ignored: stale_connection")
    assert held(holding, "w1") == ["x", "y"], (
        "a stream that drops for a moment costs nothing (E3), nor does its late end (O2)"
    )
    assert pinned(holding, "w1") == ["p"]
    assert holders(holding, "x") == ["w1", "w2"]


def test_boot_epoch_different_wipes_locality_entries(holding):
    assert holders(holding, "x") == ["w1", "w2"]
    holding.when(connect("w1", boot=NEW)).then("w1 wiped: epoch_changed", "w1 admitted")
    assert holders(holding, "x") == ["w2"], (
        "a new process holds nothing of the old one's, and nobody else lost anything"
    )
    assert held(holding, "w1") == []
    assert view(holding, "w1").wiped_epoch == OLD


def test_boot_epoch_zero_legacy_wipes_locality_entries(story):
    story.given(connect("w1", boot=0), advertise("w1", "x", full=True))
    assert held(story, "w1") == ["x"]
    story.when(connect("w1", boot=0)).then("w1 wiped: no_epoch", "w1 admitted")
    assert held(story, "w1") == [], "0 is no epoch: two processes without one cannot be told apart"


@pytest.mark.parametrize(("before", "after"), [(0, NEW), (OLD, 0)])
def test_an_epoch_next_to_none_is_another_process(story, before, after):
    story.given(connect("w1", boot=before), advertise("w1", "x", full=True), connect("w1", boot=after))
    assert held(story, "w1") == []


def test_boot_epoch_new_blobs_survive_old_disconnect_cleanup(holding):
    old = holding.connections["w1"]
    holding.given(connect("w1", boot=NEW), advertise("w1", "z", pins=("r",), full=True))
    holding.when(gone_on("w1", old)).then("WorkerGone ignored: stale_connection")
    assert held(holding, "w1") == ["z"], "the end of the old connection is not the end of the endpoint (O1)"
    assert pinned(holding, "w1") == ["r"]
    assert holding.connected() == ["w1", "w2"]


def test_boot_epoch_wipe_clears_dispatcher_state(holding):
    before = view(holding, "w1")
    assert (before.mirror_pending, before.mirror_pinned, before.mirror_pinned_bytes) == (1, 2, 300)
    holding.given(connect("w1", boot=NEW))
    after = view(holding, "w1")
    shown = (after.mirror_pending, after.mirror_pinned, after.mirror_pinned_bytes)
    assert shown == (0, 0, 0), "what (w1, 1111) queued and pinned is not that of (w1, 2222) (Q-1)"


def test_boot_epoch_wipe_does_not_clear_new_epoch_state(holding):
    holding.given(connect("w1", boot=NEW), advertise("w1", "z", pins=("r",), mirror=(3, 4, 500), full=True), alive(20))
    after = view(holding, "w1")
    assert (after.mirror_pending, after.mirror_pinned, after.mirror_pinned_bytes) == (3, 4, 500)
    assert (after.blobs, after.pins, after.boot_epoch) == (1, 1, NEW)
    assert [event.boot_epoch for event in of_kind(holding, e.LocalityWiped)] == [OLD], "only the old epoch was wiped"


def test_boot_epoch_different_wipes_ac_registry(holding):
    assert pinned(holding, "w1") == ["p"]
    holding.given(connect("w1", boot=NEW))
    assert pinned(holding, "w1") == [], "the connect itself takes the pins, the old connection being open (A-2)"


def test_boot_epoch_wipe_of_endpoint_a_does_not_clear_endpoint_b(holding):
    holding.given(connect("w1", boot=NEW))
    assert pinned(holding, "w2") == ["q"], "only the endpoint that came back as another process loses its pins"
    assert held(holding, "w2") == ["x"]
    assert pinned(holding, "w1") == []
    assert held(holding, "w1") == []


def test_boot_epoch_wipe_does_not_block_repopulation(holding):
    holding.given(connect("w1", boot=NEW))
    assert pinned(holding, "w1") == [], "before its first report a new process pins nothing"
    holding.given(advertise("w1", "z", pins=("fresh",), full=True))
    pins = pinned(holding, "w1")
    assert "fresh" in pins, "a wipe does not stand in the way of the next report"
    assert pins == ["fresh"], "nothing of the old process is back with it"


def test_worker_disconnect_wipes_ac_registry(holding):
    holding.when(gone("w1")).then("w1 out: gone", "w1 wiped: disconnected")
    assert pinned(holding, "w2") == ["q"], "only the endpoint whose connection ended"
    assert pinned(holding, "w1") == []
    assert held(holding, "w1") == []
    assert holders(holding, "x") == ["w2"]


def test_a_timeout_is_the_end_of_the_owning_connection_too(holding):
    holding.when(advance(10.5)).then(
        "w1 out: timeout", "w1 wiped: disconnected", "w2 out: timeout", "w2 wiped: disconnected"
    )
    assert holders(holding, "x") == []


def test_the_wipe_and_the_new_owner_are_one_step_before_anything_the_new_process_says(holding):
    holding.given(connect("w1", boot=NEW), advertise("w1", "z"))
    kinds = (e.LocalityWiped, e.WorkerAdmitted, e.BlobsAvailable)
    last = [event for event in holding.every_event() if isinstance(event, kinds)][-3:]
    assert [type(event) for event in last] == list(kinds)
    wiped, admitted, advertised = last
    assert wiped.cause_offset == admitted.cause_offset < advertised.cause_offset, "one fact, one step (E4)"
    assert (wiped.cause, wiped.boot_epoch, admitted.boot_epoch) == (WipeCause.EPOCH_CHANGED, OLD, NEW)
    assert held(holding, "w1") == ["z"]


def test_what_the_old_connection_says_after_the_takeover_changes_nothing(holding):
    old = holding.connections["w1"]
    holding.given(connect("w1", boot=NEW), advertise("w1", "z", full=True))
    before = held(holding, "w1"), pinned(holding, "w1"), view(holding, "w1")
    holding.when(advertise("w1", "x", "y", pins=("p",), report=9, full=True, connection=old))
    holding.then("BlobsAvailable ignored: stale_connection")
    assert (held(holding, "w1"), pinned(holding, "w1"), view(holding, "w1")) == before


def test_a_worker_of_another_build_is_refused_and_takes_nothing_with_it(story):
    """W16: a refused connect is no takeover."""
    story.given(configure(compatible_builds=["", "1.2"]), connect("w1", boot=OLD), advertise("w1", "x", pins=("p",)))
    story.given(connect("w2", boot=7, build="1.2"))
    owner = row(story, "w1").connection_id
    line = "WorkerConnected build rejected: incompatible_build"
    changes_nothing_but_the_refusal(story, connect("w1", boot=NEW, build="1.1"), line)
    assert (row(story, "w1").connection_id, row(story, "w1").boot_epoch) == (owner, OLD)
    assert (held(story, "w1"), pinned(story, "w1")) == (["x"], ["p"])


def changes_nothing_but_the_refusal(story, step, line):
    """As for any bad fact, but that the worker is told why."""
    before, records = everything(story), len(story.rehearsal.outbounds)
    story.when(step).then(line)
    after = everything(story)
    assert {key[4:5] for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == {b"!", b"a"}
    (told,) = story.rehearsal.outbounds[records:]
    refused = commands_pb2.WorkerCommand.FromString(told.value).refused
    assert (refused.field, refused.value) == ("build", "1.1")


def test_a_first_connect_wipes_nothing(story):
    story.when(connect("w1", boot=OLD)).then("w1 admitted")


def test_the_last_epoch_outlives_the_connection(story):
    story.given(connect("w1", boot=OLD), advertise("w1", "x"), gone("w1"))
    found = row(story, "w1")
    assert (found.connection_id, found.boot_epoch, found.advertised) == (0, OLD, False)
    story.when(connect("w1", boot=OLD)).then("w1 admitted")
    assert held(story, "w1") == [], "what a disconnect wiped comes back with the next report only"


def test_nothing_of_an_old_epoch_is_left_in_any_row(story):
    """Q-1: every row of the core and of the read side equals that of a fleet in which the old process never held anything."""

    def told(*of_the_old):
        world = type(story)()
        world.given(connect("w1", boot=OLD), connect("w2", boot=7), advertise("w2", "x", pins=("q",), full=True))
        world.given(*of_the_old)
        world.given(alive(1), connect("w1", boot=NEW), advertise("w1", "z", pins=("r",), full=True), alive(20))
        return world

    full = advertise("w1", *range(300), pins=("p",), mirror=(1, 2, 300), full=True)
    chunks = [advertise("w1", f"c{n}", pins=(f"p{n}",), report=2, chunk=n, last=False, full=True) for n in range(3)]
    spoken, silent = told(full, *chunks), told()
    rows = everything(spoken)
    left = [
        key for key, value in rows.items() for trace in (b"...0", b"..c0", b"...p", b"..p0") if trace in key + value
    ]
    assert left == [], "a digest that only the old process named stands nowhere"
    old = OLD.to_bytes(8, "little")
    assert [key for key, value in rows.items() if old in value and key[4:5] != b"e"] == []
    shown, expected = asdict(view(spoken, "w1")), asdict(view(silent, "w1"))
    counted = {"wipes", "wiped", "wiped_at_us", "wiped_epoch"}  # that there was a wipe is said, and of which epoch
    assert {name for name in shown if shown[name] != expected[name]} == counted
    assert plain_row(row(spoken, "w1")) == plain_row(row(silent, "w1"))


def test_mirror_counters_are_those_of_the_endpoint_and_epoch_that_reported_them(story):
    """Q-2."""
    story.given(configure(locality={"small_blob_mirror": True}), connect("w1", boot=OLD), connect("w2", boot=OLD))
    story.given(advertise("w1", "x", mirror=(5, 6, 7000)), advertise("w2", "y", mirror=(1, 1, 100)))
    shown = [
        (v.endpoint, v.mirror_pending, v.mirror_pinned, v.mirror_pinned_bytes)
        for v in (view(story, "w1"), view(story, "w2"))
    ]
    assert shown == [("w1", 5, 6, 7000), ("w2", 1, 1, 100)]
    story.given(advertise("w1", "x", mirror=(0, 2, 2000)))
    assert (view(story, "w1").mirror_pending, view(story, "w1").mirror_pinned) == (0, 2), "the last report counts"
    story.given(connect("w1", boot=OLD))
    assert view(story, "w1").mirror_pinned == 2, "the same process still pins"
    story.given(connect("w1", boot=NEW))
    assert (view(story, "w1").mirror_pinned, view(story, "w2").mirror_pinned) == (0, 1)
    story.given(gone("w2"))
    assert view(story, "w2").mirror_pinned == 0


def test_workers_are_told_whether_to_mirror(story):
    story.given(connect("w1"), configure(locality={"small_blob_mirror": True}), connect("w2"), keepalive("w1"))
    told = [commands_pb2.WorkerCommand.FromString(out.value) for out in story.rehearsal.outbounds]
    assert [
        (command.endpoint, command.admitted.small_blob_mirror) for command in told if command.HasField("admitted")
    ] == [
        ("w1", False),
        ("w2", True),
    ]
