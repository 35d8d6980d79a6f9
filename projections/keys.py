"""Where each row of the state table stands: keys as bytes, ordered so that a prefix scan is the list one wants.

    shard (4 bytes)  letter  rest                                   value
    ...              !                                              ShardRow: position, chain, leader, now
    ...              a       i|r + reason (2 bytes)                 CounterRow: facts ignored | rejected
    ...              c       instance + client_operation_id         operation id: the one that holds this id now
    ...              f       instance + finished_seq (8)            operation id: finished ones, oldest first
    ...              i       instance name                          InstanceRow
    ...              k       key                                    seq of the event that parked it
    ...              o       operation id (8)                       OperationRow
    ...              q       instance + sort key (17)               operation id: the queue, in dispatch order
    ...              r       requirement id (4)                     canonical requirements
    ...              s       instance + client or invocation        ShareRow
    ...              w       instance + endpoint                    WorkerRow
    ...              D       digest + inventory (4)                 chunk (8): where this inventory named this blob last
    ...              E       inventory (4) + chunk (8)              how many digests (4), Digests as they came
    ...              P       inventory (4) + chunk (8)              Digests: pins of the action cache as they came
    ...              b       instance name                          StableRow
    ...              e       instance + endpoint                    EndpointRow
    ...              g       place in the queue (8)                 inventory (4): one that is to be cleaned
    ...              l                                              LocalityRow
    ...              n       inventory (4)                          InventoryRow

Numbers are big-endian, so that bytes sort as they do. An instance inside a key has its length before it (2 bytes), so that
no name is a prefix of another's rows. A digest inside a key is the length of its hash (1), the hash, the size (8).
"""

from functools import lru_cache
from typing import Final

from events.state import sort_key
from events.values import Digest

SHARD: Final = b"!"
COUNTER: Final = b"a"
CLIENT: Final = b"c"
FINISHED: Final = b"f"
INSTANCE: Final = b"i"
PARKED: Final = b"k"
OPERATION: Final = b"o"
QUEUED: Final = b"q"
REQUIREMENT: Final = b"r"
SHARE: Final = b"s"
WORKER: Final = b"w"
PAIR: Final = b"D"
CHUNK: Final = b"E"
PINS: Final = b"P"
STABLE: Final = b"b"
ENDPOINT: Final = b"e"
CLEANING: Final = b"g"
LOCALITY: Final = b"l"
INVENTORY: Final = b"n"

LETTERS: Final = {
    SHARD: "shard",
    COUNTER: "counter",
    CLIENT: "client",
    FINISHED: "finished",
    INSTANCE: "instance",
    PARKED: "parked",
    OPERATION: "operation",
    QUEUED: "queued",
    REQUIREMENT: "requirement",
    SHARE: "share",
    WORKER: "worker",
    PAIR: "blob",
    CHUNK: "chunk of blobs",
    PINS: "chunk of pins",
    STABLE: "stable blobs of",
    ENDPOINT: "endpoint",
    CLEANING: "to be cleaned",
    LOCALITY: "locality",
    INVENTORY: "inventory",
}

SORT_KEY_BYTES: Final = 17
"""32 bits of priority, 64 of queued time, 40 of operation id."""


def number(value: int) -> bytes:
    """A number of 8 bytes: an id or seq, in keys and as the value of an index row."""
    return value.to_bytes(8, "big")


def shard_prefix(shard: int) -> bytes:
    """What every key of a shard begins with."""
    return shard.to_bytes(4, "big")


@lru_cache(1024)
def named(name: str) -> bytes:
    """A name inside a key: its length in bytes, then the name."""
    encoded = name.encode()
    return len(encoded).to_bytes(2, "big") + encoded


@lru_cache(1024)
def of_instance(name: str) -> bytes:
    """Behind the prefix of its shard, where an instance's row stands. Remembered, since every event asks for one."""
    return INSTANCE + name.encode()


@lru_cache(65_536)
def of_worker(instance: str, endpoint: str) -> bytes:
    """Behind the prefix of its shard, where a worker's row stands. Remembered, since most events ask for one."""
    return WORKER + named(instance) + endpoint.encode()


@lru_cache(65_536)
def of_endpoint(instance: str, endpoint: str) -> bytes:
    """Behind the prefix of its shard, where an endpoint's row stands."""
    return ENDPOINT + named(instance) + endpoint.encode()


def of_digest(digest: Digest) -> bytes:
    """Behind the prefix of its shard, where the pairs of a digest stand."""
    return PAIR + bytes((len(digest.hash),)) + digest.hash + digest.size_bytes.to_bytes(8, "big")


def digest_in(pair: bytes) -> Digest:
    """The digest in the full key of a pair."""
    return Digest(pair[6:-12], int.from_bytes(pair[-12:-4], "big"))


def inventory_in(pair: bytes) -> bytes:
    """The number of the inventory in the full key of a pair, 4 bytes."""
    return pair[-4:]


def queue_place(priority: int, time_us: int, operation_id: int) -> bytes:
    """An operation's place in the queue: bytes that sort in dispatch order."""
    return sort_key(priority, time_us, operation_id).to_bytes(SORT_KEY_BYTES, "big")


def operation_in(place: bytes) -> int:
    """The operation in a place in the queue, or in the full key of one."""
    return int.from_bytes(place[-5:], "big")


def after_prefix(prefix: bytes) -> bytes:
    """The first key behind every key that begins with `prefix`; empty when there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b""


def readable(key: bytes) -> str:
    """A key for people, in error messages and in the report of a check: `shard 0 operation 17`."""
    shard, letter, rest = int.from_bytes(key[:4], "big"), key[4:5], key[5:]
    kind = LETTERS.get(letter, repr(letter))
    match letter:
        case b"!":
            said = ""
        case b"a":
            said = f"{'ignored' if rest[:1] == b'i' else 'rejected'} {int.from_bytes(rest[1:], 'big')}"
        case b"o" | b"r" | b"g" | b"n":
            said = str(int.from_bytes(rest, "big"))
        case b"D":
            said = f"{digest_in(key)} of inventory {int.from_bytes(inventory_in(key), 'big')}"
        case b"E" | b"P":
            said = f"{int.from_bytes(rest[4:], 'big')} of inventory {int.from_bytes(rest[:4], 'big')}"
        case b"c" | b"e" | b"s" | b"w":
            instance, tail = _split(rest)
            said = f"{instance}/{tail.decode(errors='replace')}"
        case b"f":
            instance, tail = _split(rest)
            said = f"{instance}/{int.from_bytes(tail, 'big')}"
        case b"q":
            instance, tail = _split(rest)
            said = f"{instance}/op-{operation_in(tail)}"
        case _:
            said = rest.decode(errors="replace")
    return f"shard {shard} {kind} {said}".rstrip()


def _split(rest: bytes) -> tuple[str, bytes]:
    size = int.from_bytes(rest[:2], "big")
    return rest[2 : 2 + size].decode(errors="replace"), rest[2 + size :]
