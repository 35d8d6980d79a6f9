"""What the scheduler tells one worker, typed: the messages of the worker-commands topic."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from google.protobuf.message import DecodeError

from events.reasons import DisconnectReason, KillCause, RefuseReason
from events.values import Digest
from proto.gen.headway.v1 import commands_pb2
from streams.errors import StreamError
from streams.topics import WORKER_COMMANDS


class UnreadableCommand(StreamError):
    """A record of the worker-commands topic is not a command that this build knows."""

    code: ClassVar[str] = "unreadable-command"
    runbook: ClassVar[str] = (
        "Something else wrote to the topic, or the worker is older than the decider: update the worker."
    )

    def __init__(self, shard: int, offset: int, why: str) -> None:
        self.shard, self.offset = shard, offset
        super().__init__(
            f"{WORKER_COMMANDS}[{shard}] offset {offset}: {why}",
            remedy="Update Headway on this worker; a worker that cannot read a command must not go on",
        )


class Admitted(NamedTuple):
    """The connection stands; of the dispatches listed with it, `kept` go on."""

    connection_id: int
    kept: tuple[int, ...] = ()
    worker_timeout_us: int = 0
    small_blob_mirror: bool = False  # take small stable blobs unasked
    seq: int = 0  # of the event that says so


class Refused(NamedTuple):
    """The connection was not admitted, and trying again unchanged would not help."""

    connection_id: int
    reason: RefuseReason
    field: str = ""
    value: str = ""


class Evicted(NamedTuple):
    """The connection is over, and every dispatch on it has ended."""

    connection_id: int
    reason: DisconnectReason


class KillRequested(NamedTuple):
    """A run is to be stopped and reported."""

    connection_id: int
    dispatch_id: int
    cause: KillCause


class StableChunk(NamedTuple):
    """Blobs are in durable storage: one chunk of a broadcast, to be applied at once and acknowledged by `chunk_seq` (S-3)."""

    connection_id: int  # 0: for every worker of the instance
    instance: str
    seq: int
    chunk_seq: int
    digests: tuple[Digest, ...]
    store: str = ""  # empty: content; "ac": the action cache


Command = Admitted | Refused | Evicted | KillRequested | StableChunk


def command_in(value: bytes, shard: int, offset: int) -> Command:
    """The command in a record. Raises UnreadableCommand."""
    try:
        message = commands_pb2.WorkerCommand.FromString(value)
        kind = message.WhichOneof("kind")
        if kind == "admitted":
            admitted = message.admitted
            return Admitted(
                message.connection_id,
                tuple(admitted.kept),
                admitted.worker_timeout_us,
                admitted.small_blob_mirror,
                message.seq,
            )
        if kind == "refused":
            refused = message.refused
            return Refused(message.connection_id, RefuseReason(refused.reason), refused.field, refused.value)
        if kind == "evicted":
            return Evicted(message.connection_id, DisconnectReason(message.evicted.reason))
        if kind == "kill_requested":
            kill = message.kill_requested
            return KillRequested(message.connection_id, kill.dispatch_id, KillCause(kill.cause))
        if kind == "blobs_stable":
            stable = message.blobs_stable
            digests = tuple([Digest(item.hash, item.size_bytes) for item in stable.digests.items])
            return StableChunk(
                message.connection_id, message.instance, message.seq, stable.chunk_seq, digests, stable.store
            )
    except (DecodeError, ValueError) as error:
        raise UnreadableCommand(shard, offset, f"{len(value)} bytes that are no command: {error}") from error
    raise UnreadableCommand(shard, offset, "a command of a kind this build does not know")
