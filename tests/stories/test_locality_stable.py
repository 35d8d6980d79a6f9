"""Stable blobs (6.4, 6.9): chunks for every worker, until each has acknowledged them; again to the same process only."""

import pytest

from events import events as e
from events import facts as f
from events.codec import decode_fact
from events.evolving.locality import RESENT_AT_ONCE
from events.payloads import MAX_DIGESTS, digest_chunks, digests_of
from events.reasons import IgnoreReason, RejectReason
from proto.gen.headway.v1 import commands_pb2, facts_pb2
from tests.stories.client_words import of_kind
from tests.stories.locality_words import (
    acknowledge,
    advertise,
    blob,
    changes_nothing,
    chunk_seqs,
    gone_on,
    row,
    sent,
    sent_chunks,
    stable,
    view,
    waiting,
)
from tests.stories.notation import MAIN, advance, alive, configure, connect, fact, gone, keepalive, restart

OLD, NEW = 1111, 2222


def broadcast(number, digests, store=""):
    """A whole broadcast of so many digests, as the publisher cuts it up."""

    def step(story):
        chunks = digest_chunks([blob(f"{number}/{index}") for index in range(digests)])
        for sequence, chunk in enumerate(chunks):
            story.take(f.BlobsStable(MAIN, number, sequence, sequence == len(chunks) - 1, store, chunk))

    return step


def chunks(number, count, store=""):
    """A broadcast of so many chunks of one digest each."""

    def step(story):
        for sequence in range(count):
            stable(number, sequence, last=sequence == count - 1, store=store)(story)

    return step


@pytest.fixture
def owing(story):
    """w1 and w2 owe three chunks each."""
    return story.given(connect("w1", boot=OLD), connect("w2", boot=7), broadcast(5, 10_000))


def test_bis_chunked_ack_acknowledged(story):
    story.given(connect("w1", boot=OLD), broadcast(5, 100_000))
    seqs = chunk_seqs(story, 5)
    assert len(seqs) == 25
    assert waiting(story, "w1") == seqs, "every chunk that was sent is kept until it is acknowledged (S-2)"
    assert view(story, "w1").unacknowledged == 25
    sizes = [len(digests_of(event.digests)) for event in of_kind(story, e.BlobsStable)]
    assert sizes == [MAX_DIGESTS] * 24 + [100_000 - 24 * MAX_DIGESTS]
    story.given(acknowledge("w1", *seqs))
    assert waiting(story, "w1") == []
    assert story.rehearsal.shard.instances[MAIN].stable == {}, "a chunk that waits for nobody is forgotten"
    assert (view(story, "w1").unacknowledged, view(story, "w1").acknowledged) == (0, 25)


def test_bis_chunked_ack_lost_resend(owing):
    first, *rest = chunk_seqs(owing, 5)
    assert len(rest) == 2
    assert waiting(owing, "w1") == [first, *rest]
    owing.given(acknowledge("w1", first))
    before = sent(owing)
    owing.given(connect("w1", boot=OLD))
    assert sent_chunks(owing, before, "w1") == rest, "exactly what was not acknowledged, in order (S-5)"
    kinds = [out.kind for out in owing.rehearsal.outbounds[before:]]
    assert kinds[0] == "WorkerAdmitted", "after the connection is known"
    assert sent_chunks(owing, before, "w2") == sent_chunks(owing, before, "") == [], "nobody else is told again"
    owing.given(acknowledge("w1", *rest))
    assert waiting(owing, "w1") == []


def test_what_is_sent_again_is_the_chunk_as_it_was(owing):
    def content(record):
        message = commands_pb2.WorkerCommand.FromString(record.value).blobs_stable
        return message.SerializeToString(deterministic=True)

    at_first = [content(out) for out in owing.rehearsal.outbounds if out.kind == "BlobsStable"]
    before = sent(owing)
    owing.given(connect("w1", boot=OLD))
    assert [content(out) for out in owing.rehearsal.outbounds[before:] if out.kind == "BlobsStable"] == at_first
    assert len(at_first) == 3


def test_bis_chunked_boot_epoch_change_clears_buffer(owing):
    before = sent(owing)
    owing.given(connect("w1", boot=NEW))
    assert sent_chunks(owing, before, "w1") == [], "the dead process' chunks are nothing to the fresh one (S-6)"
    assert waiting(owing, "w1") == []


def test_another_process_clears_what_its_own_endpoint_owed_and_nothing_else(owing):
    assert len(waiting(owing, "w1")) == len(waiting(owing, "w2")) == 3
    owing.when(connect("w1", boot=NEW)).then("w1 wiped: epoch_changed", "w1 admitted")
    assert (waiting(owing, "w1"), len(waiting(owing, "w2"))) == ([], 3)
    changes_nothing(
        owing,
        acknowledge("w1", chunk_seqs(owing, 5)[0]),
        "BlobsStableAcknowledged ignored: not_sent",
        IgnoreReason.NOT_SENT,
    )


def test_a_process_without_an_epoch_gets_nothing_again(story):
    story.given(connect("w1", boot=0), chunks(5, 2))
    before = sent(story)
    story.when(connect("w1", boot=0)).then("w1 wiped: no_epoch", "w1 admitted")
    assert (sent_chunks(story, before, "w1"), waiting(story, "w1")) == ([], [])


def test_bis_chunked_full_ack_drops_endpoint_entry(owing):
    seqs = chunk_seqs(owing, 5)
    owing.given(acknowledge("w1", *seqs))
    assert row(owing, "w1").unacknowledged is None, "no empty entry is left behind (S-4)"


def test_crash_order_does_not_give_a_dead_process_chunks_to_the_fresh_one(owing):
    """6.9: the connection ends, its end is cleaned up, and only then does another process come."""
    owing.when(gone("w1")).then("w1 out: gone")
    assert len(waiting(owing, "w1")) == 3, "a disconnect alone clears nothing (S-6)"
    owing.given(alive(5))
    before = sent(owing)
    owing.when(connect("w1", boot=NEW)).then("w1 wiped: epoch_changed", "w1 admitted")
    assert sent_chunks(owing, before, "w1") == [], "the last epoch outlives the connection"
    assert waiting(owing, "w1") == []


def test_crash_order_of_the_same_process_gives_it_its_chunks_again(owing):
    owing.given(advertise("w1", "x", full=True)).when(gone("w1")).then("w1 out: gone", "w1 wiped: disconnected")
    before = sent(owing)
    owing.given(connect("w1", boot=OLD))
    assert sent_chunks(owing, before, "w1") == chunk_seqs(owing, 5), "what it held is gone, what it was owed is not"


def test_a_takeover_of_the_same_process_waits_for_no_end_of_the_old_connection(owing):
    old = owing.connections["w1"]
    owing.given(connect("w1", boot=OLD))
    changes_nothing(owing, gone_on("w1", old), "WorkerGone ignored: stale_connection", IgnoreReason.STALE_CONNECTION)
    assert len(waiting(owing, "w1")) == 3


def test_more_than_a_few_are_sent_again_one_by_one_as_they_are_acknowledged(story):
    story.given(connect("w1", boot=OLD), chunks(5, 20))
    seqs = chunk_seqs(story, 5)
    before = sent(story)
    story.given(connect("w1", boot=OLD))
    assert sent_chunks(story, before, "w1") == seqs[:RESENT_AT_ONCE], "no transaction grows with what waits"
    for number, seq in enumerate(seqs):
        before = sent(story)
        story.given(acknowledge("w1", seq))
        following = seqs[RESENT_AT_ONCE + number : RESENT_AT_ONCE + number + 1]
        assert sent_chunks(story, before, "w1") == following, "each acknowledgement brings the next"
    assert waiting(story, "w1") == []


def test_acknowledgements_may_come_in_any_order(story):
    story.given(connect("w1", boot=OLD), chunks(5, 14))
    seqs = chunk_seqs(story, 5)
    before = sent(story)
    story.given(connect("w1", boot=OLD), acknowledge("w1", seqs[7], seqs[0], seqs[3]))
    assert sent_chunks(story, before, "w1") == seqs[: RESENT_AT_ONCE + 3]
    story.given(acknowledge("w1", seqs[13]))
    assert sent_chunks(story, before, "w1") == seqs[: RESENT_AT_ONCE + 3], "one that was not sent again brings none"


def test_what_is_announced_meanwhile_is_not_sent_twice(story):
    story.given(connect("w1", boot=OLD), chunks(5, 10), connect("w1", boot=OLD), chunks(6, 3))
    seqs, later = chunk_seqs(story, 5), chunk_seqs(story, 6)
    before = sent(story)
    story.given(acknowledge("w1", *seqs))
    assert sent_chunks(story, before, "w1") == seqs[RESENT_AT_ONCE:], (
        "the new ones were sent to this connection, with everybody's"
    )
    assert waiting(story, "w1") == later
    before = sent(story)
    story.given(connect("w1", boot=OLD))
    assert sent_chunks(story, before, "w1") == later


def test_a_chunk_is_sent_once_for_every_worker_of_the_instance(owing):
    before = sent(owing)
    owing.given(chunks(6, 1))
    assert [(out.kind, out.key) for out in owing.rehearsal.outbounds[before:]] == [("BlobsStable", "")]
    assert waiting(owing, "w1")[-1:] == waiting(owing, "w2")[-1:] == chunk_seqs(owing, 6)


def test_a_chunk_that_nobody_is_there_for_is_an_event_and_no_command(story):
    story.when(stable(5)).then("stable 5.0, the last")
    assert story.rehearsal.outbounds == []
    assert story.rehearsal.shard.instances[MAIN].stable == {}
    story.given(connect("w1", boot=OLD))
    assert waiting(story, "w1") == [], "who connects later has nothing to unpin"


def test_one_workers_acknowledgement_is_not_anothers(owing):
    seqs = chunk_seqs(owing, 5)
    owing.given(acknowledge("w1", *seqs))
    assert waiting(owing, "w2") == seqs


def test_the_store_stands_on_every_chunk_and_is_the_same(story):
    story.given(connect("w1", boot=OLD), stable(5, 0, store="ac", last=False))
    line = "BlobsStable store rejected: invalid_field"
    changes_nothing(story, stable(5, 1, store=""), line, RejectReason.INVALID_FIELD)
    assert story.last(e.FactRejected).rule == "'ac', as on the chunks of this broadcast before it"
    story.given(stable(5, 1, store="ac"))
    told = [commands_pb2.WorkerCommand.FromString(out.value).blobs_stable for out in story.rehearsal.outbounds]
    assert [part.store for part in told if part.chunk_seq] == ["ac", "ac"]


def test_broadcasts_may_be_said_side_by_side(story):
    story.given(connect("w1", boot=OLD), stable(5, 0, last=False), stable(6, 0, last=False, store="ac"))
    story.when(stable(5, 1), stable(6, 1, store="ac")).then("stable 5.1, the last", "stable 6.1, the last")


BAD = {
    "a chunk twice": (stable(5, 0, last=False), "BlobsStable ignored: duplicate_chunk", IgnoreReason.DUPLICATE_CHUNK),
    "a chunk too early": (stable(5, 2), "BlobsStable ignored: chunk_out_of_order", IgnoreReason.CHUNK_OUT_OF_ORDER),
    "a broadcast that begins in its middle": (
        stable(6, 1),
        "BlobsStable ignored: chunk_out_of_order",
        IgnoreReason.CHUNK_OUT_OF_ORDER,
    ),
    "a chunk behind the last": (
        stable(4, 1),
        "BlobsStable ignored: chunk_out_of_order",
        IgnoreReason.CHUNK_OUT_OF_ORDER,
    ),
    "an instance that is none": (
        fact(f.BlobsStable("other", 5, 1, True, "", b"")),
        "BlobsStable instance rejected: unknown_instance",
        RejectReason.UNKNOWN_INSTANCE,
    ),
    "an acknowledgement for what was never sent": (
        acknowledge("w1", 10_000),
        "BlobsStableAcknowledged ignored: not_sent",
        IgnoreReason.NOT_SENT,
    ),
    "an acknowledgement by a foreign connection": (
        acknowledge("w1", 1, connection=999),
        "BlobsStableAcknowledged ignored: stale_connection",
        IgnoreReason.STALE_CONNECTION,
    ),
}


@pytest.mark.parametrize(("step", "line", "reason"), BAD.values(), ids=list(BAD))
def test_what_is_not_the_next_chunk_or_was_not_sent_is_counted_and_changes_nothing(story, step, line, reason):
    story.given(connect("w1", boot=OLD), stable(4, 0), stable(5, 0, last=False))
    changes_nothing(story, step, line, reason)
    story.when(stable(5, 1)).then("stable 5.1, the last")


def test_a_second_acknowledgement_is_counted_and_changes_nothing(owing):
    seq = chunk_seqs(owing, 5)[0]
    owing.given(acknowledge("w1", seq))
    line = "BlobsStableAcknowledged ignored: not_sent"
    changes_nothing(owing, acknowledge("w1", seq), line, IgnoreReason.NOT_SENT)


def test_an_acknowledgement_by_a_connection_that_was_taken_over_changes_nothing(owing):
    old, seq = owing.connections["w1"], chunk_seqs(owing, 5)[0]
    owing.given(connect("w1", boot=OLD))
    line = "BlobsStableAcknowledged ignored: stale_connection"
    changes_nothing(owing, acknowledge("w1", seq, connection=old), line, IgnoreReason.STALE_CONNECTION)
    assert len(waiting(owing, "w1")) == 3, "it is sent again to the new one, which acknowledges it itself"


def test_a_stable_digest_of_the_wrong_length_is_refused(story):
    made = facts_pb2.Fact()
    part = made.blobs_stable
    part.instance, part.broadcast, part.last = MAIN, 5, True
    part.digests.items.add(hash=b"x" * 19, size_bytes=1)
    line = "BlobsStable digests[0] rejected: invalid_field"
    changes_nothing(story, fact(decode_fact(made.SerializeToString())), line, RejectReason.INVALID_FIELD)
    text = f'{{"kind":"BlobsStable","instance":"main","broadcast":5,"digests":["{"ab" * 65}/1"]}}'.encode()
    unreadable = decode_fact(text, (("content-type", b"application/json"),))
    changes_nothing(story, fact(unreadable), line, RejectReason.INVALID_FIELD)


def test_an_endpoint_that_acknowledges_nothing_keeps_a_bounded_number_of_chunks(story):
    story.given(configure(locality={"max_unacknowledged_chunks": 3}), connect("w1", boot=OLD), chunks(5, 3))
    story.when(stable(6)).then("stable 6.0, the last", "w1 owes too much: 1 dropped")
    kept = [*chunk_seqs(story, 5)[1:], *chunk_seqs(story, 6)]
    assert waiting(story, "w1") == kept, "the oldest is given up, and it is said"
    assert story.last(e.StableChunksDropped).through_seq == chunk_seqs(story, 5)[0]
    assert list(story.rehearsal.shard.instances[MAIN].stable) == kept
    assert (view(story, "w1").unacknowledged, view(story, "w1").chunks_dropped) == (3, 1)
    before = sent(story)
    story.given(connect("w1", boot=OLD))
    assert sent_chunks(story, before, "w1") == kept


def test_only_who_owes_too_much_loses_chunks(story):
    story.given(configure(locality={"max_unacknowledged_chunks": 2}), connect("w1"), connect("w2"), chunks(5, 2))
    story.given(acknowledge("w2", *chunk_seqs(story, 5))).when(stable(6))
    story.then("stable 6.0, the last", "w1 owes too much: 1 dropped")
    assert waiting(story, "w2") == chunk_seqs(story, 6)


def test_what_is_given_up_while_it_is_sent_again_does_not_stop_the_rest(story):
    story.given(configure(locality={"max_unacknowledged_chunks": 20}), connect("w1", boot=OLD), chunks(5, 20))
    seqs = chunk_seqs(story, 5)
    before = sent(story)
    story.given(connect("w1", boot=OLD), chunks(6, 10))
    assert waiting(story, "w1") == [*seqs[10:], *chunk_seqs(story, 6)]
    assert sent_chunks(story, before, "w1") == seqs[: 8 + 10], "for each that is given up the next goes out"
    for seq in seqs[10:]:
        story.given(acknowledge("w1", seq))
    assert sent_chunks(story, before, "w1") == seqs, "every one that still waited"
    assert waiting(story, "w1") == chunk_seqs(story, 6)


def test_a_restart_of_the_scheduler_forgets_no_chunk_and_sends_none_by_itself(owing):
    seqs = chunk_seqs(owing, 5)
    before = sent(owing)
    owing.given(restart(), keepalive("w1"))
    assert (waiting(owing, "w1"), sent_chunks(owing, before, "w1")) == (seqs, []), "a restart breaks no connection"
    owing.given(acknowledge("w1", seqs[0]), connect("w1", boot=OLD))
    assert sent_chunks(owing, before, "w1") == seqs[1:]


def test_a_chunk_that_came_long_after_a_restart_waits_as_long_as_any_other(story):
    """S-6: what was not heard of is what was advertised before the restart; an endpoint that had nothing then keeps what it is given."""
    story.given(connect("w1", boot=OLD), restart(), alive(700), stable(5), advance(11))
    assert story.connected() == []
    assert waiting(story, "w1") == chunk_seqs(story, 5)
    before = sent(story)
    story.given(advance(500), connect("w1", boot=OLD))
    assert sent_chunks(story, before, "w1") == chunk_seqs(story, 5)


def test_an_endpoint_that_is_gone_for_good_takes_what_it_was_owed_with_it(owing):
    owing.given(acknowledge("w2", *chunk_seqs(owing, 5)), gone("w1"), alive(599))
    assert len(waiting(owing, "w1")) == 3
    owing.when(alive(2)).then("w1 swept: gone")
    assert owing.rehearsal.shard.instances[MAIN].stable == {}
    before = sent(owing)
    owing.given(connect("w1", boot=OLD))
    assert sent_chunks(owing, before, "w1") == []
