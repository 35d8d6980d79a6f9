"""The digest chain of the event log: each record ends with a digest over the record before it and its own bytes.

The chain is field 15 of the `Event` message, always written last, so it is checked on a slice of the record without serialising anything
again: `body + 0x7a 0x10 + 16 bytes`, where the 16 bytes are blake2b(previous chain + body).
"""

from hashlib import blake2b

from events.errors import ChainBroken

CHAIN_BYTES = 16
GENESIS_CHAIN = bytes(CHAIN_BYTES)
"""What stands for the chain of the record before the first."""

CHAIN_TAG = bytes([15 << 3 | 2, CHAIN_BYTES])
SUFFIX_BYTES = len(CHAIN_TAG) + CHAIN_BYTES


def link(body: bytes, previous_chain: bytes) -> tuple[bytes, bytes]:
    """The record for `body` and its chain."""
    chain = blake2b(previous_chain + body, digest_size=CHAIN_BYTES).digest()
    return body + CHAIN_TAG + chain, chain


def chain_of(value: bytes) -> bytes:
    """The chain a record carries (16 bytes), unchecked.

    Raises:
        ChainBroken: the record does not end in a chain.
    """
    if value[-SUFFIX_BYTES:-CHAIN_BYTES] != CHAIN_TAG:
        raise ChainBroken(
            f"a record of {len(value)} bytes does not end in a chain digest, so it was not written by a decider; "
            "restore the event log from an export, or start a new log generation with 'headway import'"
        )
    return value[-CHAIN_BYTES:]


def check_chain(value: bytes, previous_chain: bytes) -> bytes:
    """The chain of a record, checked to follow from the record before it.

    Raises:
        ChainBroken: it does not: a record was changed, removed, added or reordered.
    """
    due = blake2b(previous_chain + value[:-SUFFIX_BYTES], digest_size=CHAIN_BYTES).digest()
    if value[-SUFFIX_BYTES:] != CHAIN_TAG + due:
        found = chain_of(value)
        raise ChainBroken(
            f"a record of {len(value)} bytes carries chain {found.hex()}, but {due.hex()} follows from the record before it "
            f"({previous_chain.hex()}): a record was changed, removed or added; restore the event log from an export"
        )
    return due
