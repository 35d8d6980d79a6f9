"""The flap detector (6.6): an endpoint whose process restarts over and over is warned of, whatever its disconnects do."""

import pytest

from events import events as e
from tests.stories.client_words import of_kind
from tests.stories.locality_words import advertise, row, view
from tests.stories.notation import advance, alive, configure, connect, gone, restart


def flaps(story):
    """Warnings so far: (changes, within_s)."""
    return [(event.changes, event.within_us / 1_000_000) for event in of_kind(story, e.WorkerFlapping)]


def boots(story, *epochs, every_s=1.0, crash=False):
    """Another process at w1 each time, which is heard; with `crash` the connection of the last one ends, and that is cleaned up, first."""
    for epoch in epochs:
        if crash and "w1" in story.connected():
            story.given(gone("w1"))
            assert row(story, "w1").connection_id == 0, "the clean-up is complete"
        story.given(alive(every_s), connect("w1", boot=epoch))


def test_worker_flap_detection_fires_warn_and_respects_cooldown(story):
    boots(story, 1, 2, 3)
    assert flaps(story) == [], "two changes are no storm"
    boots(story, 4)
    assert flaps(story) == [(3, 2.0)], "the third change within 300 s warns, once"
    boots(story, 5, every_s=59.999)
    assert len(flaps(story)) == 1, "within 60 s there is no second warning"
    boots(story, 6, every_s=0.001)
    assert len(flaps(story)) == 2, "after exactly 60 s there is"
    assert (view(story, "w1").flaps, view(story, "w1").flap_changes) == (2, 3)


def test_worker_flap_window_evicts_stale_entries(story):
    boots(story, *range(1, 12), every_s=400)
    assert flaps(story) == []
    assert len(of_kind(story, e.WorkerAdmitted)) == 11


def test_a_change_of_exactly_the_window_ago_still_counts(story):
    story.given(connect("w1", boot=1))
    boots(story, 2, 3, every_s=100)
    story.given(advance(100))
    boots(story, 4, every_s=100)
    assert flaps(story) == [(3, 300.0)], "older ones are dropped, strictly (F-2)"


def test_a_change_a_moment_before_the_window_does_not_count(story):
    boots(story, 1, 2, 3, every_s=100)
    boots(story, 4, every_s=200.000001)
    assert flaps(story) == []


def test_worker_flap_same_epoch_reconnects_dont_count(story):
    boots(story, 1, 1, 1, 1, 1, 1)
    assert flaps(story) == []
    assert row(story, "w1").changes == ()


def test_same_epoch_reconnects_between_changes_do_not_warn_again(story):
    story.given(configure(locality={"flap_cooldown_s": 0}))
    boots(story, 1, 2, 3, 4)
    story.given(connect("w1", boot=4), connect("w1", boot=4))
    assert len(flaps(story)) == 1, "they are no changes, even at the very time of one (F-4)"


def test_a_process_without_an_epoch_counts_at_every_connect_but_the_first(story):
    boots(story, 0, 0, 0)
    assert flaps(story) == []
    boots(story, 0)
    assert flaps(story) == [(3, 2.0)]


def test_worker_flap_detection_survives_disconnect_cleanup(story):
    boots(story, 1, 2, 3, crash=True)
    assert flaps(story) == []
    boots(story, 4, crash=True)
    assert flaps(story) == [(3, 2.0)], "the loop of a process that runs out of memory is what the warning is for"


@pytest.mark.parametrize("grace_s", [0, 10])
def test_an_endpoint_that_is_soon_forgotten_keeps_its_flaps_as_long_as_they_count(story, grace_s):
    """F-1: no clean-up touches them, the sweep of the endpoint included."""
    story.given(configure(locality={"never_reconnect_s": grace_s}), connect("w1", boot=1))
    for epoch in (2, 3, 4):
        story.given(connect("w1", boot=epoch), advertise("w1", "x"), gone("w1"), advance(90))
    assert flaps(story) == [(3, 180.0)]
    story.given(advance(209))
    assert row(story, "w1") is not None
    story.when(advance(2)).then("w1 swept: gone")
    assert row(story, "w1") is None


def test_flaps_are_remembered_over_a_restart_and_none_is_warned_of_twice(story):
    boots(story, 1, 2, 3)
    story.given(restart())
    boots(story, 4)
    story.given(restart(), alive(1))
    assert flaps(story) == [(3, 2.0)]


def test_a_fast_flapper_leaves_no_growing_list(story):
    boots(story, *range(1, 200), every_s=0.01)
    assert len(row(story, "w1").changes) == 3, "as many as the warning asks for (F-6)"
    assert len(flaps(story)) == 1


def test_each_endpoint_flaps_alone(story):
    for epoch in range(1, 4):
        for endpoint in ("w1", "w2"):
            story.given(advance(1), connect(endpoint, boot=epoch))
    assert flaps(story) == []


def test_threshold_window_and_cooldown_are_options(story):
    options = {"flap_threshold": 2, "flap_window_s": 10, "flap_cooldown_s": 5}
    story.given(configure(locality=options))
    boots(story, 1, 2, every_s=4)
    assert flaps(story) == []
    boots(story, 3, every_s=4)
    assert flaps(story) == [(2, 4.0)]
    boots(story, 4, every_s=4.9)
    boots(story, 5, every_s=0.1)
    assert len(flaps(story)) == 2
    boots(story, 6, every_s=10.1)
    assert len(flaps(story)) == 2
