"""Asks the locality views of a stage whose processes come and go, and times what they say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from streams.demo.stage import Stage
from streams.errors import StreamError
from streams.locality import LocalityReader
from streams.returning.population import INSTANCE, Resident, blob, holders

POLL_S = 0.02

Found = TypeVar("Found")


class NotSo(RuntimeError):
    """What must come to be did not, in time."""


async def until(
    what: str, ask: Callable[[], Awaitable[Found]], holds: Callable[[Found], bool], stage: Stage, *, timeout_s: float
) -> Found:
    """Ask until the answer is the one that is waited for. What refuses or does not answer is asked again.

    Raises NotSo with the last answer; what ended the supervisor, if that happens first.
    """
    deadline_s, last = time.monotonic() + timeout_s, "nothing"
    while True:
        stage.check()
        try:
            found = await ask()
        except StreamError as error:
            last = error.message
        else:
            if holds(found):
                return found
            last = repr(found)[:300]
        if time.monotonic() > deadline_s:
            raise NotSo(f"waited {timeout_s:g} s in vain for {what}; last: {last}; logs are in {stage.home / 'log'}")
        await asyncio.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class Lookups:
    """What a sample of look-ups gave: how many named exactly the right holders, the first that did not, and the times in ms."""

    right: int
    wrong: str
    confirmed: int
    p50_ms: float
    p99_ms: float


async def look_up(reader: LocalityReader, population: dict[str, Resident], sample: Sequence[int]) -> Lookups:
    """Ask for every blob of the sample and hold the answers against the population."""
    right, confirmed, wrong, times_ms = 0, 0, "", []
    for index in sample:
        begun_s = time.perf_counter()
        found = await reader.holders(blob(index))
        times_ms.append((time.perf_counter() - begun_s) * 1000)
        seen = {holder.endpoint: holder.boot_epoch for holder in found.holders}
        confirmed += sum(holder.confirmed for holder in found.holders)
        if seen == holders(population, index) and found.position.complete:
            right += 1
        elif not wrong:
            wrong = f"blob {index}: {seen}, wanted {holders(population, index)}, complete {found.position.complete}"
    times_ms.sort()
    return Lookups(
        right,
        wrong,
        confirmed,
        round(times_ms[len(times_ms) // 2], 2),
        round(times_ms[min(len(times_ms) - 1, len(times_ms) * 99 // 100)], 2),
    )


async def everything(reader: LocalityReader, population: dict[str, Resident], sample: Sequence[int]) -> dict[str, Any]:
    """What is answered, but for what moves by itself: confirmations, which a later leader begins anew, and garbage, which ticks clean."""
    answers: dict[str, Any] = {}
    for index in sample:
        found = await reader.holders(blob(index))
        answers[f"blob {index}"] = [
            (holder.endpoint, holder.boot_epoch, holder.blobs_url, holder.connected) for holder in found.holders
        ]
    for name in population:
        inventory = await reader.endpoint(INSTANCE, name, blobs=1_000)
        if inventory is None:
            answers[name] = None
            continue
        view = inventory.endpoint
        known = (
            view.boot_epoch,
            view.connection_id,
            view.connected,
            view.blobs,
            view.pins,
            view.wipes,
            view.wiped.name,
        )
        answers[name] = (*known, view.report, view.flaps, inventory.blobs)
    stats, _ = await reader.stats()
    answers["stats"] = (stats.endpoints, stats.connected, stats.pairs, stats.pins)
    return answers
