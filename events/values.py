"""Values that facts, events and rows share."""

from typing import NamedTuple

U63_MAX = 2**63 - 1


class Digest(NamedTuple):
    """A content digest: raw hash bytes and the content's size in bytes."""

    hash: bytes
    size_bytes: int

    def __str__(self) -> str:
        return f"{self.hash.hex()}/{self.size_bytes}"


class Usage(NamedTuple):
    """What a run used; 0 means not measured."""

    wall_us: int = 0
    cpu_us: int = 0
    peak_memory_kib: int = 0


NO_DIGEST = Digest(b"", 0)
NO_USAGE = Usage()

Properties = tuple[tuple[str, str], ...]
"""Name-value pairs, sorted by name, no name twice."""
