"""The two folders of a run beside its working directory: what it reads, and what it leaves.

    HEADWAY_INPUTS     its inputs, one file each, named by the digest's hex
    HEADWAY_OUTPUTS    empty at first; every file left in it becomes a blob of this worker

Inputs are hard links of the directory's files (symbolic links where that is not possible), read-only. A run that changes one all the same
is found out when the input is given up: the directory looks at it again. Outputs are copied, so nothing that outlives the run can change
them. Blocks; a run's thread calls it.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from events.reasons import RunResult
from events.values import Digest
from streams.blobs.directory import BlobDirectory, Pin
from streams.blobs.errors import BlobTooLarge, NoRoomForBlob, WrongContent
from streams.blobs.naming import name_of
from streams.log_lines import say
from streams.worker.protocol import RunReport

MOST_OUTPUTS = 4_096
_MOST_SHOWN_CHARACTERS = 1_024
"""Of a report's message."""

_log = logging.getLogger("headway.worker")


class RunFolders:
    """The folders of one run, below `root` as `<dispatch id>.inputs` and `.outputs`; `outputs` has what it left, by path."""

    def __init__(self, root: Path, dispatch_id: int, inputs: Sequence[Pin], directory: BlobDirectory) -> None:
        self.outputs: dict[str, Digest] = {}
        self._dispatch_id = dispatch_id
        self._inputs = inputs
        self._directory = directory
        self._inputs_at, self._outputs_at = root / f"{dispatch_id}.inputs", root / f"{dispatch_id}.outputs"

    def make(self) -> dict[str, str]:
        """Make both; returns the variables that name them. Raises OSError."""
        self.remove()  # of a run before, whose files could not all be removed then
        for folder in (self._inputs_at, self._outputs_at):
            folder.mkdir(mode=0o700, parents=True)
        for pin in self._inputs:
            target = self._inputs_at / pin.digest.hash.hex()
            try:
                os.link(pin.path, target)
            except FileExistsError:
                continue  # the same content under another size cannot be; the same digest twice can
            except OSError:
                target.symlink_to(pin.path)  # another file system, or one without hard links
        return {"HEADWAY_INPUTS": str(self._inputs_at), "HEADWAY_OUTPUTS": str(self._outputs_at)}

    def collected(self, report: RunReport) -> RunReport:
        """Take what the run left, if it came to its own end, and say so in its report."""
        if report.result is not RunResult.EXITED:
            return report
        try:
            for path in self._files():
                self.outputs[str(path.relative_to(self._outputs_at))] = self._directory.add_file(path)
        except BlobTooLarge as error:
            return report._replace(result=RunResult.FAILED_PRECONDITION, message=_cut(f"an output: {error.message}"))
        except (NoRoomForBlob, WrongContent) as error:
            return report._replace(result=RunResult.INTERNAL_ERROR, message=_cut(f"an output: {error.message}"))
        except _TooMany as error:
            return report._replace(result=RunResult.FAILED_PRECONDITION, message=_cut(str(error)))
        if not self.outputs:
            return report
        names = {path: name_of(digest) for path, digest in self.outputs.items()}
        say(_log, logging.INFO, "outputs are kept", dispatch_id=self._dispatch_id, outputs=names)
        return report._replace(message=_listed(report.message, names))

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for folder, _, names in os.walk(self._outputs_at):
            for name in names:
                path = Path(folder, name)
                if path.is_symlink() or not path.is_file():
                    say(_log, logging.WARNING, "not a regular file, so no output", path=str(path))
                    continue
                found.append(path)
                if len(found) > MOST_OUTPUTS:
                    raise _TooMany(f"it left more than {MOST_OUTPUTS} files in HEADWAY_OUTPUTS; pack them into fewer")
        return sorted(found)

    def remove(self) -> None:
        """Leave nothing of them, as far as the run's own files let it."""
        for folder in (self._inputs_at, self._outputs_at):
            shutil.rmtree(folder, ignore_errors=True)


class _TooMany(Exception):
    """More outputs than one action may have."""


def _listed(message: str, names: dict[str, str]) -> str:
    """The message with the outputs behind it, as many as it has room for."""
    begin = f"{message}; outputs:" if message else "outputs:"
    for number, (path, name) in enumerate(names.items()):
        shown = f" {path.encode('utf-8', 'backslashreplace').decode()}={name}"
        rest = f" and {len(names) - number} more"
        if len(begin) + len(shown) + len(rest) > _MOST_SHOWN_CHARACTERS:
            return begin + rest
        begin += shown
    return begin


def _cut(message: str) -> str:
    return message[:_MOST_SHOWN_CHARACTERS]
