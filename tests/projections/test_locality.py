"""What endpoints hold: reports, wipes, sweeps and pins as rows, the answers from them, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from events import events as e
from events.reasons import WipeCause
from events.values import Digest
from projections import keys, locality
from projections.locality_fold import LOCALITY_FOLDS
from projections.rows import MemoryRows
from projections.table import MissingRow, Table
from proto.gen.headway.v1.rows_pb2 import LocalityRow
from tests.projections.endpoints import Endpoints, blob


@pytest.fixture
def ends() -> Endpoints:
    ends = Endpoints()
    ends.connect("a")
    ends.connect("b")
    return ends


def test_what_a_delta_names_is_held_beside_what_was_there(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True)
    ends.report("a", 2, (2, 3))
    assert ends.held("a") == {1, 2, 3}
    assert ends.view("a").blobs == 3
    assert ends.held("b") == set()


def test_what_a_full_report_does_not_name_goes_with_its_last_chunk_and_not_before(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2, 3), full=True)
    ends.report("a", 2, (2, 4), full=True, last=False)
    assert ends.held("a") == {1, 2, 3, 4}
    assert (ends.view("a").blobs, ends.view("a").named_since) == (4, 2)
    ends.report("a", 2, (5,), chunk=1, full=True, last=False)
    assert ends.held("a") == {1, 2, 3, 4, 5}
    ends.report("a", 2, (2, 6), chunk=2, full=True)
    assert ends.held("a") == {2, 4, 5, 6}
    assert (ends.view("a").blobs, ends.view("a").named_since) == (4, 0)


def test_an_empty_full_report_takes_everything(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True)
    ends.report("a", 2, full=True)
    assert ends.held("a") == set()
    assert ends.stats().pairs == 0


def test_a_newer_report_abandons_an_unfinished_one_and_what_it_named_stays(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True)
    ends.report("a", 2, (3,), full=True, last=False, pins=(7,))
    ends.report("a", 3, (4,))
    assert ends.held("a") == {1, 2, 3, 4}
    assert ends.pins("a") == set()
    ends.report("a", 4, (5,), full=True, last=False)
    ends.report("a", 5, (6,), full=True)
    assert ends.held("a") == {6}


def test_a_full_report_that_a_lost_connection_left_unfinished_takes_nothing(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True)
    ends.report("a", 2, (3,), full=True, last=False)
    assert ends.view("a").named_since == 1
    ends.connect("a", connection=2)
    assert ends.view("a").named_since == 0
    ends.report("a", 1, (4,))
    assert ends.held("a") == {1, 2, 3, 4}
    assert ends.view("a").report == 1


def test_evicted_blobs_and_those_a_peer_did_not_get_are_not_held(ends: Endpoints) -> None:
    for name in ("a", "b"):
        ends.report(name, 1, (1, 2, 3), full=True)
    ends.evict("a", 1, 1, 9)
    ends.miss("a", 2)
    ends.miss("a", 8)
    assert ends.held("a") == {3}
    assert ends.held("b") == {1, 2, 3}
    assert ends.view("a").blobs == 1
    assert ends.stats().pairs == 4
    ends.report("a", 2, (1,))
    assert ends.held("a") == {1, 3}


def test_what_is_evicted_while_a_full_report_is_under_way_is_gone_after_it(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True)
    ends.report("a", 2, (1, 2, 3), full=True, last=False)
    ends.evict("a", 1, 3)
    ends.report("a", 2, (4,), chunk=1, full=True)
    assert ends.held("a") == {2, 4}
    assert ends.view("a").blobs == 2


def test_holders_are_told_with_where_to_fetch_it_and_whether_they_are_confirmed(ends: Endpoints) -> None:
    ends.report("a", 1, (1,), full=True)
    ends.report("b", 1, (1,), full=True)
    ends.connect("c", instance="night")
    ends.report("c", 1, (1,), instance="night")
    ends.elect()
    ends.fold(e.EndpointConfirmed, instance="main", endpoint="b", boot_epoch=1)
    found = locality.holders(ends.rows, 0, blob(1))
    assert [(h.instance, h.endpoint, h.confirmed, h.connected, h.blobs_url) for h in found] == [
        ("main", "a", False, True, "http://a:80"),
        ("main", "b", True, True, "http://b:80"),
        ("night", "c", False, True, "http://c:80"),
    ]
    assert ends.holders(1) == ["a", "b"]
    assert ends.holders(2) == []
    assert ends.stats().unconfirmed == 2


def test_digests_of_one_hash_and_other_sizes_or_lengths_are_others(ends: Endpoints) -> None:
    ends.report("a", 1, (1,))
    assert locality.holders(ends.rows, 0, Digest(blob(1).hash, 2)) == []
    assert locality.holders(ends.rows, 0, Digest(blob(1).hash[:-1], 1)) == []
    assert locality.holders(ends.rows, 0, Digest(blob(1).hash + b"\0", 1)) == []


@pytest.mark.parametrize("cause", [WipeCause.EPOCH_CHANGED, WipeCause.NO_EPOCH, WipeCause.DISCONNECTED])
def test_a_wipe_takes_blobs_pins_and_the_mirrors_state_of_one_endpoint_in_one_step(
    ends: Endpoints, cause: WipeCause
) -> None:
    for name in ("a", "b"):
        ends.report(name, 1, (1, 2), full=True, pins=(3,), mirror=(1, 2, 3))
    ends.wipe("a", cause=cause)
    assert (ends.held("a"), ends.pins("a"), ends.holders(1)) == (set(), set(), ["b"])
    view = ends.view("a")
    assert (view.blobs, view.pins, view.mirror_pending, view.mirror_pinned, view.mirror_pinned_bytes) == (0,) * 5
    assert (view.wipes, view.wiped, view.wiped_epoch) == (1, cause, 1)
    assert (ends.held("b"), ends.pins("b"), ends.view("b").mirror_pinned_bytes) == ({1, 2}, {3}, 3)
    ends.connect("a", epoch=2, connection=2)
    assert ends.held("a") == set()
    ends.report("a", 1, (2,), pins=(4,))
    assert (ends.held("a"), ends.pins("a")) == ({2}, {4})


def test_a_connection_of_the_same_epoch_keeps_everything(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True, pins=(3,), mirror=(1, 2, 3))
    ends.connect("a", connection=2)
    assert (ends.held("a"), ends.pins("a"), ends.view("a").mirror_pending) == ({1, 2}, {3}, 1)


def test_a_disconnection_leaves_the_row_and_its_epoch_and_takes_nothing_by_itself(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True)
    ends.disconnect("a")
    view = ends.view("a")
    assert (view.connected, view.boot_epoch, view.blobs, view.disconnected_at_us) == (False, 1, 2, 5_000_000)
    assert ends.stats().connected == 1


def test_a_swept_endpoint_is_forgotten_and_comes_back_as_a_new_one(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True, pins=(3,))
    ends.report("b", 1, (1,), full=True)
    number = ends.number("a")
    ends.disconnect("a")
    ends.sweep("a")
    assert locality.endpoint(ends.rows, 0, "main", "a") is None
    assert (ends.held("a"), ends.pins("a"), ends.holders(1), ends.stats().endpoints) == (set(), set(), ["b"], 1)
    assert (ends.stats().pairs, ends.stats().pins, ends.stats().garbage) == (1, 0, 2)
    ends.connect("a")
    assert ends.number("a") != number
    assert ends.held("a") == set()
    ends.report("a", 1, (2,))
    assert (ends.held("a"), ends.holders(2), ends.holders(1)) == ({2}, ["a"], ["b"])


def test_a_swept_endpoint_that_is_connected_keeps_its_row(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2), full=True)
    ends.sweep("a")
    assert (ends.view("a").connected, ends.held("a"), ends.stats().endpoints) == (True, set(), 2)


def test_pins_of_a_report_replace_the_set_with_its_last_chunk(ends: Endpoints) -> None:
    ends.report("a", 1, pins=(1, 2))
    assert ends.pins("a") == {1, 2}
    ends.report("a", 2, pins=(2, 3), last=False)
    ends.report("a", 2, chunk=1, last=False)
    assert (ends.pins("a"), ends.view("a").pins) == ({1, 2}, 2)
    ends.report("a", 2, pins=(4,), chunk=2)
    assert (ends.pins("a"), ends.view("a").pins, ends.stats().pins) == ({2, 3, 4}, 3, 3)
    assert ends.stored(keys.PINS) == 2
    ends.report("a", 3, (9,))
    assert (ends.pins("a"), ends.stats().pins, ends.stored(keys.PINS)) == (set(), 0, 0)


def test_pins_are_not_held_blobs_and_held_blobs_are_not_pinned(ends: Endpoints) -> None:
    ends.report("a", 1, (1,), pins=(2,))
    assert (ends.held("a"), ends.pins("a"), ends.holders(2)) == ({1}, {2}, [])


def test_a_blob_that_is_named_again_counts_once(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 1, 2), full=True)
    ends.report("a", 2, (2, 2, 3))
    ends.report("b", 1, (1,))
    assert (ends.view("a").blobs, ends.view("b").blobs, ends.stats().pairs) == (3, 1, 4)
    ends.wipe("a")
    ends.report("a", 3, (1,))
    assert (ends.view("a").blobs, ends.stats().pairs, ends.stats().garbage) == (1, 2, ends.garbage_stored())


def _wiped(ends: Endpoints) -> None:
    ends.wipe("a")


def _swept(ends: Endpoints) -> None:
    ends.disconnect("a")
    ends.sweep("a")


def _replaced(ends: Endpoints) -> None:
    ends.report("a", 9, (), full=True)


@pytest.mark.parametrize("lose", [_wiped, _swept, _replaced])
def test_ticks_clean_what_is_lost_to_the_last_row(ends: Endpoints, lose: Callable[[Endpoints], None]) -> None:
    for report in range(1, 4):
        ends.report("a", report, range(1000 * report, 1000 * report + 4096), pins=(1,))
    ends.report("b", 1, (1, 1000), full=True)
    lose(ends)
    assert ends.stats().garbage == ends.garbage_stored() == 6096
    before = 6096
    for _ in range(3):
        ends.tick()
        assert ends.stats().garbage == ends.garbage_stored() < before
        before = ends.stats().garbage
    ends.tick(2)
    assert (ends.stats().garbage, ends.stored(keys.PAIR), ends.stored(keys.CHUNK)) == (0, 2, 1)
    assert (ends.stored(keys.PINS), ends.stored(keys.CLEANING)) == (0, 0)
    assert ends.stored(keys.INVENTORY) == (1 if lose is _swept else 2)
    assert ends.held("b") == {1, 1000}


def test_the_chunks_of_a_report_that_names_all_again_are_cleaned_without_a_look_at_their_blobs(ends: Endpoints) -> None:
    for report in (1, 2):
        for chunk in range(8):
            numbers = range(4096 * chunk, 4096 * chunk + 4096)
            ends.report("a", report, [n + 1 for n in numbers], chunk=chunk, last=chunk == 7, full=True)
    ends.tick()
    assert (ends.stored(keys.CHUNK), ends.stored(keys.PAIR), ends.stats().garbage) == (8, 8 * 4096, 0)


def test_a_tick_cleans_no_more_than_a_chunk_beyond_its_share(ends: Endpoints) -> None:
    for report in range(1, 9):
        ends.report("a", report, range(4096 * report, 4096 * report + 4096))
    ends.wipe("a")
    for _ in range(8):
        before = ends.stats().garbage
        ends.tick()
        assert 0 < before - ends.stats().garbage <= 2 * 4096
    ends.tick()
    assert ends.stats().garbage == 0


def test_reports_clean_as_much_as_they_name(ends: Endpoints) -> None:
    for report in range(1, 9):
        ends.report("a", report, range(4096 * report, 4096 * report + 4096))
    ends.wipe("a")
    for report in range(1, 11):
        ends.report("b", report, range(4096 * report, 4096 * report + 4096))
    assert (ends.stats().garbage, ends.garbage_stored(), ends.stored(keys.CHUNK)) == (0, 0, 10)


def test_blobs_that_come_and_go_do_not_pile_up(ends: Endpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.inventory.SPARE_DIGESTS", 20)
    ends.report("a", 1, range(1, 11), full=True)
    most = 0
    for number in range(200):
        ends.report("a", number + 2, (100 + number % 7, 200 + number))
        ends.evict("a", 100 + number % 7, 200 + number)
        ends.tick()
        most = max(most, ends.stored(keys.CHUNK))
    assert ends.held("a") == set(range(1, 11))
    assert most < 60
    assert ends.stored(keys.PAIR) == 10
    assert (ends.stats().pairs, ends.stats().garbage) == (10, 0)


def test_cleaning_waits_while_a_full_report_is_under_way(ends: Endpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.inventory.SPARE_DIGESTS", 0)
    ends.report("a", 1, range(1, 9), full=True)
    ends.report("a", 2, (9,), full=True, last=False)
    ends.evict("a", *range(1, 8))  # nine are listed, two count
    ends.tick(3)
    assert ends.stored(keys.CHUNK) == 2
    ends.report("a", 2, (4,), chunk=1, full=True)
    assert ends.held("a") == {4, 9}


def test_what_does_not_count_any_more_cannot_be_evicted_again(ends: Endpoints) -> None:
    ends.report("a", 1, (1, 2, 3))
    ends.wipe("a")
    ends.evict("a", 1)
    ends.miss("a", 2)
    assert (ends.view("a").blobs, ends.view("a").garbage, ends.stats().garbage) == (0, 3, 3)
    ends.tick()
    assert (ends.stats().garbage, ends.stored(keys.PAIR)) == (0, 0)


def test_what_no_cleaning_needed_is_not_saved_up(ends: Endpoints) -> None:
    ends.report("a", 1, (1,))
    ends.wipe("a")
    ends.tick()
    row = ends.table.find(ends.table.key(keys.LOCALITY), LocalityRow)
    assert row is not None
    assert row.credit == 0


def test_chunks_of_stable_blobs_are_owed_by_who_was_connected_until_acknowledged(ends: Endpoints) -> None:
    ends.connect("c", instance="night")
    ends.stable(1, 2)
    first = ends.table.shard.seq
    ends.stable(3)
    ends.disconnect("b")
    ends.stable(4)
    assert (ends.view("a").unacknowledged, ends.view("b").unacknowledged) == (3, 2)
    assert ends.view("c", "night").unacknowledged == 0
    ends.acknowledge("a", first)
    ends.connect("a", connection=2)
    assert (ends.view("a").unacknowledged, ends.view("a").acknowledged) == (2, 1)
    ends.connect("b", connection=2)
    ends.stable(5)
    assert (ends.view("a").unacknowledged, ends.view("b").unacknowledged) == (3, 3)
    ends.fold(e.StableChunksDropped, instance="main", endpoint="b", through_seq=first, chunks=1)
    assert (ends.view("b").unacknowledged, ends.view("b").chunks_dropped) == (2, 1)
    stats = ends.stats()
    assert (stats.unacknowledged, stats.stable_chunks, stats.stable_digests, stats.stable_broadcasts) == (5, 4, 5, 4)


def test_another_epoch_owes_nothing_and_a_disconnection_alone_clears_nothing(ends: Endpoints) -> None:
    ends.report("a", 1, (1,))
    ends.stable(1)
    ends.disconnect("a")
    ends.wipe("a", cause=WipeCause.DISCONNECTED)
    assert ends.view("a").unacknowledged == 1
    ends.wipe("a", cause=WipeCause.EPOCH_CHANGED)
    ends.connect("a", epoch=2)
    assert (ends.view("a").unacknowledged, ends.view("b").unacknowledged) == (0, 1)
    ends.stable(2)
    assert ends.view("a").unacknowledged == 1


def test_flaps_are_on_the_row_whatever_becomes_of_the_connection(ends: Endpoints) -> None:
    for connection in (2, 3):
        ends.fold(e.WorkerFlapping, instance="main", endpoint="a", changes=3 + connection, within_us=70)
        ends.disconnect("a")
        ends.connect("a", connection=connection)
    view = ends.view("a")
    assert (view.flaps, view.flap_changes, view.flap_within_us) == (2, 6, 70)
    assert view.flapped_at_us == 7_000_000


def test_an_endpoint_with_nothing_to_lose_is_not_unconfirmed(ends: Endpoints) -> None:
    ends.report("a", 1, (1,))
    ends.elect()
    assert (ends.view("a").confirmed, ends.view("b").confirmed, ends.stats().unconfirmed) == (False, True, 1)
    ends.stable(1)
    assert ends.view("b").confirmed is False
    ends.connect("a", connection=2)
    assert ends.view("a").confirmed is True


def test_an_event_of_an_unknown_endpoint_stops_the_fold_with_its_name(ends: Endpoints) -> None:
    with pytest.raises(MissingRow, match="endpoint main/nobody"):
        ends.report("nobody", 1, (1,))


def test_what_is_discarded_was_never_there(ends: Endpoints) -> None:
    ends.report("a", 1, (1,))
    ends.flush_always = False
    ends.report("a", 2, (2,), pins=(3,), full=True)
    ends.table.discard()
    assert (ends.held("a"), ends.pins("a")) == ({1}, set())


def test_the_table_keeps_no_pairs_once_they_are_written() -> None:
    rows = MemoryRows()
    ends = Endpoints(rows, flush_always=False)
    ends.connect("a")
    for report in range(1, 9):
        ends.report("a", report, range(4096 * report, 4096 * report + 4096))
        assert ends.table.full == (report == 8)
    ends.table.flush()
    assert not ends.table.full
    assert len(ends.table.cached) < 10
    assert len(ends.table._passing) == 0


def test_locality_folds_touch_no_rows_of_others(ends: Endpoints) -> None:
    ends.report("a", 1, (1,), pins=(2,))
    ends.wipe("a")
    assert isinstance(ends.rows, MemoryRows)
    letters = {key[4:5] for key in ends.rows.by_key}
    own = {keys.PAIR, keys.CHUNK, keys.PINS, keys.STABLE, keys.ENDPOINT, keys.CLEANING, keys.LOCALITY, keys.INVENTORY}
    assert letters <= own | {keys.SHARD}


def test_rows_of_blobs_are_readable_in_reports_of_differences(ends: Endpoints) -> None:
    ends.report("a", 1, (1,), pins=(2,))
    ends.wipe("a")
    assert isinstance(ends.rows, MemoryRows)
    said = {keys.readable(key) for key in ends.rows.by_key}
    assert f"shard 0 blob {blob(1)} of inventory 1" in said
    assert "shard 0 chunk of blobs 0 of inventory 1" in said
    assert {"shard 0 endpoint main/a", "shard 0 inventory 1", "shard 0 locality"} <= said


def test_every_locality_fold_is_of_an_event() -> None:
    assert set(LOCALITY_FOLDS) <= set(e.EVENT_KINDS.values())


def test_a_table_without_endpoints_answers_nothing() -> None:
    rows = MemoryRows()
    Table(rows, 0).flush()
    assert locality.holders(rows, 0, blob(1)) == []
    assert locality.endpoint(rows, 0, "main", "a") is None
    assert locality.stats(rows, 0).pairs == 0
