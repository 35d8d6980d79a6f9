"""The blobs of one worker: serves them, reports them, takes notice of what is stable, and mirrors small ones.

    async with WorkerBlobs.at(folder, budget_bytes, instance, endpoint, options) as blobs:
        ...  # blobs.url goes into the worker's identity, blobs.executor(...) runs its actions, WorkerRuntime(blobs=blobs) reports

After each admission everything is reported, never before: what was said on a connection that does not stand yet would be wiped (E4). Then
what has changed, once a second at most; after 1,000 deltas everything again, so that a fact that went astray is made good.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from events.facts import Fact
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import BlobDirectoryUnusable
from streams.blobs.fetching import BlobClient
from streams.blobs.locating import LocalityMap
from streams.blobs.serving import BlobServer
from streams.log_lines import say
from streams.worker.action_results import ActionResults
from streams.worker.blob_reports import BlobReports, MirrorState
from streams.worker.blob_runs import BlobExecutor
from streams.worker.commands import StableChunk
from streams.worker.executors import ProcessExecutor
from streams.worker.inputs import InputSource
from streams.worker.mirror import Mirror
from streams.worker.protocol import WorkerProtocol

REPORT_EVERY_S = 1.0
DELTAS_UNTIL_FULL = 1_000
_LOOK_S = 0.05

_log = logging.getLogger("headway.worker")


class BlobOptions(NamedTuple):
    """What a worker's blobs are told by the command line.

    `host` is the address they are served on; `advertised_url` where others reach that, empty: the address itself. `store_url` and
    `locality_url` may be empty: then nobody is asked.
    """

    host: str
    port: int = 0
    advertised_url: str = ""
    store_url: str = ""
    locality_url: str = ""


class WorkerBlobs:
    """See the module; made by `at`. Belongs to one event loop.

    `said` holds facts of its parts that are to be published, in order.
    """

    def __init__(
        self,
        directory: BlobDirectory,
        results: ActionResults,
        inputs: InputSource,
        mirror: Mirror | None,
        url: str,
        said: deque[Fact],
        *,
        report_every_s: float = REPORT_EVERY_S,
    ) -> None:
        self.directory, self.results, self.inputs, self.mirror = directory, results, inputs, mirror
        self.url = url
        self.reports_made = 0
        self._said = said
        self._every_s = report_every_s
        self._reports: BlobReports | None = None
        self._mirror_said = MirrorState()

    @staticmethod
    @asynccontextmanager
    async def at(
        folder: Path,
        budget_bytes: int,
        instance: str,
        endpoint: str,
        options: BlobOptions,
        *,
        draw: Callable[[], int],
        report_every_s: float = REPORT_EVERY_S,
    ) -> AsyncIterator[WorkerBlobs]:
        """The blobs below `folder`, served until the end; `report` reports and mirrors.

        Raises BlobDirectoryInUse, BlobDirectoryUnusable, OSError, AddressTaken.
        """
        try:
            directory = await asyncio.to_thread(BlobDirectory, folder, budget_bytes)
        except OSError as error:
            raise BlobDirectoryUnusable(str(error)) from error
        server = BlobServer(directory, host=options.host, port=options.port)
        try:
            served_url = await server.start()
            async with BlobClient() as client:
                said: deque[Fact] = deque()
                locality = LocalityMap(options.locality_url, client.session) if options.locality_url else None
                inputs = InputSource(
                    directory,
                    client,
                    instance,
                    endpoint,
                    locality=locality,
                    store_url=options.store_url,
                    draw=draw,
                    publish=said.append,
                )
                mirror = Mirror(directory, inputs.take_from_store) if options.store_url else None
                results = await asyncio.to_thread(ActionResults, folder / "ac")
                url = options.advertised_url or served_url
                _say_found(directory, results, url)
                yield WorkerBlobs(directory, results, inputs, mirror, url, said, report_every_s=report_every_s)
        finally:
            await server.close()
            directory.close()

    def executor(self, inner: ProcessExecutor) -> BlobExecutor:
        """Runs actions with their inputs present."""
        return BlobExecutor(inner, self.inputs, self.directory, self.results)

    def apply_stable(self, chunk: StableChunk, *, mirror: bool) -> None:
        """A chunk of stable blobs, at once (S-3); doing it again changes nothing.

        Args:
            mirror: take the small ones, as the scheduler said at the admission.
        """
        if chunk.store == "":
            self.directory.mark_stable(chunk.digests)
            if self.mirror is not None:
                self.mirror.turn(mirror)
                self.mirror.offer(chunk.digests)
        elif chunk.store == "ac":
            self.results.mark_stable(chunk.digests)
        else:
            say(_log, logging.WARNING, "stable blobs of a store that this worker does not know", store=chunk.store)

    # -- reporting ------------------------------------------------------------------------------------------------------

    async def report(self, worker: WorkerProtocol, put: Callable[[Fact], None]) -> None:
        """Report for ever what `worker` holds, and mirror; `put` takes facts in order. Raises what either fails with."""
        works = [asyncio.create_task(self._report(worker, put), name="reports")]
        if self.mirror is not None:
            works.append(asyncio.create_task(self.mirror.run(), name="mirror"))
        try:
            done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in works:
                task.cancel()
            await asyncio.wait(works)

    async def _report(self, worker: WorkerProtocol, put: Callable[[Fact], None]) -> None:
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while True:
            await asyncio.sleep(_LOOK_S)
            while self._said:
                put(self._said.popleft())
            if not worker.admitted:
                continue
            if self._reports is None or self._reports.connection_id != worker.connection_id:
                identity = worker.identity
                self._reports = BlobReports(identity.instance, identity.endpoint, worker.connection_id)
                if self.mirror is not None:
                    self.mirror.turn(worker.small_blob_mirror)
            elif loop.time() < next_at:
                continue
            await self._report_on(self._reports, worker, put)
            next_at = loop.time() + self._every_s

    async def _report_on(self, reports: BlobReports, worker: WorkerProtocol, put: Callable[[Fact], None]) -> None:
        # First, so that what the mirror pins meanwhile stays pinned until the next report names it.
        mirrored = [] if self.mirror is None else self.mirror.pins()
        state = MirrorState() if self.mirror is None else self.mirror.state
        # In a thread: a million digests take seconds to encode, and keepalives must go on.
        facts = await asyncio.to_thread(self._facts, reports, state)
        for fact in facts:
            if not worker.admitted or worker.connection_id != reports.connection_id:
                self._reports = None  # what is left would be of a stale connection; the next admission brings all of it
                return
            put(fact)
            await asyncio.sleep(0)
        if self.mirror is not None:
            self.mirror.advertised(mirrored)
        self.reports_made += bool(facts)

    def _facts(self, reports: BlobReports, state: MirrorState) -> list[Fact]:
        if reports.number == 0 or reports.deltas >= DELTAS_UNTIL_FULL:
            held = self.directory.snapshot()
            self._mirror_said = state
            return [*reports.full(held, self.results.pins(), state)]
        changes = self.directory.changes()
        facts: list[Fact] = [*reports.evicted(changes.evicted)]
        if changes.added or self.results.changed or state != self._mirror_said:
            self._mirror_said = state
            facts += reports.delta(changes.added, self.results.pins(), state)
        return facts


def _say_found(directory: BlobDirectory, results: ActionResults, url: str) -> None:
    counts = directory.counts
    say(
        _log,
        logging.WARNING if counts.wrong or counts.half_written or results.unreadable else logging.INFO,
        "blobs are served",
        url=url,
        blobs=len(directory),
        used_kib=directory.used_bytes >> 10,
        budget_kib=directory.budget_bytes >> 10,
        results=len(results),
        removed_half_written=counts.half_written or None,
        removed_wrong=counts.wrong or None,
        removed_results=results.unreadable or None,
        foreign_files=counts.foreign or None,
    )
