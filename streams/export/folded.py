"""An exported log as a read side: its events folded in memory, answered by the same views as a running state table's."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from projections.rows import MemoryRows
from streams.errors import StreamError
from streams.export.export_log import ExportLog
from streams.readiness import Gate, Progress
from streams.replay import Progress as Told
from streams.replay import replay
from streams.serving import PublicApi
from streams.web import Views

_PATIENCE_S: Final = 10.0


class FoldedExport:
    """A `ReadSide` over the whole of an export, complete from the beginning. Use `fold_export`."""

    def __init__(self, log: ExportLog, rows: MemoryRows, events: dict[int, int]) -> None:
        self.rows = rows
        self._log = log
        self._events = events
        self._began_us = time.time_ns() // 1000
        self.gate = Gate(time.monotonic)
        self.gate.expect(events)
        for shard in events:
            self.gate.caught_up(shard)

    def shards(self) -> Sequence[int]:
        """See `ReadSide.shards`."""
        return self.gate.shards()

    def snapshot(self) -> MemoryRows:
        """See `ReadSide.snapshot`: they never change."""
        return self.rows

    def describe(self) -> dict[str, Any]:
        """See `ReadSide.describe`."""
        return {
            "pid": os.getpid(),
            "started_at_us": self._began_us,
            "engine": "export",
            "directory": str(self._log.directory),
        }

    def describe_shards(self) -> dict[int, dict[str, Any]]:
        """See `ReadSide.describe_shards`."""
        return {
            shard: {"caught_up": True, "read_by": "export", "lag": 0, "events": events}
            for shard, events in self._events.items()
        }

    def not_ready(self) -> str:
        """See `ReadSide.not_ready`."""
        return ""

    def progress(self) -> Sequence[Progress]:
        """See `ReadSide.progress`."""
        return []

    def began_us(self) -> int:
        """See `ReadSide.began_us`."""
        return self._began_us


async def fold_export(log: ExportLog, progress: Told = lambda count: None) -> FoldedExport:
    """Fold every shard of an export from its first event.

    Raises:
        BeginsLater: a shard begins later.
        DamagedLog: an event does not follow on the one before; nothing is answered from half a log.
        DamagedExport: a segment is not what the manifest says.
    """
    rows, events = MemoryRows(), {}
    for shard in log.shards:
        log.check_foldable(shard)
        found = await replay(log, shard, progress=progress)
        if found.damage is not None:
            raise found.damage
        held = found.table.rows
        assert isinstance(held, MemoryRows)
        rows.write(held.by_key)
        events[shard] = found.events
    return FoldedExport(log, rows, events)


class NotServed(StreamError):
    """The views of an export could not be served on the loopback interface."""

    code = "not-served"
    runbook = "The thread that serves them did not start in time: is the machine overloaded?"

    def __init__(self) -> None:
        super().__init__(
            f"the views did not begin to answer within {_PATIENCE_S:g} s",
            remedy="Try again on a machine with less load",
        )


@contextmanager
def served(folded: FoldedExport, *, clock_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> Iterator[str]:
    """Serve the views on the loopback interface, from a thread of this process; yields their address.

    Raises PortTaken, NotServed.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="views", daemon=True)
    api = PublicApi(Views(folded, clock_us=clock_us).add_to, 0)
    thread.start()
    try:
        try:
            asyncio.run_coroutine_threadsafe(api.start(), loop).result(_PATIENCE_S)
        except TimeoutError:
            raise NotServed from None
        try:
            yield f"http://127.0.0.1:{api.port}"
        finally:
            asyncio.run_coroutine_threadsafe(api.close(), loop).result(_PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_S)
        loop.close()
