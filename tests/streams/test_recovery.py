"""Folding the log: what follows is folded, stale leaders are ignored, damage stops the reader with its position."""

from __future__ import annotations

import gc
import weakref

import pytest

from events.codec import GENESIS_CHAIN, encode_event
from events.decide import elect
from events.events import LeaderElected, Ticked
from events.state import Shard
from streams.errors import Refused
from streams.log import Outgoing, Record
from streams.recovery import (
    MANY_OBJECTS,
    DamagedLog,
    Fold,
    OtherLog,
    check_identity,
    fold_to_end,
    fold_to_seq,
    without_collection,
)
from streams.topics import EVENTS
from tests.streams.deciding import Cluster

EVENTS_0 = (EVENTS, 0)


def records(*leader_epochs: int) -> list[Record]:
    """A whole log: an election at every change of epoch, ticks otherwise."""
    chain, found, last = GENESIS_CHAIN, [], 0
    for offset, epoch in enumerate(leader_epochs):
        seq = offset + 1
        event = LeaderElected(seq, 0, 0, epoch) if epoch != last else Ticked(seq, seq * 10, offset)
        value, chain = encode_event(event, epoch, chain)
        found.append(Record(2 * offset, 0, None, value))  # holes: offsets are not counted with
        last = epoch
    return found


def test_a_whole_log_is_folded() -> None:
    fold = Fold(0)
    assert fold.apply(records(1, 1, 1, 2, 2)) == 5
    assert (fold.shard.seq, fold.shard.leader_epoch, fold.shard.position, fold.next_offset) == (5, 2, 4, 9)


def test_a_fold_in_pieces_is_the_same_fold() -> None:
    whole, pieces = Fold(0), Fold(0)
    log = records(1, 1, 2, 2, 3, 3)
    whole.apply(log)
    for record in log:
        pieces.apply([record])
    assert (pieces.chain, pieces.shard.seq, pieces.next_offset) == (whole.chain, whole.shard.seq, whole.next_offset)


def test_events_of_a_stale_leader_epoch_are_ignored_and_counted() -> None:
    log = records(1, 1, 2, 2)
    stale, _ = encode_event(Ticked(3, 0, 1), 1, log[1].value[-16:])  # what the first leader would have written next
    fold = Fold(0)
    fold.apply([*log[:3], Record(5, 0, None, stale), log[3]])
    assert (fold.stale, fold.shard.seq, fold.events) == (1, 4, 4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda log: [log[0], *log[2:]], "chain"),
        (lambda log: [log[1], *log], "chain"),
        (lambda log: [log[0], log[2], log[1], *log[3:]], "chain"),
        (
            lambda log: [*log[:2], log[2]._replace(value=log[2].value[:1] + b"\x7f" + log[2].value[2:]), *log[3:]],
            "chain",
        ),
        (lambda log: [*log[:2], log[2]._replace(value=b"not an event"), *log[3:]], "chain digest"),
        (lambda log: [*log[:2], log[2]._replace(value=b""), *log[3:]], "chain digest"),
    ],
    ids=["missing", "doubled", "swapped", "changed", "foreign", "empty"],
)
def test_damage_stops_the_fold_with_its_position(change, says) -> None:
    fold = Fold(3)
    with pytest.raises(DamagedLog, match=says) as caught:
        fold.apply(change(records(1, 1, 1, 1)))
    assert caught.value.partition == (EVENTS, 3)
    assert f"offset {caught.value.offset}" in str(caught.value)
    assert caught.value.seq == fold.shard.seq < 4


def test_a_right_chain_with_a_wrong_seq_is_damage() -> None:
    log = records(1)
    value, _ = encode_event(Ticked(3, 0, 0), 1, log[0].value[-16:])
    with pytest.raises(DamagedLog, match="HW-201"):
        Fold(0).apply([*log, Record(1, 0, None, value)])


def test_an_epoch_that_does_not_rise_is_damage() -> None:
    log = records(2)
    value, _ = encode_event(LeaderElected(2, 0, 0, 2), 2, log[0].value[-16:])
    with pytest.raises(DamagedLog, match="epochs only rise"):
        Fold(0).apply([*log, Record(1, 0, None, value)])


def test_an_event_the_state_has_no_place_for_is_damage() -> None:
    from events.events import OperationAccepted

    log = records(1)
    value, _ = encode_event(OperationAccepted(2, 0, 0, 99, 98), 1, log[0].value[-16:])
    with pytest.raises(DamagedLog, match="KeyError"):
        Fold(0).apply([*log, Record(1, 0, None, value)])


@pytest.mark.parametrize("what", ["cluster_id", "facts_topic_id", "events_topic_id"])
def test_another_log_is_refused_with_both_ids_and_the_remedy(what: str) -> None:
    ids = {"cluster_id": "c", "facts_topic_id": "f", "events_topic_id": "e"}
    shard = Shard()
    check_identity(shard, **ids)  # a log that never had a leader has no ids yet
    elect(shard, leader_epoch=1, **ids)
    check_identity(shard, **ids)
    with pytest.raises(OtherLog, match=r"'other'.*HEADWAY_TOPIC_PREFIX") as caught:
        check_identity(shard, **{**ids, what: "other"})
    assert caught.value.recorded == ids[what]


async def test_the_fold_ends_at_the_last_stable_offset() -> None:
    cluster = await Cluster.start()
    log = records(1, 1, 1)
    writer = await cluster.log.open("w")
    await writer.append({EVENTS_0: [Outgoing(record.value) for record in log[:2]]})
    cluster.log.fail_next_append(committed=None)
    with pytest.raises(Exception, match="outcome-unknown"):
        await writer.append({EVENTS_0: [Outgoing(log[2].value)]})
    fold = Fold(0)
    follower = await cluster.log.follow({EVENTS_0: None})
    assert await fold_to_end(fold, follower, monotonic_us=lambda: 0) == 2
    assert await fold_to_end(fold, follower, monotonic_us=lambda: 0) == 0
    await follower.close()


async def test_the_fold_waits_for_an_event_that_is_committed() -> None:
    cluster = await Cluster.start()
    log = records(1, 1, 1)
    writer = await cluster.log.open("w")
    await writer.append({EVENTS_0: [Outgoing(record.value) for record in log]})
    fold = Fold(0)
    follower = await cluster.log.follow({EVENTS_0: None})
    assert await fold_to_seq(fold, follower, 3, monotonic_us=lambda: 0) == 3
    await follower.close()


async def test_a_fold_up_to_an_end_behind_an_aborted_transaction_waits_for_no_record() -> None:
    cluster = await Cluster.start()
    writer = await cluster.log.open("decider-0")
    await writer.append({EVENTS_0: [Outgoing(record.value) for record in records(1, 1)]})
    cluster.log.fail_next_append(Refused)
    with pytest.raises(Refused):
        await writer.append({EVENTS_0: [Outgoing(b"aborted")]})
    follower = await cluster.log.follow({EVENTS_0: None})
    read, waits_ms = follower.read, []

    async def counting(**how):
        waits_ms.append(how["timeout_ms"])
        return await read(**how)

    follower.read = counting
    fold = Fold(0)
    assert await fold_to_end(fold, follower, monotonic_us=lambda: 0) == 2
    assert await follower.position(EVENTS_0) == await follower.end_offset(EVENTS_0) > fold.next_offset
    assert sum(waits_ms) <= 50


class Cycle:
    """What only the cycle collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_only_a_replay_that_makes_many_objects_is_looked_at_as_a_whole() -> None:
    """The look takes a third of a second at a million rows: not at a takeover, whatever was made before it."""
    threshold = gc.get_threshold()
    gc.set_threshold(10 * MANY_OBJECTS)
    gc.unfreeze()
    gc.collect()
    try:
        kept = [[] for _ in range(MANY_OBJECTS)]
        with without_collection():
            kept += [[] for _ in range(1_000)]
        assert gc.get_freeze_count() == 0
        with without_collection():
            kept += [[] for _ in range(MANY_OBJECTS + 1_000)]
        assert gc.get_freeze_count() > len(kept)
        assert gc.isenabled()
        dropped = Cycle()
        gone = weakref.ref(dropped)
        gc.freeze()
        del dropped
        with without_collection():
            kept += [[] for _ in range(MANY_OBJECTS + 1_000)]
        assert gone() is None, "a state that an earlier replay froze, and that was dropped since, is freed"
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
