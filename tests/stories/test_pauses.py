"""Pauses, declines and what a worker reports: when it is given work again (B1-B6, V1, V2, W8, W9)."""

import pytest

from events.reasons import DeclineReason, RunResult
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    configure,
    connect,
    decline,
    drain,
    finish,
    keepalive,
    queue,
    remove,
    restart,
    submit,
    undrain,
)


def worker(story, endpoint="w1"):
    return story.rehearsal.shard.instances[MAIN].workers[endpoint]


def test_backpressure_pauses_an_idle_worker_until_its_next_keepalive(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8)).when(finish("a", RunResult.BACKPRESSURE))
    story.then("a requeued: backpressure")
    story.when(queue("b", cpu=1), advance(2)).then("b queued")
    story.when(keepalive("w1")).then("a to w1")


def test_a_decline_requeues_untried_and_holds_until_the_load_fits(story):
    story.given(connect("w1", cpu=8, memory=1000), queue("a", memory=100), queue("b", memory=500))
    story.when(decline("b", DeclineReason.MEMORY, 500, 300)).then("b requeued: declined")
    assert worker(story).resume_at_kib == 500
    story.when(keepalive("w1", 499)).then()
    assert story.counters("b") == (0, 0, 1)


def test_a_busy_worker_that_declined_a_size_takes_work_when_it_reports_so_much_free(story):
    story.given(connect("w1", cpu=8, memory=1000), queue("a", memory=100), queue("b", memory=500))
    story.given(decline("b", DeclineReason.MEMORY, 500, 300), keepalive("w1", 499)).when(keepalive("w1", 500)).then(
        "b to w1"
    )


def test_a_keepalive_without_a_load_ends_any_pause(story):
    story.given(connect("w1", cpu=8, memory=1000), queue("a", memory=100), queue("b", memory=500))
    story.given(decline("b", DeclineReason.MEMORY, 500, 300)).when(keepalive("w1")).then("b to w1")


def test_a_decline_from_an_idle_worker_lifts_and_is_not_offered_again(story):
    story.given(connect("w1", cpu=8, memory=1000), queue("a", memory=500))
    story.when(decline("a", DeclineReason.MEMORY, 500, 300)).then("a requeued: declined")
    story.when(keepalive("w1", 300)).then()
    assert worker(story).accepts()
    story.when(queue("small", memory=400)).then("small queued", "small to w1, overtaking a")
    story.when(finish("small"), keepalive("w1", 499)).then("small finished: completed")
    story.when(keepalive("w1", 500)).then("a to w1")


def test_a_keepalive_without_a_load_does_not_make_it_forget_what_it_refused_idle(story):
    story.given(connect("w1", memory=1000), queue("a", memory=500), decline("a", DeclineReason.MEMORY, 500, 300))
    story.when(keepalive("w1"), alive(60)).then()


def test_an_idle_worker_remembers_the_smallest_it_refused(story):
    story.given(connect("w1", memory=1000), queue("a", memory=500), decline("a", DeclineReason.MEMORY, 500, 100))
    story.given(keepalive("w1", 100), queue("b", memory=400), decline("b", DeclineReason.MEMORY, 400, 100))
    assert worker(story).idle_declined_kib == 400


def test_a_worker_that_admits_when_idle_gets_it_again_with_the_next_keepalive(story):
    story.given(connect("w1", memory=1000, admits_when_idle=True), queue("a", memory=500))
    story.given(decline("a", DeclineReason.MEMORY, 500, 100)).when(keepalive("w1", 100)).then("a to w1")
    assert worker(story).idle_declined_kib is None


def test_a_decline_without_a_size_is_an_ordinary_pause(story):
    story.given(connect("w1", memory=1000), queue("a", memory=500), decline("a", DeclineReason.FULL))
    story.when(keepalive("w1", 1)).then("a to w1")


def test_declines_and_their_sizes_outlive_a_restart(story):
    story.given(connect("w1", memory=1000), queue("x", memory=10), queue("a", memory=500))
    story.given(decline("a", DeclineReason.MEMORY, 500, 300), restart()).when(keepalive("w1", 499)).then()
    story.when(keepalive("w1", 500)).then("a to w1")


def test_a_reconnect_is_a_fresh_start(story):
    story.given(connect("w1", memory=1000), queue("a", memory=500), decline("a", DeclineReason.MEMORY, 500, 300))
    story.when(connect("w1", memory=1000)).then("w1 admitted again", "a to w1")


def test_draining_leaves_no_pause_behind(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=1), queue("b", cpu=1), drain("w1"), finish("a"))
    story.when(undrain("w1"), queue("c", cpu=1)).then("w1 undrained", "c queued", "c to w1")


def test_a_worker_at_its_limit_that_finishes_takes_the_next_at_once(story):
    story.given(connect("w1", cpu=8, inflight=2), queue("a", cpu=1), queue("b", cpu=1), queue("c", cpu=1))
    story.when(finish("a")).then("a finished: completed", "c to w1")


@pytest.fixture
def vetoed(story):
    """What a worker reports free counts, too; w1 registered 100 000 KiB."""
    return story.given(configure(live_memory_veto="memory_kib"), connect("w1", cpu=8, memory=100_000))


def test_the_veto_skips_a_worker_that_reports_no_room(vetoed):
    vetoed.given(keepalive("w1", 5_000)).when(queue("a", memory=6_000)).then("a queued")


def test_a_report_with_room_wakes_the_pass(vetoed):
    vetoed.given(keepalive("w1", 5_000), queue("a", memory=6_000)).when(keepalive("w1", 6_000)).then("a to w1")


def test_a_worker_that_never_reported_is_never_vetoed(vetoed):
    vetoed.when(queue("a", memory=60_000)).then("a queued", "a to w1")


def test_who_asks_for_the_whole_worker_is_exempt_from_the_veto(vetoed):
    vetoed.given(keepalive("w1", 5_000)).when(queue("a", memory=100_000)).then("a queued", "a to w1")


def test_an_idle_worker_that_admits_when_idle_is_exempt_from_the_veto(story):
    story.given(configure(live_memory_veto="memory_kib"), connect("w1", memory=100_000, admits_when_idle=True))
    story.given(keepalive("w1", 5_000)).when(queue("a", memory=6_000), queue("b", memory=6_000))
    story.then("a queued", "a to w1", "b queued")


def test_without_the_veto_what_it_reports_is_not_asked(story):
    story.given(connect("w1", memory=100_000), keepalive("w1", 5)).when(queue("a", memory=6_000)).then(
        "a queued", "a to w1"
    )


def test_a_report_remembers_what_was_lent_at_that_moment(vetoed):
    vetoed.given(queue("a", memory=10_000), keepalive("w1", 50_000), queue("b", memory=20_000))
    assert (worker(vetoed).lent_kib, worker(vetoed).idle_free_kib) == (10_000, None)
    vetoed.given(keepalive("w1"), finish("a"), finish("b"))
    assert (worker(vetoed).lent_kib, worker(vetoed).free_memory_kib) == (10_000, 50_000)
    vetoed.given(keepalive("w1", 70_000))
    assert (worker(vetoed).lent_kib, worker(vetoed).idle_free_kib) == (0, 70_000)


def test_no_more_than_so_many_dispatches_wait_to_be_accepted(story):
    story.given(configure(max_unaccepted_dispatches=2), connect("w1", cpu=8))
    story.when(queue("a", cpu=1), queue("b", cpu=1), queue("c", cpu=1))
    story.then("a queued", "a to w1", "b queued", "b to w1", "c queued")
    story.when(accept("a")).then("a accepted", "c to w1")


@pytest.mark.parametrize("end", [finish, decline])
def test_a_dispatch_that_ends_unaccepted_no_longer_waits_to_be(story, end):
    story.given(configure(max_unaccepted_dispatches=1), connect("w1", cpu=8), queue("a", cpu=1)).given(
        end("a"), keepalive("w1")
    )
    assert worker(story).unaccepted == (1 if end is decline else 0)
    story.given(queue("b", cpu=1))
    assert story.stage("b") == ("queued" if end is decline else "executing")


def test_a_limit_on_unaccepted_dispatches_counts_from_the_moment_it_is_configured(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=1), configure(max_unaccepted_dispatches=1))
    story.when(queue("b", cpu=1)).then("b queued")
    story.when(configure(), restart()).then("main configured", "b to w1", "leader 2 elected")


def test_a_full_worker_is_kept_and_others_are_given_the_work(story):
    story.given(configure(max_unaccepted_dispatches=1), connect("w1", cpu=8), connect("w2", cpu=8))
    story.when(queue("a", cpu=1), queue("b", cpu=1), queue("c", cpu=1))
    story.then("a queued", "a to w1", "b queued", "b to w2", "c queued")
    assert story.connected() == ["w1", "w2"]


def test_a_killed_dispatch_no_longer_waits_to_be_accepted(story):
    story.given(
        configure(max_unaccepted_dispatches=1), connect("w1", cpu=8), submit("a", cpu=1, attached=True), alive(61)
    )
    assert worker(story).unaccepted == 0
    story.when(remove("w1")).then("w1 out: removed")
