"""Words for stories of what endpoints hold: reports, evictions, stable blobs; what the read side answers; and every row there is."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from events import events as e
from events import facts as f
from events.payloads import digests_bytes
from events.reasons import FetchFailure, IgnoreReason, RejectReason
from events.state import Endpoint
from events.values import Digest
from projections import keys, locality
from projections.blob_pages import blobs_of
from projections.rows import MemoryRows
from proto.gen.headway.v1 import commands_pb2
from tests.reference.rows import rows_of
from tests.stories.notation import MAIN, Step
from tests.stories.read_side import table_of

if TYPE_CHECKING:
    from tests.stories.story import Story

SECOND_US = 1_000_000
BLOB_BYTES = 1000


def blob(name: str | int) -> Digest:
    """The digest of a blob that is called so."""
    return Digest(str(name).encode().rjust(32, b"."), BLOB_BYTES)


def packed(names: Iterable[str | int]) -> bytes:
    """Their digests as facts carry them."""
    return digests_bytes(map(blob, names))


def names(digests: Iterable[Digest]) -> list[str]:
    """What the blobs of these digests are called."""
    return [digest.hash.lstrip(b".").decode() for digest in digests]


def advertise(
    endpoint: str,
    *blobs: str | int,
    report: int | None = None,
    chunk: int = 0,
    last: bool = True,
    full: bool = False,
    pins: tuple[str, ...] = (),
    connection: int | None = None,
    mirror: tuple[int, int, int] = (0, 0, 0),
) -> Step:
    """A worker says what it holds: a report of one chunk, the next of its connection, unless said otherwise.

    `mirror` is (pending, pinned, pinned_bytes).
    """

    def step(story: "Story") -> None:
        number = story.connections[endpoint] if connection is None else connection
        row = story.rehearsal.shard.instances[MAIN].endpoints.get(endpoint)
        following = 1 if row is None else row.report.number + 1
        made = f.BlobsAvailable(
            MAIN,
            endpoint,
            number,
            following if report is None else report,
            chunk,
            last,
            full,
            packed(blobs),
            packed(pins),
            *mirror,
        )
        story.take(made)

    return step


def evict(endpoint: str, *blobs: str | int, connection: int | None = None) -> Step:
    """A worker no longer holds these."""
    return lambda story: story.take(
        f.BlobsEvicted(MAIN, endpoint, story.connections[endpoint] if connection is None else connection, packed(blobs))
    )


def fetch_failed(
    endpoint: str, name: str, failure: FetchFailure = FetchFailure.NOT_FOUND, boot: int = 0, reporter: str = "peer"
) -> Step:
    """Somebody could not fetch a blob from the endpoint."""
    return lambda story: story.take(f.PeerFetchFailed(MAIN, endpoint, blob(name), failure, boot, reporter))


def stable(broadcast: int, sequence: int = 0, *blobs: str | int, last: bool = True, store: str = "") -> Step:
    """The publisher of stable blobs says a chunk of a broadcast."""
    return lambda story: story.take(
        f.BlobsStable(MAIN, broadcast, sequence, last, store, packed(blobs or (f"s{broadcast}.{sequence}",)))
    )


def acknowledge(endpoint: str, *chunk_seqs: int, connection: int | None = None) -> Step:
    """A worker has taken these chunks."""

    def step(story: "Story") -> None:
        number = story.connections[endpoint] if connection is None else connection
        for seq in chunk_seqs:
            story.take(f.BlobsStableAcknowledged(MAIN, endpoint, number, seq))

    return step


def gone_on(endpoint: str, connection: int) -> Step:
    """The end of one connection of a worker is said."""
    return lambda story: story.take(f.WorkerGone(MAIN, endpoint, connection))


def row(story: "Story", endpoint: str) -> Endpoint | None:
    """The core's row of an endpoint."""
    return story.rehearsal.shard.instances[MAIN].endpoints.get(endpoint)


def waiting(story: "Story", endpoint: str) -> list[int]:
    """The chunks that wait for the endpoint's acknowledgement, oldest first."""
    found = row(story, endpoint)
    return [] if found is None else list(found.unacknowledged or ())


def chunk_seqs(story: "Story", broadcast: int) -> list[int]:
    """The seqs of the chunks of a broadcast."""
    return [
        event.seq for event in story.every_event() if isinstance(event, e.BlobsStable) and event.broadcast == broadcast
    ]


def sent_chunks(story: "Story", since: int, endpoint: str) -> list[int]:
    """The chunks sent to this endpoint by name, from the `since`-th record on, in order; each on the connection it has."""
    found = []
    for out in story.rehearsal.outbounds[since:]:
        if out.kind == "BlobsStable":
            command = commands_pb2.WorkerCommand.FromString(out.value)
            if command.endpoint == endpoint:
                if endpoint:
                    assert command.connection_id == story.connections[endpoint]
                found.append(command.blobs_stable.chunk_seq)
    return found


def sent(story: "Story") -> int:
    """How many records have gone out."""
    return len(story.rehearsal.outbounds)


def held(story: "Story", endpoint: str) -> list[str]:
    """What the read side says that the endpoint holds, by name."""
    return sorted(names(blobs_of(table_of(story).rows, 0, MAIN, endpoint, limit=10_000).blobs))


def pinned(story: "Story", endpoint: str) -> list[str]:
    """What the read side says that the endpoint pins of the action cache, by name."""
    return sorted(names(locality.pins_of(table_of(story).rows, 0, MAIN, endpoint)))


def holders(story: "Story", name: str) -> list[str]:
    """Who holds a blob, says the read side."""
    return [holder.endpoint for holder in locality.holders(table_of(story).rows, 0, blob(name))]


def view(story: "Story", endpoint: str) -> locality.EndpointView | None:
    """What the read side knows of the endpoint."""
    return locality.endpoint(table_of(story).rows, 0, MAIN, endpoint)


def everything(story: "Story") -> dict[bytes, bytes]:
    """Every row of the read side."""
    rows = table_of(story).rows
    assert isinstance(rows, MemoryRows)
    return dict(rows.by_key)


def changes_nothing(story: "Story", step: Step, line: str, reason: IgnoreReason | RejectReason) -> None:
    """Take `step`: `line` is all it causes, its reason is counted once more, and no other row of core or read side changes."""
    counted = story.rehearsal.shard.ignored if isinstance(reason, IgnoreReason) else story.rehearsal.shard.rejected
    core, rows, count, records = _other_rows(story), everything(story), counted[reason], sent(story)
    story.when().then()
    story.when(step).then(line)
    assert counted[reason] == count + 1
    assert _other_rows(story) == core
    after = everything(story)
    changed = {key[4:5] for key in rows.keys() | after.keys() if rows.get(key) != after.get(key)}
    assert changed == {keys.SHARD, keys.COUNTER}
    assert sent(story) == records, "nobody is told anything"


def _other_rows(story: "Story") -> dict[str, object]:
    rows = rows_of(story.rehearsal.shard)
    return {name: value for name, value in rows.items() if name not in ("seq", "position", "ignored", "rejected")}
