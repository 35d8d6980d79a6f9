"""Digests as names (`<hex>-<size>`), and of content. Blobs are named by SHA-256 here; the scheduler itself never looks into a digest."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from events.values import U63_MAX, Digest
from streams.blobs.errors import UnreadableDigest

HASH_BYTES = 32
READ_BYTES = 1 << 20

_NAME = re.compile(r"([0-9a-f]{64})[-/](0|[1-9][0-9]{0,18})")


def name_of(digest: Digest) -> str:
    """The name of a blob, as in paths and URLs: `<hex>-<size>`."""
    return f"{digest.hash.hex()}-{digest.size_bytes}"


def digest_named(name: str) -> Digest:
    """The digest of a name; `<hex>/<size>`, as events print it, is read too. Raises UnreadableDigest."""
    found = _NAME.fullmatch(name)
    if found is None or int(found[2]) > U63_MAX:
        raise UnreadableDigest(name)
    return Digest(bytes.fromhex(found[1]), int(found[2]))


def digest_of(data: bytes) -> Digest:
    """The digest of content."""
    return Digest(hashlib.sha256(data).digest(), len(data))


def digest_of_file(path: Path) -> Digest:
    """The digest of a file's content; read once, 1 MiB at a time. Raises OSError."""
    sha, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while data := file.read(READ_BYTES):
            sha.update(data)
            size += len(data)
    return Digest(sha.digest(), size)
