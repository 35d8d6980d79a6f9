"""A worker's blobs: files named by their digests, within a budget of bytes, the least recently used ones given up first.

    <root>/blobs/<2 hex digits>/<hex>-<size>     the blobs, read-only
    <root>/incoming/                             what is being written
    <root>/lock                                  held by the process whose directory it is

What is stable (in durable storage, so others can have it from there) is given up before what perhaps only this worker has, and what a run
or the mirror has pinned never. Reading refreshes a blob; its file's modification time is when it was last used, so the order survives a
restart. What is stable does not: a new process is told anew.

A file found at the start is checked by its size at once, and by its content when it is used for the first time. A run could write to its
inputs if it is the file's owner or root, so a file whose size or time has changed under a pin is checked again. What turns out to be
wrong is removed and counted.

Every change is noted until somebody asks for `changes`: that is how evictions reach the locality map. Safe for threads.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from events.values import Digest
from streams.blobs.errors import BlobTooLarge, NoRoomForBlob, UnreadableDigest
from streams.blobs.incoming import Incoming, lock_folder
from streams.blobs.naming import READ_BYTES, digest_named, digest_of_file, name_of
from streams.log_lines import say

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of this process or machine that say nothing about the file."""

_log = logging.getLogger("headway.blobs")


@dataclass(slots=True)
class DirectoryCounts:
    """What became of blobs since the start of this process."""

    half_written: int = 0  # files of a former process that were not finished
    wrong: int = 0  # files whose size or content was not what their name says
    foreign: int = 0  # files whose name is no digest, and folders; they are left alone
    evicted: int = 0
    lost: int = 0  # removed by somebody else


@dataclass(slots=True, eq=False)
class _Blob:
    used_at_ns: int
    stable: bool = False
    checked: bool = True
    pins: int = 0


class Pin(NamedTuple):
    """A blob that stays until `BlobDirectory.unpin`, and its file."""

    digest: Digest
    path: Path
    blob: _Blob


class Changes(NamedTuple):
    """What has come and gone; no digest stands in both."""

    added: list[Digest]
    evicted: list[Digest]


class BlobDirectory:
    """The blobs below `root`. Close it at the end.

    Args:
        root: made where it is not there.
        budget_bytes: the most that blobs take, those being written included.
        now_ns: the wall clock, nanoseconds since 1970.

    Raises:
        BlobDirectoryInUse: another process has it.
        OSError: it cannot be made or read.
    """

    def __init__(self, root: Path, budget_bytes: int, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        if budget_bytes < 1:
            raise ValueError(f"a budget of {budget_bytes} bytes is refused: at least 1")
        self.counts = DirectoryCounts()
        self.budget_bytes = budget_bytes
        self.used_bytes = 0  # of the blobs that are held
        self._blobs_at, self._incoming_at = root / "blobs", root / "incoming"
        self._now_ns = now_ns
        self._latest_ns = 0
        self._lock = threading.Lock()
        self._blobs: dict[Digest, _Blob] = {}
        self._stable: OrderedDict[Digest, None] = OrderedDict()  # not pinned, the least recently used first
        self._worker_only: OrderedDict[Digest, None] = OrderedDict()  # the same
        self._arriving: set[Incoming] = set()
        self._reserved_bytes = 0  # for those
        self._changes: dict[Digest, bool] = {}
        for folder in (self._blobs_at, self._incoming_at):
            folder.mkdir(parents=True, exist_ok=True)
        self._held = lock_folder(root)
        self._take_stock()

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._held)

    # -- the start ------------------------------------------------------------------------------------------------------

    def _take_stock(self) -> None:
        for left in self._incoming_at.iterdir():
            if left.is_dir():
                self.counts.foreign += 1
                continue
            left.unlink()
            self.counts.half_written += 1
        found: list[tuple[int, Digest]] = []
        for folder in self._blobs_at.iterdir():
            if not folder.is_dir():
                self.counts.foreign += 1
                continue
            with os.scandir(folder) as files:
                for file in files:
                    try:
                        digest = digest_named(file.name)
                    except UnreadableDigest:
                        self.counts.foreign += 1
                        continue
                    if file.is_dir(follow_symlinks=False):
                        self.counts.foreign += 1
                        continue
                    at = file.stat(follow_symlinks=False)
                    if Path(file.path) != self._path(digest) or at.st_size != digest.size_bytes:
                        os.unlink(file.path)
                        self.counts.wrong += 1
                        continue
                    found.append((at.st_mtime_ns, digest))
        for used_at_ns, digest in sorted(found):
            self._blobs[digest] = _Blob(used_at_ns, checked=False)
            self._worker_only[digest] = None
            self.used_bytes += digest.size_bytes
            self._latest_ns = max(self._latest_ns, used_at_ns)
        while self.used_bytes > self.budget_bytes:
            self._evict(next(iter(self._worker_only)))

    # -- what there is --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._blobs)

    def holds(self, digest: Digest) -> bool:
        """Whether the blob is here."""
        with self._lock:
            return digest in self._blobs

    def snapshot(self) -> list[Digest]:
        """Every blob, in no order. `changes` begins anew from here, so that a full report and the deltas after it leave nothing out."""
        with self._lock:
            self._changes.clear()
            return list(self._blobs)  # quick: everything else waits for the lock

    def changes(self) -> Changes:
        """What has changed since `snapshot`, or since this was asked last."""
        with self._lock:
            changes, self._changes = self._changes, {}
        added = [digest for digest, is_here in changes.items() if is_here]
        return Changes(added, [digest for digest, is_here in changes.items() if not is_here])

    # -- reading --------------------------------------------------------------------------------------------------------

    def open(self, digest: Digest) -> BinaryIO | None:
        """The blob's file for reading; None where it is not here. Counts as a use."""
        with self._lock:
            blob = self._blobs.get(digest)
            if blob is None:
                return None
            if not self._touch(digest, blob):
                return None
            return open(self._path(digest), "rb")

    def pin(self, digest: Digest) -> Pin | None:
        """Keep the blob until `unpin`; None where it is not here, or has to be checked first (`is_unchecked`). Counts as a use."""
        with self._lock:
            blob = self._blobs.get(digest)
            if blob is None or not blob.checked:
                return None
            if not self._touch(digest, blob):
                return None
            if blob.pins == 0:
                self._idle(blob).pop(digest)
            blob.pins += 1
            return Pin(digest, self._path(digest), blob)

    def unpin(self, pin: Pin) -> None:
        """Give up a pin. Reads the file again where something has changed it meanwhile."""
        digest, path, blob = pin
        with self._lock:
            blob.pins -= 1
            if self._blobs.get(digest) is not blob:
                return  # it was removed under the pin
            if blob.pins == 0:
                self._idle(blob)[digest] = None
            try:
                at = path.stat()
            except FileNotFoundError:
                self._lose(digest)
                return
            if (at.st_size, at.st_mtime_ns) != (digest.size_bytes, blob.used_at_ns):
                blob.checked = False
            self._touch(digest, blob)
            checked = blob.checked
        if not checked:
            try:
                self.check(digest)
            except OSError as error:  # it stays unchecked, so it is looked at before its next use
                what = "a blob that has changed cannot be looked at now"
                say(_log, logging.WARNING, what, blob=name_of(digest), error=str(error))

    def is_unchecked(self, digest: Digest) -> bool:
        """Whether the blob is here and its content was not looked at by this process."""
        with self._lock:
            blob = self._blobs.get(digest)
            return blob is not None and not blob.checked

    def check(self, digest: Digest) -> bool:
        """Read the blob and compare; one that is wrong is removed. Takes as long as reading it. False: it is not here (any more).

        Raises OSError where this process is short of files or memory: the blob stays, and stays unchecked.
        """
        with self._lock:
            blob = self._blobs.get(digest)
        if blob is None:
            return False
        path = self._path(digest)
        try:
            used_at_ns = path.stat().st_mtime_ns
            right = digest_of_file(path) == digest
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            right = False  # a disk that cannot be read holds nothing
        with self._lock:
            if self._blobs.get(digest) is not blob:
                return False  # given up meanwhile
            if right:
                blob.used_at_ns = used_at_ns if blob.pins else blob.used_at_ns
                blob.checked = True
            else:
                self._forget(digest)
                self.counts.wrong += 1
            return right

    def remove_wrong(self, digest: Digest) -> None:
        """The blob's content has turned out not to be what its digest says: it goes, pinned or not."""
        with self._lock:
            if digest in self._blobs:
                self._forget(digest)
                self.counts.wrong += 1

    # -- writing --------------------------------------------------------------------------------------------------------

    def write(self, digest: Digest, data: bytes) -> None:
        """Take a whole blob. Raises as `begin` and `finish` do; nothing happens where it is here."""
        with self.receiving(digest) as incoming:
            if incoming is not None:
                incoming.write(data)

    def add_file(self, source: Path) -> Digest:
        """Take a copy of a file: a hash is worth nothing of a file that its owner can still write to. Raises as `write`; OSError."""
        digest = digest_of_file(source)
        with self.receiving(digest) as incoming:
            if incoming is not None:
                with open(source, "rb") as file:
                    while data := file.read(READ_BYTES):
                        incoming.write(data)
        return digest

    @contextmanager
    def receiving(self, digest: Digest) -> Iterator[Incoming | None]:
        """`begin` and `finish` around what writes it; None where the blob is here."""
        incoming = self.begin(digest)
        if incoming is None:
            yield None
            return
        try:
            yield incoming
            self.finish(incoming)
        except BaseException:
            self.give_up(incoming)
            raise

    def begin(self, digest: Digest, *, only_for_stable: bool = False) -> Incoming | None:
        """Make room for a blob and begin to write it; None where it is here. End with `finish` or `give_up`.

        Args:
            only_for_stable: give up nothing for it but what is stable.

        Raises:
            BlobTooLarge: it is larger than the budget. Nothing was given up.
            NoRoomForBlob: too much is pinned or being written. Nothing was given up.
            OSError: the disk does not take it.
        """
        size, budget = digest.size_bytes, self.budget_bytes
        if size > budget:
            raise BlobTooLarge(name_of(digest), size, budget)
        with self._lock:
            blob = self._blobs.get(digest)
            if blob is not None and self._touch(digest, blob):
                return None
            free_bytes = budget - self.used_bytes - self._reserved_bytes
            if free_bytes < size:
                self._make_room(digest, size - free_bytes, only_for_stable)
            incoming = Incoming(digest, self._incoming_at)
            self._arriving.add(incoming)
            self._reserved_bytes += size
            return incoming

    def _make_room(self, digest: Digest, needed_bytes: int, only_stable: bool) -> None:
        victims: list[Digest] = []
        for idle in (self._stable,) if only_stable else (self._stable, self._worker_only):
            for victim in idle:
                if needed_bytes <= 0:
                    break
                victims.append(victim)
                needed_bytes -= victim.size_bytes
        if needed_bytes > 0:
            kept_bytes = self.budget_bytes - digest.size_bytes + needed_bytes
            raise NoRoomForBlob(name_of(digest), digest.size_bytes, self.budget_bytes, kept_bytes)
        for victim in victims:
            self._evict(victim)

    def finish(self, incoming: Incoming) -> None:
        """The blob is whole and takes its place. Raises WrongContent; OSError. Either way `give_up` is due then."""
        digest = incoming.digest
        incoming.finish(self._path(digest))
        with self._lock:
            self._settle(incoming)
            blob = self._blobs.get(digest)
            if blob is None:  # else another one was quicker, with the same content
                blob = self._blobs[digest] = _Blob(0)
                self._worker_only[digest] = None
                self.used_bytes += digest.size_bytes
                self._changes[digest] = True
            self._touch(digest, blob)

    def give_up(self, incoming: Incoming) -> None:
        """Leave nothing of an unfinished blob."""
        incoming.discard()
        with self._lock:
            self._settle(incoming)

    def mark_stable(self, digests: Iterable[Digest]) -> int:
        """These are in durable storage (S-3): they may go first. Returns how many of them are here; doing it again changes nothing."""
        here = 0
        with self._lock:
            for digest in digests:
                blob = self._blobs.get(digest)
                if blob is None:
                    continue
                here += 1
                if not blob.stable:
                    if not blob.pins:
                        del self._worker_only[digest]
                        self._stable[digest] = None
                    blob.stable = True
        return here

    # -- with the lock held ---------------------------------------------------------------------------------------------

    def _path(self, digest: Digest) -> Path:
        name = name_of(digest)
        return self._blobs_at / name[:2] / name

    def _idle(self, blob: _Blob) -> OrderedDict[Digest, None]:
        return self._stable if blob.stable else self._worker_only

    def _touch(self, digest: Digest, blob: _Blob) -> bool:
        """Note a use; False where somebody has removed the file."""
        path = self._path(digest)
        if blob.pins:
            # Its time stays: a run that writes to the file changes it, and that must show at the end of the pin.
            if not path.exists():
                self._lose(digest)
                return False
            return True
        # Never twice the same, so that the order of uses can be read off the files even where the clock stands still.
        now_ns = max(self._now_ns(), self._latest_ns + 1)
        try:
            os.utime(path, ns=(now_ns, now_ns))
        except FileNotFoundError:
            self._lose(digest)
            return False
        self._latest_ns = blob.used_at_ns = now_ns
        self._idle(blob).move_to_end(digest)
        return True

    def _lose(self, digest: Digest) -> None:
        self._forget(digest)
        self.counts.lost += 1

    def _settle(self, incoming: Incoming) -> None:
        if incoming in self._arriving:  # a fetch that is given up while a thread finishes it is settled once
            self._arriving.remove(incoming)
            self._reserved_bytes -= incoming.digest.size_bytes

    def _evict(self, digest: Digest) -> None:
        self._forget(digest)
        self.counts.evicted += 1

    def _forget(self, digest: Digest) -> None:
        blob = self._blobs.pop(digest)
        if not blob.pins:
            del self._idle(blob)[digest]
        self.used_bytes -= digest.size_bytes
        self._changes[digest] = False
        self._path(digest).unlink(missing_ok=True)
