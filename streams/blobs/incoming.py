"""A blob on its way to its place on disk: hashed while it is written, and there under its name only when it is whole and right.

Here too: the lock by which a folder of blobs belongs to one process, and the sync that makes names last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import uuid
from pathlib import Path

from events.values import Digest
from streams.blobs.errors import BlobDirectoryInUse, WrongContent
from streams.blobs.naming import name_of

READ_ONLY = 0o555
"""Of a blob's file: an input may be a program; nobody writes to it."""


class Incoming:
    """A file of its own below `folder` until `finish` renames it. Its methods may be called from several threads, one after another.

    Args:
        digest: what it must turn out to be.
        folder: on the file system of the target.
        durable: whether `finish` returns only once the file and its name are on the disk.
    """

    def __init__(self, digest: Digest, folder: Path, *, durable: bool = False) -> None:
        self.digest = digest
        self._durable = durable
        self._path = folder / uuid.uuid4().hex
        self._sha = hashlib.sha256()
        self._size = 0
        # A fetch that is given up closes the file while a thread may still write to it; the number could be another file's by then.
        self._lock = threading.Lock()
        self._file = open(self._path, "xb")  # noqa: SIM115

    def write(self, data: bytes) -> None:
        """More of the content. Raises WrongContent as soon as there is too much of it; OSError; ValueError after `discard`."""
        with self._lock:
            self._size += len(data)
            if self._size > self.digest.size_bytes:
                raise WrongContent(name_of(self.digest), f"there are more than {self.digest.size_bytes} bytes")
            self._sha.update(data)
            self._file.write(data)

    def check(self) -> None:
        """Compare what is here with the digest. Raises WrongContent."""
        with self._lock:
            if self._size != self.digest.size_bytes:
                raise WrongContent(
                    name_of(self.digest), f"there are {self._size} bytes instead of {self.digest.size_bytes}"
                )
            found = self._sha.digest()
            if found != self.digest.hash:
                raise WrongContent(name_of(self.digest), f"the content's SHA-256 is {found.hex()}")

    def finish(self, target: Path) -> None:
        """Put it in its place. Raises WrongContent where it is not what its digest says; OSError. Either way, `discard` it then."""
        self.check()
        with self._lock:
            self._file.flush()
            os.fchmod(self._file.fileno(), READ_ONLY)
            if self._durable:
                os.fsync(self._file.fileno())
            self._file.close()
            target.parent.mkdir(exist_ok=True)
            os.rename(self._path, target)
            if self._durable:
                sync_folder(target.parent)

    def discard(self) -> None:
        """Leave nothing of it behind, unless it is in its place already."""
        with self._lock:
            self._file.close()
            self._path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Returns once the names in a folder are on the disk, and its own name in its parent."""
    for each in (folder, folder.parent):
        number = os.open(each, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def lock_folder(root: Path) -> int:
    """Hold `<root>/lock` until the returned file number is closed or the process ends. Raises BlobDirectoryInUse; OSError."""
    number = os.open(root / "lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(number)
        raise BlobDirectoryInUse(str(root)) from error
    return number
