"""The stable store: a fast tier that takes large blobs at once, and a durable one that makes every blob last (PF1).

`TieredStore.put` answers for a large blob when the fast tier has it, and it goes to the durable tier behind; for a small one (at most
16 KiB) only when the durable tier has acknowledged it. "It is here" is not "it lasts": `holds` says the first, `is_durable` the second,
and only the second may be announced to workers, which give up their own copies for it.

The fast tier is in memory, or a directory on a quick disk; it holds what is on its way and no more. A blob that is noted as not announced
stays noted over a crash, so an announcement is made late, perhaps twice, but never forgotten.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Protocol

from events.values import Digest
from streams.blobs.errors import BlobTooLarge, IntakeStopped, NoRoomForBlob, TierFailed, UnreadableDigest, WrongContent
from streams.blobs.incoming import Incoming, lock_folder, sync_folder
from streams.blobs.naming import READ_BYTES, digest_named, digest_of, name_of
from streams.log_lines import say

SMALL_BYTES = 16 << 10
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.5, 30.0

_log = logging.getLogger("headway.blobs")


class Receiving(Protocol):
    """A blob that is being written."""

    def write(self, data: bytes) -> None:
        """More of the content."""
        ...


class FastTier(Protocol):
    """Where large blobs wait for the durable tier. Called from threads."""

    def begin(self, digest: Digest) -> Receiving:
        """Begin to write a blob. Raises BlobTooLarge; NoRoomForBlob; OSError."""
        ...

    def finish(self, receiving: Receiving) -> None:
        """It is whole: from now on it is held. Raises WrongContent."""
        ...

    def give_up(self, receiving: Receiving) -> None:
        """Leave nothing of it."""
        ...

    def holds(self, digest: Digest) -> bool:
        """Whether it is here."""
        ...

    def open(self, digest: Digest) -> BinaryIO | None:
        """The content for reading."""
        ...

    def remove(self, digest: Digest) -> None:
        """It is not needed here any more."""
        ...

    def digests(self) -> list[Digest]:
        """What is here."""
        ...

    def close(self) -> None:
        """Give up what the tier itself holds."""
        ...


class _InMemory:
    def __init__(self, digest: Digest) -> None:
        self.digest = digest
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        if len(self.data) + len(data) > self.digest.size_bytes:
            raise WrongContent(name_of(self.digest), f"there are more than {self.digest.size_bytes} bytes")
        self.data += data


class MemoryTier:
    """A fast tier in memory: gone when its process is, so a large blob that was put a moment before a crash has to be put again."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._used_bytes = 0
        self._lock = threading.Lock()
        self._blobs: dict[Digest, bytes] = {}

    def begin(self, digest: Digest) -> _InMemory:
        """See `FastTier.begin`."""
        size = digest.size_bytes
        if size > self._budget_bytes:
            raise BlobTooLarge(name_of(digest), size, self._budget_bytes)
        with self._lock:
            if self._used_bytes + size > self._budget_bytes:
                raise NoRoomForBlob(name_of(digest), size, self._budget_bytes, self._used_bytes)
            self._used_bytes += size
        return _InMemory(digest)

    def finish(self, receiving: Receiving) -> None:
        """See `FastTier.finish`."""
        assert isinstance(receiving, _InMemory)
        data = bytes(receiving.data)
        if digest_of(data) != receiving.digest:
            raise WrongContent(name_of(receiving.digest), "the content's SHA-256 or size is another")
        with self._lock:
            if receiving.digest in self._blobs:
                self._used_bytes -= len(data)
            self._blobs[receiving.digest] = data

    def give_up(self, receiving: Receiving) -> None:
        """See `FastTier.give_up`."""
        assert isinstance(receiving, _InMemory)
        with self._lock:
            self._used_bytes -= receiving.digest.size_bytes

    def holds(self, digest: Digest) -> bool:
        """See `FastTier.holds`."""
        return digest in self._blobs

    def open(self, digest: Digest) -> BinaryIO | None:
        """See `FastTier.open`."""
        data = self._blobs.get(digest)
        return None if data is None else io.BytesIO(data)

    def remove(self, digest: Digest) -> None:
        """See `FastTier.remove`."""
        with self._lock:
            if self._blobs.pop(digest, None) is not None:
                self._used_bytes -= digest.size_bytes

    def digests(self) -> list[Digest]:
        """See `FastTier.digests`."""
        with self._lock:
            return sorted(self._blobs)

    def close(self) -> None:
        """See `FastTier.close`."""


class FolderTier:
    """Blobs as files in a directory of its own. As a fast tier it outlives its process, though not a power failure.

    Raises BlobDirectoryInUse: another process has it.
    """

    durable = False

    def __init__(self, root: Path) -> None:
        self._blobs_at, self._incoming_at = root / "blobs", root / "incoming"
        for folder in (self._blobs_at, self._incoming_at):
            folder.mkdir(parents=True, exist_ok=True)
        self._held = lock_folder(root)
        for left in self._incoming_at.iterdir():
            left.unlink()

    def begin(self, digest: Digest) -> Incoming:
        """See `FastTier.begin`."""
        return Incoming(digest, self._incoming_at, durable=self.durable)

    def finish(self, receiving: Receiving) -> None:
        """See `FastTier.finish`."""
        assert isinstance(receiving, Incoming)
        receiving.finish(self._path(receiving.digest))

    def give_up(self, receiving: Receiving) -> None:
        """See `FastTier.give_up`."""
        assert isinstance(receiving, Incoming)
        receiving.discard()

    def holds(self, digest: Digest) -> bool:
        """See `FastTier.holds`."""
        return self._path(digest).exists()

    def open(self, digest: Digest) -> BinaryIO | None:
        """See `FastTier.open`."""
        try:
            return open(self._path(digest), "rb")
        except FileNotFoundError:
            return None

    def remove(self, digest: Digest) -> None:
        """See `FastTier.remove`."""
        self._path(digest).unlink(missing_ok=True)

    def digests(self) -> list[Digest]:
        """See `FastTier.digests`."""
        return sorted(_named(path.name for folder in self._blobs_at.iterdir() for path in folder.iterdir()))

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._held)

    def _path(self, digest: Digest) -> Path:
        name = name_of(digest)
        return self._blobs_at / name[:2] / name


class DurableTier(FolderTier):
    """Blobs that last: `write` returns when the file and its name are on the disk (fsync).

    Beside them, `unannounced/` has an empty file for each blob that was taken and not yet announced as stable.
    """

    durable = True

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._unannounced_at, self._wrong_at = root / "unannounced", root / "wrong"
        self._unsure: set[Digest] = set()  # under their names, perhaps, and not known to be on the disk
        for folder in (self._unannounced_at, self._wrong_at):
            folder.mkdir(exist_ok=True)

    def write(self, digest: Digest, pieces: Iterable[bytes]) -> None:
        """Take a blob for good. Raises WrongContent; OSError."""
        receiving = self.begin(digest)
        try:
            for piece in pieces:
                receiving.write(piece)
            self.finish(receiving)
        except BaseException:
            self.give_up(receiving)
            raise

    def finish(self, receiving: Receiving) -> None:
        """See `FastTier.finish`; the blob lasts once this returns, and not before (PF1)."""
        assert isinstance(receiving, Incoming)
        receiving.check()  # what is wrong says nothing about a right one that is here
        self._unsure.add(receiving.digest)
        super().finish(receiving)
        self._unsure.discard(receiving.digest)

    def lasts(self, digest: Digest) -> bool:
        """Whether file and name are on the disk. A name stands before it is, and where its sync has failed."""
        return digest not in self._unsure and self.holds(digest)

    def sync_names(self, digests: Iterable[Digest]) -> None:
        """Of blobs that are here: a process before may have been killed between giving a name and its sync. Raises OSError."""
        for folder in sorted({self._path(digest).parent for digest in digests if self.holds(digest)}):
            sync_folder(folder)

    def set_aside(self, digest: Digest) -> None:
        """A blob whose content is wrong: out of the way, into `wrong/`, so that it can be put again and looked into."""
        try:
            os.rename(self._path(digest), self._wrong_at / name_of(digest))
        except FileNotFoundError:
            return  # another reader has found it as well

    def note_unannounced(self, digest: Digest) -> None:
        """The blob is to be announced once it is durable. Its name is on the disk before the blob is, so that it is not forgotten."""
        (self._unannounced_at / name_of(digest)).touch()
        sync_folder(self._unannounced_at)

    def unannounced(self) -> list[Digest]:
        """What is noted, sorted; durable or not."""
        return sorted(_named(path.name for path in self._unannounced_at.iterdir()))

    def note_announced(self, digests: Iterable[Digest]) -> None:
        """These have been announced, or are not here to be announced."""
        for digest in digests:
            (self._unannounced_at / name_of(digest)).unlink(missing_ok=True)


def _named(names: Iterable[str]) -> list[Digest]:
    found = []
    for name in names:
        try:
            found.append(digest_named(name))
        except UnreadableDigest:
            continue  # not one of ours; it is left alone
    return found


class TieredStore:
    """The two tiers as one store. Belongs to one event loop; `holds`, `open` and `remove_wrong` may be called from threads.

    Args:
        fast: takes large blobs first.
        durable: makes all of them last.
    """

    def __init__(self, fast: FastTier, durable: DurableTier) -> None:
        self._fast = fast
        self._durable = durable
        self._pending = dict.fromkeys(fast.digests())  # in the fast tier, to be made durable
        # What a memory tier lost with its process will be put, and noted, again.
        known = durable.unannounced()
        durable.note_announced([digest for digest in known if not self.holds(digest)])
        durable.sync_names(known)
        self._to_announce = dict.fromkeys(digest for digest in known if self.holds(digest))
        self._taking: Counter[Digest] = Counter()
        self._finishing = 0  # puts whose content is here, and that are not answered yet
        self._finished = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._takes = True
        self.put_bytes = 0

    def close(self) -> None:
        """Let other processes have the directories; `flush` before."""
        self._fast.close()
        self._durable.close()

    # -- asking ---------------------------------------------------------------------------------------------------------

    def holds(self, digest: Digest) -> bool:
        """Whether the blob is in either tier. It may not last: see `is_durable`."""
        # In the order in which a flush moves it: asked the other way round, one that is just moved would be in neither.
        return self._fast.holds(digest) or self._durable.holds(digest)

    def is_durable(self, digest: Digest) -> bool:
        """Whether the durable tier has the blob for good (PF1)."""
        return self._durable.lasts(digest)

    def open(self, digest: Digest) -> BinaryIO | None:
        """The content for reading, from whichever tier has it."""
        return self._fast.open(digest) or self._durable.open(digest)

    def remove_wrong(self, digest: Digest) -> None:
        """The content is not what the digest says."""
        if self._durable.holds(digest):
            say(_log, logging.ERROR, "a durable blob is damaged and set aside", blob=name_of(digest))
            self._durable.set_aside(digest)
        else:
            self._fast.remove(digest)

    @property
    def pending(self) -> int:
        """How many blobs wait for the durable tier."""
        return len(self._pending)

    def to_announce(self) -> list[Digest]:
        """Blobs that were taken and not announced as stable, durable or not."""
        return list(self._to_announce)

    def announced(self, digests: Iterable[Digest]) -> None:
        """These have been announced."""
        done = list(digests)
        self._durable.note_announced(done)
        for digest in done:
            self._to_announce.pop(digest, None)

    # -- taking ---------------------------------------------------------------------------------------------------------

    def stop_intake(self) -> None:
        """Take nothing from clients any more; `pull` still does."""
        self._takes = False

    async def put(self, digest: Digest, content: AsyncIterator[bytes]) -> bool:
        """Take a blob from a client; False where it is here already.

        Raises IntakeStopped; WrongContent; BlobTooLarge and NoRoomForBlob of the fast tier; TierFailed where a small blob does not last.
        """
        if not self._takes:
            raise IntakeStopped
        taken = False

        async def while_taken() -> AsyncGenerator[bytes, None]:
            nonlocal taken
            async for piece in content:
                if not self._takes:
                    raise IntakeStopped
                yield piece
            if not self._takes:
                raise IntakeStopped
            taken = True
            self._finishing += 1

        try:
            async with aclosing(while_taken()) as pieces:
                return await self.pull(digest, pieces)
        finally:
            if taken:
                self._finishing -= 1
                self._finished.set()

    async def pull(self, digest: Digest, content: AsyncIterator[bytes]) -> bool:
        """As `put`, also while the intake is stopped."""
        if await asyncio.to_thread(lambda: self._fast.holds(digest) or self._durable.lasts(digest)):
            return False
        self._taking[digest] += 1
        try:
            await asyncio.to_thread(self._durable.note_unannounced, digest)
            self._to_announce[digest] = None
            if digest.size_bytes <= SMALL_BYTES:
                await self._take_small(digest, content)
            else:
                await self._take_large(digest, content)
        except BaseException:
            # Another one who brings the same blob may still succeed, and then it is to be announced.
            if self._taking[digest] == 1 and not self.holds(digest):
                self.announced([digest])
            raise
        finally:
            self._taking[digest] -= 1
            if not self._taking[digest]:
                del self._taking[digest]
        self.put_bytes += digest.size_bytes
        return True

    async def _take_small(self, digest: Digest, content: AsyncIterator[bytes]) -> None:
        receiving = _InMemory(digest)
        async for piece in content:
            receiving.write(piece)
        try:
            await asyncio.to_thread(self._durable.write, digest, [bytes(receiving.data)])
        except OSError as error:
            raise TierFailed(name_of(digest), 1, error.strerror or str(error)) from error

    async def _take_large(self, digest: Digest, content: AsyncIterator[bytes]) -> None:
        try:
            receiving = self._fast.begin(digest)
        except NoRoomForBlob:
            await self.flush()  # what it holds is on its way out
            receiving = self._fast.begin(digest)
        try:
            async for piece in content:
                await asyncio.to_thread(receiving.write, piece)
            await asyncio.to_thread(self._fast.finish, receiving)
        except BaseException:
            self._fast.give_up(receiving)
            raise
        self._pending[digest] = None
        self._wake.set()

    # -- making it last -------------------------------------------------------------------------------------------------

    async def flush(self) -> int:
        """Bring everything that the fast tier holds into the durable one; returns how many blobs were written.

        Takes as long as it takes. What is durable already is skipped, so it may be called again at any time.

        Raises TierFailed; what was not written stays in the fast tier.
        """
        written = 0
        async with self._flushing:
            for digest in list(self._pending):
                if not await asyncio.to_thread(self._durable.lasts, digest):
                    written += await self._make_durable(digest)
                self._pending.pop(digest, None)
                await asyncio.to_thread(self._fast.remove, digest)
        return written

    async def _make_durable(self, digest: Digest) -> int:
        file = await asyncio.to_thread(self._fast.open, digest)
        if file is None:
            say(_log, logging.ERROR, "a blob is gone from the fast tier before it was durable", blob=name_of(digest))
            return 0
        try:
            await asyncio.to_thread(self._durable.write, digest, _pieces_of(file))
        except WrongContent as error:
            say(_log, logging.ERROR, "a blob was damaged in the fast tier", error=str(error))
            return 0
        except OSError as error:
            raise TierFailed(name_of(digest), len(self._pending), error.strerror or str(error)) from error
        finally:
            file.close()
        return 1

    async def flush_until_done(self) -> None:
        """As `flush`, again and again until the durable tier has taken everything, with growing pauses."""
        back_off_s = FIRST_BACK_OFF_S
        while self._finishing and not self._takes:  # the intake is stopped, and these were in before
            self._finished.clear()
            await self._finished.wait()
        while True:
            try:
                await self.flush()
                return
            except TierFailed as error:
                say(_log, logging.ERROR, "the durable tier does not take blobs; trying again", error=str(error))
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)

    async def flush_behind(self, flushed: Callable[[], None] = lambda: None) -> None:
        """Flush whenever there is something, for ever; `flushed` is called after each time."""
        while True:
            if self._pending:
                await self.flush_until_done()
                flushed()
            self._wake.clear()
            if not self._pending:
                await self._wake.wait()


def _pieces_of(file: BinaryIO) -> Iterable[bytes]:
    while data := file.read(READ_BYTES):
        yield data
