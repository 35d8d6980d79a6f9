"""What workers say that they hold (PM8, A-1, PM11): reports in chunks, evictions, failed fetches, and all that may be wrong with them."""

import pytest

from events import events as e
from events import facts as f
from events.codec import decode_fact
from events.fact_rules import DIGESTS_RULE
from events.reasons import FetchFailure, IgnoreReason, RejectReason
from proto.gen.headway.v1 import facts_pb2
from tests.stories.client_words import of_kind
from tests.stories.locality_words import (
    advertise,
    blob,
    changes_nothing,
    evict,
    fetch_failed,
    held,
    holders,
    pinned,
    row,
    view,
)
from tests.stories.notation import MAIN, connect, fact, gone

OLD, NEW = 1111, 2222


@pytest.fixture
def holding(story):
    """w1 holds x and y, and pins p; w2 holds x."""
    story.given(connect("w1", boot=OLD), connect("w2", boot=7))
    return story.given(advertise("w1", "x", "y", pins=("p",), full=True), advertise("w2", "x", full=True))


def test_what_a_chunk_names_counts_at_once(holding):
    holding.given(advertise("w1", "z", report=2, chunk=0, last=False, full=True))
    assert holders(holding, "z") == ["w1"]


def test_what_a_full_report_does_not_name_goes_with_its_last_chunk_only(holding):
    holding.given(advertise("w1", "x", report=2, chunk=0, last=False, full=True))
    holding.given(advertise("w1", "z", report=2, chunk=1, last=False, full=True))
    assert held(holding, "w1") == ["x", "y", "z"], "the rest may name y yet"
    holding.given(advertise("w1", report=2, chunk=2, full=True))
    assert held(holding, "w1") == ["x", "z"]
    assert holders(holding, "x") == ["w1", "w2"], "nobody else said anything"


def test_a_delta_takes_nothing_away(holding):
    holding.given(advertise("w1", "z"))
    assert held(holding, "w1") == ["x", "y", "z"]


def test_a_newer_report_abandons_an_unfinished_one(holding):
    holding.given(advertise("w1", "a", pins=("half",), report=2, chunk=0, last=False, full=True))
    holding.given(advertise("w1", "b", report=3, chunk=0, last=False, full=True))
    changes_nothing(
        holding,
        advertise("w1", report=2, chunk=1, full=True),
        "BlobsAvailable ignored: stale_report",
        IgnoreReason.STALE_REPORT,
    )
    assert held(holding, "w1") == ["a", "b", "x", "y"], "the end of an abandoned report ends nothing"
    assert pinned(holding, "w1") == ["p"]
    holding.given(advertise("w1", "c", report=3, chunk=1, full=True))
    assert held(holding, "w1") == ["b", "c"], "what the abandoned report named is not named by this one"
    assert pinned(holding, "w1") == [], "nor are its pins of this one"


def test_a_reconnect_abandons_an_unfinished_report(holding):
    holding.given(advertise("w1", "a", pins=("half",), report=2, chunk=0, last=False, full=True))
    holding.given(connect("w1", boot=OLD))
    changes_nothing(
        holding,
        advertise("w1", report=2, chunk=1, full=True),
        "BlobsAvailable ignored: chunk_out_of_order",
        IgnoreReason.CHUNK_OUT_OF_ORDER,
    )
    assert (held(holding, "w1"), pinned(holding, "w1")) == (["a", "x", "y"], ["p"])
    holding.given(advertise("w1", "z", report=1, full=True))
    assert held(holding, "w1") == ["z"], "report numbers begin anew with a connection"


def test_pins_of_a_report_replace_those_before_and_are_not_merged(holding):
    holding.given(advertise("w1", pins=("q", "r")))
    assert pinned(holding, "w1") == ["q", "r"], "field_17: the set is that of the report (A-1)"
    holding.given(advertise("w1"))
    assert pinned(holding, "w1") == []
    assert held(holding, "w1") == ["x", "y"], "pins say nothing of what is held"


def test_pins_are_replaced_at_once_with_the_last_chunk(holding):
    holding.given(advertise("w1", pins=("q",), report=2, chunk=0, last=False))
    assert pinned(holding, "w1") == ["p"], "half a set is none"
    holding.given(advertise("w1", pins=("r",), report=2, chunk=1, last=False))
    assert pinned(holding, "w1") == ["p"]
    holding.given(advertise("w1", pins=("s",), report=2, chunk=2))
    assert pinned(holding, "w1") == ["q", "r", "s"]


def test_a_pin_is_no_blob_that_somebody_could_fetch(holding):
    assert holders(holding, "p") == [], (
        "an entry of the action cache with the digest of a blob must not stop its upload (A-1)"
    )


def test_evicted_blobs_are_not_held_any_more(holding):
    holding.when(evict("w1", "x", "never held")).then("w1 evicted 2")
    assert held(holding, "w1") == ["y"]
    assert holders(holding, "x") == ["w2"]


@pytest.mark.parametrize("failure", [FetchFailure.NOT_FOUND, FetchFailure.DATA_LOSS])
def test_a_failed_fetch_that_proves_the_loss_evicts_the_blob_at_this_peer(holding, failure):
    holding.when(fetch_failed("w1", "x", failure, OLD)).then(f"w1 lost a blob: {failure.name.lower()}")
    assert holders(holding, "x") == ["w2"]
    assert held(holding, "w1") == ["y"], "the first failed fetch evicts, and that blob only (PM8)"


TRANSIENT = [
    failure
    for failure in FetchFailure
    if failure not in (FetchFailure.UNSPECIFIED, FetchFailure.NOT_FOUND, FetchFailure.DATA_LOSS)
]


@pytest.mark.parametrize("failure", TRANSIENT)
def test_any_other_failed_fetch_proves_nothing(holding, failure):
    changes_nothing(
        holding,
        fetch_failed("w1", "x", failure, OLD),
        "PeerFetchFailed ignored: transient_failure",
        IgnoreReason.TRANSIENT_FAILURE,
    )
    assert holders(holding, "x") == ["w1", "w2"]


def test_every_failure_either_proves_the_loss_or_is_tried_above():
    assert len(TRANSIENT) == 4


def test_a_fetch_from_an_earlier_process_says_nothing_of_this_one(holding):
    holding.given(connect("w1", boot=NEW), advertise("w1", "x", full=True))
    changes_nothing(
        holding,
        fetch_failed("w1", "x", FetchFailure.NOT_FOUND, OLD),
        "PeerFetchFailed ignored: stale_epoch",
        IgnoreReason.STALE_EPOCH,
    )
    assert holders(holding, "x") == ["w1", "w2"]
    holding.given(fetch_failed("w1", "x", FetchFailure.NOT_FOUND))
    assert holders(holding, "x") == ["w2"], "who does not know the epoch is believed"


def test_a_failed_fetch_from_nobody_is_ignored(holding):
    changes_nothing(
        holding,
        fetch_failed("w9", "x"),
        "PeerFetchFailed ignored: unknown_endpoint",
        IgnoreReason.UNKNOWN_ENDPOINT,
    )


BAD = {
    "the same chunk twice": (
        advertise("w1", "z", report=2, chunk=0, last=False),
        "BlobsAvailable ignored: duplicate_chunk",
        IgnoreReason.DUPLICATE_CHUNK,
    ),
    "the last chunk of a finished report again": (
        advertise("w2", "z", report=1, chunk=0, full=True),
        "BlobsAvailable ignored: duplicate_chunk",
        IgnoreReason.DUPLICATE_CHUNK,
    ),
    "a chunk too early": (
        advertise("w1", "z", report=2, chunk=2),
        "BlobsAvailable ignored: chunk_out_of_order",
        IgnoreReason.CHUNK_OUT_OF_ORDER,
    ),
    "a chunk behind the last": (
        advertise("w2", "z", report=1, chunk=1, full=True),
        "BlobsAvailable ignored: chunk_out_of_order",
        IgnoreReason.CHUNK_OUT_OF_ORDER,
    ),
    "a report that begins in its middle": (
        advertise("w1", "z", report=3, chunk=1),
        "BlobsAvailable ignored: chunk_out_of_order",
        IgnoreReason.CHUNK_OUT_OF_ORDER,
    ),
    "a chunk of an older report": (
        advertise("w1", "z", report=1, chunk=1),
        "BlobsAvailable ignored: stale_report",
        IgnoreReason.STALE_REPORT,
    ),
    "a report that is full in its middle": (
        advertise("w1", "z", report=2, chunk=1, full=True),
        "BlobsAvailable full rejected: invalid_field",
        RejectReason.INVALID_FIELD,
    ),
    "a chunk of a foreign connection": (
        advertise("w1", "z", report=2, chunk=1, connection=999),
        "BlobsAvailable ignored: stale_connection",
        IgnoreReason.STALE_CONNECTION,
    ),
    "an eviction of a foreign connection": (
        evict("w1", "x", connection=999),
        "BlobsEvicted ignored: stale_connection",
        IgnoreReason.STALE_CONNECTION,
    ),
    "a chunk for an instance that is none": (
        fact(f.BlobsAvailable("other", "w1", 1, 1)),
        "BlobsAvailable instance rejected: unknown_instance",
        RejectReason.UNKNOWN_INSTANCE,
    ),
    "a failed fetch in an instance that is none": (
        fact(f.PeerFetchFailed("other", "w1", blob("x"), FetchFailure.NOT_FOUND)),
        "PeerFetchFailed instance rejected: unknown_instance",
        RejectReason.UNKNOWN_INSTANCE,
    ),
}


@pytest.mark.parametrize(("step", "line", "reason"), BAD.values(), ids=list(BAD))
def test_a_chunk_that_is_not_the_next_one_is_counted_and_changes_nothing(holding, step, line, reason):
    holding.given(advertise("w1", "a", pins=("half",), report=2, chunk=0, last=False))
    changes_nothing(holding, step, line, reason)
    holding.given(advertise("w1", "b", report=2, chunk=1))
    assert held(holding, "w1") == ["a", "b", "x", "y"], "and the report goes on as if nothing had been"


def test_what_an_old_process_says_after_the_takeover_is_counted_and_changes_nothing(holding):
    old = holding.connections["w1"]
    holding.given(connect("w1", boot=NEW), advertise("w1", "z", full=True))
    for step, kind in (
        (advertise("w1", "x", report=2, connection=old), "BlobsAvailable"),
        (evict("w1", "z", connection=old), "BlobsEvicted"),
    ):
        changes_nothing(holding, step, f"{kind} ignored: stale_connection", IgnoreReason.STALE_CONNECTION)
    assert held(holding, "w1") == ["z"]


def test_what_nobody_is_connected_to_say_is_answered_with_an_eviction(holding):
    """A worker that speaks on a connection nobody knows must learn it, or it would never connect again."""
    holding.given(gone("w1"))
    holding.when(advertise("w1", "z")).then("BlobsAvailable ignored: unknown_worker")
    assert holding.rehearsal.outbounds[-1].kind == "WorkerEvicted"
    assert held(holding, "w1") == []


def wrong_length(kind: str, size: int) -> bytes:
    """A record that no producer of ours could write: a digest whose hash has `size` bytes."""
    made = facts_pb2.Fact()
    part = getattr(made, kind)
    part.instance, part.endpoint = MAIN, "w1"
    if kind == "blobs_available":
        part.connection_id, part.report, part.last = 1, 2, True
        part.added.items.add(hash=b"x" * size, size_bytes=1)
    elif kind == "blobs_evicted":
        part.connection_id = 1
        part.digests.items.add(hash=b"x" * size, size_bytes=1)
    else:
        part.failure = int(FetchFailure.NOT_FOUND)
        part.digest.hash, part.digest.size_bytes = b"x" * size, 1
    return made.SerializeToString()


@pytest.mark.parametrize("size", [1, 19, 65])
@pytest.mark.parametrize(
    ("kind", "field"),
    [("blobs_available", "added[0]"), ("blobs_evicted", "digests[0]"), ("peer_fetch_failed", "digest")],
)
def test_a_digest_of_the_wrong_length_is_refused_in_protobuf(holding, kind, field, size):
    name = {
        "blobs_available": "BlobsAvailable",
        "blobs_evicted": "BlobsEvicted",
        "peer_fetch_failed": "PeerFetchFailed",
    }[kind]
    changes_nothing(
        holding,
        fact(decode_fact(wrong_length(kind, size))),
        f"{name} {field} rejected: invalid_field",
        RejectReason.INVALID_FIELD,
    )
    assert "20 to 64 bytes" in holding.last(e.FactRejected).rule, "what would be right is said"


@pytest.mark.parametrize("text", ["ab/1", "ab" * 19 + "/1", "ab" * 65 + "/1", "xy/1", "ab" * 32, "ab" * 32 + "/-1"])
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("BlobsAvailable", '"connection_id":1,"report":2,"added":["%s"]'),
        ("BlobsEvicted", '"connection_id":1,"digests":["%s"]'),
        ("PeerFetchFailed", '"failure":"not_found","digest":"%s"'),
    ],
)
def test_a_digest_of_the_wrong_length_is_refused_in_json(holding, kind, more, text):
    record = f'{{"kind":"{kind}","instance":"main","endpoint":"w1",{more % text}}}'.encode()
    made = decode_fact(record, (("content-type", b"application/json"),))
    assert isinstance(made, f.Unreadable)
    changes_nothing(holding, fact(made), f"{kind} {made.field} rejected: invalid_field", RejectReason.INVALID_FIELD)
    assert made.field.startswith(("added", "digest")), "where it stands is said"


def test_more_digests_than_a_chunk_may_hold_are_refused(holding):
    made = facts_pb2.Fact()
    part = made.blobs_available
    part.instance, part.endpoint, part.connection_id, part.report, part.last = MAIN, "w1", 1, 2, True
    for number in range(4097):
        part.added.items.add(hash=number.to_bytes(32, "big"), size_bytes=1)
    unreadable = decode_fact(made.SerializeToString())
    line = "BlobsAvailable added rejected: invalid_field"
    changes_nothing(holding, fact(unreadable), line, RejectReason.INVALID_FIELD)
    assert (unreadable.value, unreadable.rule) == ("4097 of them", DIGESTS_RULE.text)


def test_a_report_is_an_event_for_each_chunk_as_it_came(holding):
    holding.given(advertise("w1", "a", report=2, chunk=0, last=False), advertise("w1", "b", report=2, chunk=1))
    taken = [(event.report, event.chunk, event.last) for event in of_kind(holding, e.BlobsAvailable)[-2:]]
    assert taken == [(2, 0, False), (2, 1, True)]
    assert (view(holding, "w1").report, view(holding, "w1").report_chunks) == (2, 2)
    assert (row(holding, "w1").report.next_chunk, row(holding, "w1").report.open) == (2, False)
