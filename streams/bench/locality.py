"""What endpoints hold, at full size: memory, restart, lookups and the fold of full reports, on RocksDB, in processes of their own.

One process folds a full report of each of ten endpoints, and the first one's again, and is killed. Another opens
what it left, answers, folds the 1,000 events behind it, answers from those, and looks up blobs held by one, by all and by nobody.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from streams.bench._rows import BenchFailed, Row, at_least, at_most, percentile, reference

ENDPOINTS: Final = 10
LOOKUPS: Final = 50_000
RESTARTS: Final = 3
MOST_KIB: Final = 1 << 20
RESTART_S: Final = 2.0
LOOKUP_US: Final = 1_000.0
REPORT_S_PER_MILLION: Final = 10.0
FILL_DEADLINE_S: Final = 1200.0
ANSWER_DEADLINE_S: Final = 120.0


def run(pairs: int = 10_000_000, progress: Callable[[str], Any] = lambda case: None) -> list[Row]:
    """Fold so many (endpoint, blob) pairs, in ten full reports, and answer from them. Up to 1 KiB of disk a pair meanwhile.

    Raises:
        BenchFailed: a process failed, answered wrongly or took longer than its deadline; its own words are in it.
    """
    blobs = max(1, pairs // ENDPOINTS)
    with tempfile.TemporaryDirectory(prefix="headway-bench-locality-") as directory:
        path = Path(directory)
        progress(f"folding {ENDPOINTS} full reports of {blobs:,} blobs")
        filled, _ = _child(FILL_DEADLINE_S, "fill", path, ENDPOINTS, blobs)
        answered_s, followed_s = [], []
        for number in range(RESTARTS):
            progress(f"restart {number + 1} of {RESTARTS}")
            # The tail is folded by the first one only; the others find it in the store and pass over it.
            answers, began_s = _child(ANSWER_DEADLINE_S, "answer", path, ENDPOINTS, blobs, LOOKUPS)
            answered_s.append(answers["answered_at_s"] - began_s)
            followed_s.append(answers["followed_at_s"] - began_s)
    took_s, report_s = filled["took_s"], REPORT_S_PER_MILLION * blobs / 1e6
    usual_s = median(took_s)  # one that a busy machine held up says nothing of the fold
    looked_up = f"lookup of who holds a blob, {filled['pairs']:,} pairs"
    return [
        reference("pairs", filled["pairs"], "pairs"),
        at_most("resident memory of the process that answers", answers["resident_kib"], "KiB", MOST_KIB),
        at_most("the most it ever was", answers["peak_kib"], "KiB", MOST_KIB),
        at_most("the most of the process that folds", filled["peak_kib"], "KiB", MOST_KIB),
        at_most("restart after a kill to the first correct answer", max(answered_s), "s", RESTART_S),
        at_most("the same, with the 1,000 events behind the store folded", followed_s[0], "s", RESTART_S),
        at_most(f"{looked_up}, p50", percentile(answers["waits_ns"], 0.50) / 1e3, "us", LOOKUP_US),
        at_most(f"{looked_up}, p99", percentile(answers["waits_ns"], 0.99) / 1e3, "us", LOOKUP_US),
        reference("who holds most bytes of 64 inputs, p50", percentile(answers["asked_ns"], 0.50) / 1e3, "us"),
        reference("who holds most bytes of 64 inputs, p99", percentile(answers["asked_ns"], 0.99) / 1e3, "us"),
        at_least("fold of new pairs", blobs / usual_s, "pairs/s", 1e6 / REPORT_S_PER_MILLION),
        at_most(f"full report of {blobs:,} new blobs, the median", usual_s, "s", report_s),
        reference("the slowest of them", max(took_s), "s"),
        at_most(f"full report of {blobs:,} blobs that are all there", filled["again_s"], "s", report_s),
        reference("the same in no order of the digests", filled["unordered_s"], "s"),
        reference("store on the disk", filled["store_bytes"] / filled["pairs"], "bytes/pair"),
    ]


def _child(deadline_s: float, *arguments: object) -> tuple[dict[str, Any], float]:
    """What a process of `_locality_store` measured, and when it was started."""
    command = [sys.executable, "-m", "streams.bench._locality_store", *map(str, arguments)]
    began_s = time.time()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said, errors = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired as error:
        raise BenchFailed(f"`{' '.join(command)}` did not end within {deadline_s:.0f} s") from error
    finally:
        process.kill()
        process.wait()
    if process.returncode != -signal.SIGKILL:  # they end by their own hand, as killed processes do
        raise BenchFailed(f"`{' '.join(command)}` ended with {process.returncode}: {errors.strip()}")
    measured: dict[str, Any] = json.loads(said)
    return measured, began_s
