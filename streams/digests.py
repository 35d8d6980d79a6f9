"""Digests as people and URLs name them."""

from __future__ import annotations

from typing import Final

from events.fact_rules import ONE_DIGEST_RULE
from events.jsonform import digest_from_text
from events.values import Digest

DIGEST_FORM: Final = "HASH/SIZE or HASH-SIZE, the hash in hex and the size in bytes"


class InvalidDigest(ValueError):
    """A text that names no digest; says what is wrong with it."""


def digest_named(text: str) -> Digest:
    """The digest in `HASH/SIZE`, as Headway prints it, or `HASH-SIZE`, as it stands in a URL. Raises InvalidDigest."""
    try:
        digest = digest_from_text(text or "/")  # an empty text would be no digest, which is none
    except ValueError:
        raise InvalidDigest(f"digest {text[:160]!r} is refused: it is {DIGEST_FORM}") from None
    if ONE_DIGEST_RULE.fault(digest) is not None:
        size = f"{len(digest.hash)} bytes of hash and size {digest.size_bytes}"
        raise InvalidDigest(f"digest {text[:160]!r} is refused: it is {ONE_DIGEST_RULE.text}, and this has {size}")
    return digest
