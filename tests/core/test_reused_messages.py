"""Messages that are used again do not grow without bound: protobuf frees what was set in one only with the message."""

from pathlib import Path

import pytest

from events.codec import EventEncoder, FactCodec
from events.events import OperationQueued
from events.facts import ActionQueued
from events.payloads import command_bytes

RECORDS = 200_000
ROOM_KIB = 16_000
"""Set into one message, the texts of RECORDS records take more than 60,000 KiB."""


def resident_kib() -> int:
    """What this process holds in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("the process has no resident size")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the resident size is read from /proc")
@pytest.mark.parametrize("what", ["event", "fact"])
def test_a_writer_keeps_nothing_of_what_it_wrote(what: str) -> None:
    command = command_bytes(["build", "x" * 200])
    encoder, codec = EventEncoder(), FactCodec()
    event = OperationQueued(1, 1, 1, "main", "op", 1, command=command)
    fact = ActionQueued("main", "op", command=command)

    def write(times: int) -> None:
        for _ in range(times):
            if what == "event":
                encoder.encode(event, 1, b"")
            else:
                codec.encode(fact)

    write(10_000)
    before = resident_kib()
    write(RECORDS)
    assert resident_kib() - before < ROOM_KIB
