"""The parts of facts and events that the core carries as bytes: requirements, which it interns, and commands and lists of digests, which
it never opens.

They are serialised messages of proto/headway/v1/common.proto in one canonical form, so that equal contents are equal bytes: the decider
interns requirements by their bytes, and what a fold rebuilds is what was decided.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from events.errors import InvalidFact
from events.values import Digest, Properties
from proto.gen.headway.v1 import common_pb2

NO_NAME_TWICE = "no name stands twice"
MAX_DIGESTS = 4096
"""Digests in one record: a chunk of a report or a broadcast, 160 to 300 KiB."""
NOT_A_MESSAGE = "serialised bytes of the message that proto/headway/v1/common.proto declares"


class EnvironmentVariable(NamedTuple):
    """One variable of a command; `secret` names a secret that only the worker resolves, and `value` is empty then."""

    name: str
    value: str = ""
    secret: str = ""


class Command(NamedTuple):
    """What a worker runs."""

    argv: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    inputs: tuple[Digest, ...] = ()


def canonical_requirements(pairs: Iterable[tuple[str, str]]) -> bytes:
    """The canonical bytes of requirements: sorted by name, no name twice; b"" for none.

    Raises:
        InvalidFact: a name stands twice.
    """
    message = common_pb2.Requirements()
    previous = None
    for name, value in sorted(pairs):
        if name == previous:
            raise InvalidFact("ActionQueued", "requirements", name[:128], NO_NAME_TWICE)
        message.items.add(name=name, value=value)
        previous = name
    return message.SerializeToString(deterministic=True)


def requirements_of(data: bytes) -> Properties:
    """The name-value pairs of canonical bytes, sorted by name.

    Raises:
        ValueError: `data` is no serialised `Requirements`.
    """
    try:
        message = common_pb2.Requirements.FromString(data)
    except DecodeError as error:
        raise ValueError(f"requirements of {len(data)} bytes are refused: {NOT_A_MESSAGE}") from error
    return tuple([(item.name, item.value) for item in message.items])


def command_bytes(
    argv: Iterable[str],
    env: Iterable[tuple[str, str] | tuple[str, str, str]] = (),
    inputs: Iterable[Digest] = (),
) -> bytes:
    """The canonical bytes of a command; b"" for none. `env` holds (name, value) or (name, value, secret)."""
    message = common_pb2.Command(argv=argv)
    for variable in env:
        name, value, secret = EnvironmentVariable(*variable)
        message.env.add(name=name, value=value, secret=secret)
    for digest in inputs:
        message.inputs.add(digest=common_pb2.Digest(hash=digest.hash, size_bytes=digest.size_bytes))
    return message.SerializeToString(deterministic=True)


def command_of(data: bytes) -> Command:
    """The command in `data`.

    Raises:
        ValueError: `data` is no serialised `Command`.
    """
    try:
        message = common_pb2.Command.FromString(data)
    except DecodeError as error:
        raise ValueError(f"a command of {len(data)} bytes is refused: {NOT_A_MESSAGE}") from error
    return Command(
        tuple(message.argv),
        tuple([EnvironmentVariable(v.name, v.value, v.secret) for v in message.env]),
        tuple([Digest(i.digest.hash, i.digest.size_bytes) for i in message.inputs]),
    )


def digests_bytes(digests: Iterable[Digest]) -> bytes:
    """The canonical bytes of a list of digests, in the order given; b"" for none."""
    message = common_pb2.Digests()
    add = message.items.add
    for hash_bytes, size_bytes in digests:
        add(hash=hash_bytes, size_bytes=size_bytes)
    return message.SerializeToString(deterministic=True)


def digests_of(data: bytes) -> list[Digest]:
    """The digests in `data`.

    Raises:
        ValueError: `data` is no serialised `Digests`.
    """
    try:
        message = common_pb2.Digests.FromString(data)
    except DecodeError as error:
        raise ValueError(f"digests of {len(data)} bytes are refused: {NOT_A_MESSAGE}") from error
    return [Digest(item.hash, item.size_bytes) for item in message.items]


def digest_chunks(digests: Sequence[Digest]) -> list[bytes]:
    """The canonical bytes of `digests` in chunks of at most 4,096 (S-1); none for none."""
    return [digests_bytes(digests[start : start + MAX_DIGESTS]) for start in range(0, len(digests), MAX_DIGESTS)]
