"""The processes that `headway bench locality` measures: one that fills a store and dies, and one that opens it and answers.

    python -m streams.bench._locality_store fill PATH ENDPOINTS BLOBS
    python -m streams.bench._locality_store answer PATH ENDPOINTS BLOBS LOOKUPS

Each prints one JSON object. Everything goes through the gate and the store that the read side uses: records are encoded, chained and
taken as from the log.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from events import events as e
from events.codec import GENESIS_CHAIN, encode_event
from events.payloads import digest_chunks, digests_bytes
from events.values import Digest
from projections import locality
from streams.catch_up import take_records
from streams.store import Store

INSTANCE: Final = "main"
CONFIG: Final = '{"kind":"simple"}'
SHARED_EVERY: Final = 4
"""Each fourth blob of an endpoint is on all of them, as tools and common inputs are."""

TAIL_EVENTS: Final = 1_000
TAIL_BLOBS: Final = 16
RECORDS_AT_ONCE: Final = 500
MISSING_SHARE: Final = 0.25
"""Of the lookups, for blobs nobody holds."""

INPUTS: Final = 64
"""Of the actions whose holders are asked for."""


class Record(NamedTuple):
    """A record of the event log."""

    offset: int
    value: bytes


class EventLog:
    """Makes the records of events, one after the other."""

    def __init__(self) -> None:
        self.seq = 0
        self._chain = GENESIS_CHAIN

    def record(self, kind: type, *values: Any) -> Record:
        """The next event: its values behind the envelope's."""
        self.seq += 1
        event = kind(self.seq, 500_000 * self.seq, self.seq, *values)
        value, self._chain = encode_event(event, 1, self._chain)
        return Record(self.seq - 1, value)

    def report(self, name: str, number: int, digests: list[Digest]) -> list[Record]:
        """A full report in chunks."""
        chunks = digest_chunks(digests)
        last = len(chunks) - 1
        return [
            self.record(e.BlobsAvailable, INSTANCE, name, 1, number, chunk, chunk == last, True, added)
            for chunk, added in enumerate(chunks)
        ]

    def tail(self, name: str, events: int) -> list[Record]:
        """So many events of a quiet scheduler: ticks, and what actions leave behind."""
        records = []
        for number in range(events):
            if number % 4:
                records.append(self.record(e.Ticked))
            else:
                added = digests_bytes(tail_blob(number * TAIL_BLOBS + each) for each in range(TAIL_BLOBS))
                report = 1_000_000 + number
                records.append(self.record(e.BlobsAvailable, INSTANCE, name, 1, report, 0, True, False, added))
        return records


def endpoint_name(number: int) -> str:
    """The name of an endpoint."""
    return f"worker-{number}"


def blob(endpoint: int, number: int) -> Digest:
    """A blob of an endpoint: told by its number, so that every process knows who holds what."""
    owner = "all" if number % SHARED_EVERY == 0 else endpoint
    return Digest(sha256(b"%s/%d" % (str(owner).encode(), number)).digest(), 1_000 + number)


def tail_blob(number: int) -> Digest:
    """A blob that the tail names."""
    return Digest(sha256(b"tail/%d" % number).digest(), 1_000 + number)


def fill(path: Path, endpoints: int, blobs: int) -> dict[str, Any]:
    """Fold a full report of each endpoint, then the first one's again, and once more in no order; write the tail beside the store.

    Leaves the store open.
    """
    store = Store.open(path, cluster_id="bench", topic_id="bench")
    table, log = store.table(0), EventLog()
    take_records(table, [log.record(e.LeaderElected, 1), log.record(e.Configured, INSTANCE, CONFIG)])
    took_s = []
    for number in range(endpoints):
        take_records(table, [log.record(e.WorkerAdmitted, INSTANCE, endpoint_name(number), 1, 1)])
        digests = sorted(blob(number, each) for each in range(blobs))  # as workers report
        took_s.append(_folded(table, log.report(endpoint_name(number), 1, digests)))
        del digests
    digests = [blob(0, each) for each in range(blobs)]
    again_s = _folded(table, log.report(endpoint_name(0), 2, sorted(digests)))
    unordered_s = _folded(table, log.report(endpoint_name(0), 3, digests))
    with (path / "tail").open("wb") as file:
        for record in log.tail(endpoint_name(0), TAIL_EVENTS):
            file.write(len(record.value).to_bytes(4, "big") + record.offset.to_bytes(8, "big") + record.value)
    return {
        "pairs": locality.stats(store, 0).pairs,
        "took_s": took_s,
        "again_s": again_s,
        "unordered_s": unordered_s,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "store_bytes": sum(file.stat().st_size for file in (path / "rows").iterdir()),
    }


def _folded(table: Any, records: list[Record]) -> float:
    begun_s = time.monotonic()
    for start in range(0, len(records), RECORDS_AT_ONCE):
        take_records(table, records[start : start + RECORDS_AT_ONCE])
    return time.monotonic() - begun_s


def answer(path: Path, endpoints: int, blobs: int, lookups: int) -> dict[str, Any]:
    """Open the store that a killed process left, answer from it, fold the tail behind it, then look up much.

    `answered_at_s` and `followed_at_s` are on the system's clock, so that the parent can tell how long it took from its start of us.
    """
    store = Store.open(path, cluster_id="bench", topic_id="bench")
    if store.dropped:
        raise SystemExit(f"the store was dropped: {dict(store.dropped)}")
    _expect(locality.holders(store, 0, blob(1, 1), INSTANCE), {1})
    answered_at_s = time.time()
    table = store.table(0)
    take_records(table, list(_tail(path / "tail")))
    _expect(locality.holders(store, 0, tail_blob((TAIL_EVENTS - 4) * TAIL_BLOBS), INSTANCE), {0})
    followed_at_s = time.time()
    rng = random.Random(1)
    waits_ns = []
    for _ in range(lookups):
        number, each = rng.randrange(endpoints), rng.randrange(blobs)
        missing = rng.random() < MISSING_SHARE
        digest = tail_blob(10**9 + each) if missing else blob(number, each)
        begun_ns = time.perf_counter_ns()
        found = locality.holders(store, 0, digest, INSTANCE)
        waits_ns.append(time.perf_counter_ns() - begun_ns)
        _expect(found, set() if missing else set(range(endpoints)) if each % SHARED_EVERY == 0 else {number})
    asked_ns = []
    for _ in range(lookups // INPUTS):
        number = rng.randrange(endpoints)
        inputs = [blob(number, rng.randrange(blobs)) for _ in range(INPUTS)]
        begun_ns = time.perf_counter_ns()
        ranked = locality.most_bytes(store, 0, INSTANCE, inputs)
        asked_ns.append(time.perf_counter_ns() - begun_ns)
        if ranked[0].endpoint != endpoint_name(number):
            raise SystemExit(f"{ranked[0].endpoint} is said to hold most of what {endpoint_name(number)} holds")
    return {
        "answered_at_s": answered_at_s,
        "followed_at_s": followed_at_s,
        "waits_ns": sorted(waits_ns),
        "asked_ns": sorted(asked_ns),
        "resident_kib": psutil.Process().memory_info().rss >> 10,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def _tail(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        while head := file.read(12):
            yield Record(int.from_bytes(head[4:], "big"), file.read(int.from_bytes(head[:4], "big")))


def _expect(found: list[locality.Holder], numbers: set[int]) -> None:
    names = {holder.endpoint for holder in found}
    expected = {endpoint_name(number) for number in numbers}
    if names != expected:
        raise SystemExit(f"wrong answer: {sorted(names)} are said to hold a blob that {sorted(expected)} hold")


def main() -> None:
    """Do what the arguments say, print what was measured, and be killed: what RocksDB still had to do is for who opens it next."""
    what, path, *numbers = sys.argv[1:]
    work: dict[str, Callable[..., dict[str, Any]]] = {"fill": fill, "answer": answer}
    measured = work[what](Path(path), *map(int, numbers))
    print(json.dumps(measured), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
