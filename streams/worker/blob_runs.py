"""Runs whose inputs are blobs: an executor that makes them present first, and keeps what the runs leave.

Fetching counts as part of the run for the scheduler (it was accepted), not for the action's own timeout, which starts with the command.
A run that is stopped while it waits for its inputs ends at once.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from events.reasons import RunResult
from streams.blobs.directory import BlobDirectory, Pin
from streams.blobs.errors import BlobTooLarge, NoRoomForBlob
from streams.log_lines import say
from streams.placements import ActionPlaced
from streams.worker.action_results import ActionResults
from streams.worker.executors import Ended, ProcessExecutor
from streams.worker.folders import RunFolders
from streams.worker.inputs import InputMissing, InputSource
from streams.worker.process import MESSAGE_CHARACTERS
from streams.worker.protocol import NEVER_STARTED, RunReport

_log = logging.getLogger("headway.worker")


class BlobExecutor:
    """An `Executor`: `inner` runs the commands, once `inputs` has what they read. Belongs to one event loop."""

    def __init__(
        self, inner: ProcessExecutor, inputs: InputSource, directory: BlobDirectory, results: ActionResults
    ) -> None:
        self._inner = inner
        self._inputs = inputs
        self._directory = directory
        self._results = results
        self._waiting: dict[int, asyncio.Task[list[Pin]]] = {}
        self._settling: set[asyncio.Task[None]] = set()

    def start(self, placed: ActionPlaced, ended: Ended) -> None:
        """See `Executor.start`."""
        task = asyncio.create_task(self._inputs.take(placed.command.inputs), name=f"inputs-{placed.dispatch_id}")
        self._waiting[placed.dispatch_id] = task
        task.add_done_callback(partial(self._present, placed, ended))

    def _present(self, placed: ActionPlaced, ended: Ended, task: asyncio.Task[list[Pin]]) -> None:
        """Run the command, or say why it cannot be run."""
        del self._waiting[placed.dispatch_id]
        if task.cancelled():
            ended(placed.dispatch_id, NEVER_STARTED)
            return
        error = task.exception()
        if error is not None:
            ended(placed.dispatch_id, _why_not(error))
            return
        pins = task.result()
        folders = RunFolders(self._inner.root, placed.dispatch_id, pins, self._directory)
        self._inner.start(placed, partial(self._ended, placed, pins, folders, ended), folders)

    def _ended(
        self,
        placed: ActionPlaced,
        pins: list[Pin],
        folders: RunFolders,
        ended: Ended,
        dispatch_id: int,
        report: RunReport,
    ) -> None:
        # In a thread: an input that was changed under its pin is read again, however large it is. The run is over after that: whatever
        # is placed next must find the room that this one's inputs have given up.
        settling = asyncio.create_task(asyncio.to_thread(self._settle, placed, pins, folders, report))
        self._settling.add(settling)
        settling.add_done_callback(partial(self._settled, dispatch_id, report, ended))

    def _settle(self, placed: ActionPlaced, pins: list[Pin], folders: RunFolders, report: RunReport) -> None:
        for pin in pins:
            self._directory.unpin(pin)
        action = placed.action_digest if placed.cacheable else None
        if action is not None and action.hash and report.result is RunResult.EXITED and report.exit_code == 0:
            self._results.record(action, report.exit_code, folders.outputs)

    def _settled(self, dispatch_id: int, report: RunReport, ended: Ended, task: asyncio.Task[None]) -> None:
        self._settling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The run itself came to its end; what is lost is a pin of the action cache.
            say(_log, logging.ERROR, "a run's inputs or result could not be settled", error=str(error))
        ended(dispatch_id, report)

    def stop(self, dispatch_id: int) -> None:
        """See `Executor.stop`."""
        waiting = self._waiting.get(dispatch_id)
        if waiting is None:
            self._inner.stop(dispatch_id)
        else:
            waiting.cancel()

    async def close(self) -> None:
        """See `Executor.close`."""
        for task in self._waiting.values():
            task.cancel()
        if self._waiting or self._settling:
            await asyncio.wait([*self._waiting.values(), *self._settling])
        await self._inner.close()


def _why_not(error: BaseException) -> RunReport:
    match error:
        case InputMissing() | BlobTooLarge():
            result, why = RunResult.FAILED_PRECONDITION, str(error)
        case NoRoomForBlob() | OSError():
            # The machine's own limits: another worker, or this one later, can run it.
            result, why = RunResult.INTERNAL_ERROR, str(error)
        case _:
            _log.error("inputs failed in the worker itself", exc_info=error)
            result, why = RunResult.INTERNAL_ERROR, f"the worker failed: {type(error).__name__}: {error}"
    return RunReport(result, message=why[:MESSAGE_CHARACTERS])
