"""A worker's blob directory: what it verifies, keeps within its budget, gives up first, and finds again after a restart."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from events.values import Digest
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import (
    BlobDirectoryInUse,
    BlobTooLarge,
    NoRoomForBlob,
    UnreadableDigest,
    WrongContent,
)
from streams.blobs.naming import digest_named, digest_of, digest_of_file, name_of

Opened = Callable[..., BlobDirectory]


def blob(number: int, size: int = 100) -> bytes:
    return str(number).encode().ljust(size, b".")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens the directory below tmp_path, closing the one before it: a restart. Its clock counts seconds."""
    seconds = count(1_000)
    current: list[BlobDirectory] = []

    def open_(budget_bytes: int = 1_000) -> BlobDirectory:
        while current:
            current.pop().close()
        current.append(BlobDirectory(tmp_path / "blobs", budget_bytes, now_ns=lambda: next(seconds) * 10**9))
        return current[0]

    yield open_
    for each in current:
        each.close()


def fill(directory: BlobDirectory, *numbers: int, size: int = 100) -> list[Digest]:
    digests = []
    for number in numbers:
        data = blob(number, size)
        digests.append(digest_of(data))
        directory.write(digests[-1], data)
    return digests


def held(directory: BlobDirectory, digests: list[Digest]) -> list[bool]:
    return [directory.holds(digest) for digest in digests]


def files(directory: BlobDirectory) -> list[Path]:
    return sorted(path for path in directory._blobs_at.rglob("*") if path.is_file())


# -- names ------------------------------------------------------------------------------------------------------------------


def test_a_name_reads_back_and_so_does_what_events_print() -> None:
    digest = digest_of(b"abc")
    assert digest == Digest(hashlib.sha256(b"abc").digest(), 3)
    assert digest_named(name_of(digest)) == digest
    assert digest_named(str(digest)) == digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc-3",
        "a" * 64,
        "a" * 63 + "-3",
        "A" * 64 + "-3",
        "a" * 64 + "-03",
        "a" * 64 + "--3",
        "a" * 64 + f"-{2**63}",
    ],
)
def test_what_is_no_digest_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UnreadableDigest, match="64 hex digits"):
        digest_named(text)


# -- writing ----------------------------------------------------------------------------------------------------------------


def test_a_blob_stands_under_its_name_read_only_and_reads_back(opened: Opened) -> None:
    directory = opened()
    (digest,) = fill(directory, 1)
    (path,) = files(directory)
    assert path.name == name_of(digest)
    assert path.parent.name == path.name[:2]
    assert path.stat().st_mode & 0o222 == 0
    file = directory.open(digest)
    assert file is not None
    with file:
        assert file.read() == blob(1)


@pytest.mark.parametrize(
    ("data", "why"),
    [(blob(2), "SHA-256"), (blob(1)[:-1], "99 bytes instead of 100"), (blob(1) + b"x", "more than 100 bytes")],
)
def test_content_that_is_not_what_its_digest_says_leaves_nothing(opened: Opened, data: bytes, why: str) -> None:
    directory = opened()
    digest = digest_of(blob(1))
    with pytest.raises(WrongContent, match=why):
        directory.write(digest, data)
    assert not directory.holds(digest)
    assert files(directory) == list(directory._incoming_at.iterdir()) == []
    fill(directory, 1, *range(3, 12))  # and its room was given back: ten of 100 bytes fit
    assert directory.counts.evicted == 0


def test_a_blob_written_twice_at_once_is_held_once(opened: Opened) -> None:
    directory = opened()
    digest = digest_of(blob(1))
    first, second = directory.begin(digest), directory.begin(digest)
    assert first is not None
    assert second is not None
    for incoming in (first, second):
        incoming.write(blob(1))
        directory.finish(incoming)
    assert directory.used_bytes == 100
    assert directory.changes().added == [digest]
    assert directory.begin(digest) is None


def test_a_write_that_is_given_up_while_a_thread_finishes_it_is_settled_once(opened: Opened) -> None:
    directory = opened()
    digest = digest_of(blob(1))
    incoming = directory.begin(digest)
    assert incoming is not None
    incoming.write(blob(1))
    directory.finish(incoming)
    directory.give_up(incoming)
    assert directory.holds(digest)
    with pytest.raises(BlobTooLarge):
        directory.begin(Digest(b"x" * 32, 1_001))
    assert directory.begin(Digest(b"x" * 32, 900)) is not None
    with pytest.raises(NoRoomForBlob):
        directory.begin(Digest(b"y" * 32, 200))


# -- the budget -------------------------------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first_and_reading_is_a_use(opened: Opened) -> None:
    directory = opened(300)
    digests = fill(directory, 1, 2, 3)
    file = directory.open(digests[0])
    assert file is not None
    file.close()
    fill(directory, 4)
    assert held(directory, digests) == [True, False, True]
    assert directory.used_bytes == 300
    assert directory.counts.evicted == 1


def test_what_is_stable_goes_before_what_perhaps_only_this_worker_has(opened: Opened) -> None:
    directory = opened(300)
    digests = fill(directory, 1, 2, 3)
    assert directory.mark_stable([digests[2], Digest(b"?" * 32, 1)]) == 1
    assert directory.mark_stable([digests[2]]) == 1, "again changes nothing"
    fill(directory, 4)
    assert held(directory, digests) == [True, True, False]
    fill(directory, 5)
    assert held(directory, digests) == [False, True, False]


def test_pinned_blobs_stay_and_what_cannot_fit_beside_them_is_refused_with_numbers(opened: Opened) -> None:
    directory = opened(300)
    digests = fill(directory, 1, 2, 3)
    pins = [directory.pin(digest) for digest in digests[:2]]
    with pytest.raises(NoRoomForBlob, match="150 bytes: 200 of 300 bytes cannot be given up"):
        directory.begin(Digest(b"x" * 32, 150))
    assert held(directory, digests) == [True, True, True], "nothing was given up in vain"
    fill(directory, 4)
    assert held(directory, digests) == [True, True, False]
    assert pins[0] is not None
    directory.unpin(pins[0])
    fill(directory, 5, 6)
    assert held(directory, digests) == [False, True, False]


def test_a_blob_larger_than_the_budget_is_refused_with_numbers_and_nothing_goes(opened: Opened) -> None:
    directory = opened(300)
    digests = fill(directory, 1, 2, 3)
    with pytest.raises(BlobTooLarge, match="301 bytes, and the whole budget is 300 bytes"):
        directory.write(Digest(b"x" * 32, 301), b"x" * 301)
    assert held(directory, digests) == [True, True, True]


def test_the_mirror_gives_up_only_what_is_stable(opened: Opened) -> None:
    directory = opened(300)
    digests = fill(directory, 1, 2, 3)
    directory.mark_stable(digests[1:2])
    assert directory.begin(Digest(b"x" * 32, 100), only_for_stable=True) is not None
    assert held(directory, digests) == [True, False, True]
    with pytest.raises(NoRoomForBlob):
        directory.begin(Digest(b"y" * 32, 100), only_for_stable=True)


def test_evictions_are_told_once_and_no_digest_as_come_and_gone(opened: Opened) -> None:
    directory = opened(200)
    first = fill(directory, 1, 2)
    changes = directory.changes()
    assert (sorted(changes.added), changes.evicted) == (sorted(first), [])
    second = fill(directory, 3, 4, 5)
    changes = directory.changes()
    assert (sorted(changes.added), sorted(changes.evicted)) == (sorted(second[1:]), sorted([*first, second[0]]))
    assert directory.changes() == ([], [])
    fill(directory, 6)
    assert sorted(directory.snapshot()) == sorted([second[2], digest_of(blob(6))])
    assert directory.changes() == ([], []), "a snapshot has said it"


# -- restarts, and files that others touched --------------------------------------------------------------------------------


def test_a_restart_keeps_the_blobs_and_the_order_of_their_uses(opened: Opened) -> None:
    directory = opened(300)
    digests = fill(directory, 1, 2, 3)
    file = directory.open(digests[0])
    assert file is not None
    file.close()
    again = opened(300)
    assert sorted(again.snapshot()) == sorted(digests)
    assert again.used_bytes == 300
    fill(again, 4)
    assert held(again, digests) == [True, False, True]


def test_a_smaller_budget_at_a_restart_gives_up_the_oldest(opened: Opened) -> None:
    digests = fill(opened(300), 1, 2, 3)
    assert held(opened(250), digests) == [False, True, True]


def test_what_was_half_written_or_has_the_wrong_size_is_removed_and_counted_at_the_start(opened: Opened) -> None:
    directory = opened()
    digests = fill(directory, 1, 2)
    assert directory.begin(digest_of(blob(3))) is not None  # killed in the middle of it
    short = files(directory)[0]
    short.chmod(0o644)
    short.write_bytes(b"short")
    (directory._blobs_at / "ab").mkdir(exist_ok=True)
    (directory._blobs_at / "ab" / "notes.txt").write_text("not ours")
    again = opened()
    assert (again.counts.half_written, again.counts.wrong, again.counts.foreign) == (1, 1, 1)
    assert held(again, sorted(digests)) == [name_of(digest) != short.name for digest in sorted(digests)]
    assert (again._blobs_at / "ab" / "notes.txt").exists()
    assert not short.exists()


def test_a_file_whose_content_changed_while_nobody_ran_is_found_at_its_first_use(opened: Opened) -> None:
    directory = opened()
    right, wrong = fill(directory, 1, 2)
    path = next(path for path in files(directory) if path.name == name_of(wrong))
    path.chmod(0o644)
    path.write_bytes(blob(9))  # of the same size
    again = opened()
    assert again.pin(right) is None
    assert again.is_unchecked(right)
    assert again.check(right)
    assert again.pin(right) is not None
    assert not again.check(wrong)
    assert not again.holds(wrong)
    assert again.counts.wrong == 1
    assert again.changes().evicted == [wrong]


def test_an_input_that_a_run_wrote_to_is_found_when_it_is_given_up(opened: Opened) -> None:
    directory = opened()
    kept, damaged = fill(directory, 1, 2)
    pins = [directory.pin(kept), directory.pin(damaged)]
    assert pins[0] is not None
    assert pins[1] is not None
    pins[1].path.chmod(0o644)
    pins[1].path.write_bytes(blob(9))
    for pin in pins:
        directory.unpin(pin)  # type: ignore[arg-type]
    assert held(directory, [kept, damaged]) == [True, False]
    assert directory.counts.wrong == 1


def test_an_input_that_was_only_touched_stays(opened: Opened) -> None:
    directory = opened()
    (digest,) = fill(directory, 1)
    pin = directory.pin(digest)
    assert pin is not None
    os.utime(pin.path, ns=(1, 1))
    directory.unpin(pin)
    assert directory.holds(digest)
    assert directory.pin(digest) is not None, "and it was checked"


@pytest.mark.parametrize("use", ["open", "pin", "begin"])
def test_a_file_that_somebody_removed_is_noticed_and_told(opened: Opened, use: str) -> None:
    directory = opened()
    (digest,) = fill(directory, 1)
    directory.changes()
    files(directory)[0].unlink()
    found = getattr(directory, use)(digest)
    assert (found is None) == (use != "begin"), "begin makes room for it anew"
    assert directory.changes().evicted == [digest]
    assert (directory.counts.lost, directory.used_bytes) == (1, 0)


def test_one_process_at_a_time_has_the_directory(opened: Opened, tmp_path: Path) -> None:
    opened()
    with pytest.raises(BlobDirectoryInUse, match=str(tmp_path)):
        BlobDirectory(tmp_path / "blobs", 10)
    opened()


def test_a_copy_of_a_file_is_taken(opened: Opened, tmp_path: Path) -> None:
    directory = opened(5 << 20)
    source = tmp_path / "large"
    source.write_bytes(os.urandom((2 << 20) + 17))
    digest = directory.add_file(source)
    assert digest == digest_of_file(source)
    source.unlink()
    assert directory.check(digest)


def test_many_threads_never_exceed_the_budget(opened: Opened) -> None:
    directory = opened(1_000)
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(60):
                data = blob((number * 7 + turn) % 30)
                directory.write(digest_of(data), data)
                assert directory.used_bytes <= 1_000
                pin = directory.pin(digest_of(data))
                if pin is not None:
                    assert pin.path.read_bytes() == data
                    directory.unpin(pin)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert faults == []
    assert directory.used_bytes == sum(path.stat().st_size for path in files(directory)) <= 1_000
