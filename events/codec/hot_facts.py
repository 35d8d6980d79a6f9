"""The fact kinds that make up nearly all traffic, written out: several times faster than the tables of `fields.py`.

The quick checks here say "certainly valid" or nothing: what they do not pass goes through `fact_rules.check_fact`, which has the last
word and the error. A writer or reader may reuse messages and remembers requirements it has seen, so it belongs to one thread.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from events import facts as f
from events.codec.known import KnownNames, KnownRequirements
from events.errors import InvalidFact
from events.fact_rules import (
    COMMAND_RULE,
    MAX_ARGUMENTS,
    MAX_DURATION_US,
    MAX_HASH_BYTES,
    MAX_INPUTS,
    MAX_MESSAGE_CHARS,
    MAX_NAME_CHARS,
    MAX_TAIL_BYTES,
    MAX_TARGET_CHARS,
    MAX_VARIABLES,
    MIN_HASH_BYTES,
    check_fact,
)
from events.reasons import RunResult
from events.values import NO_DIGEST, NO_USAGE, U63_MAX, Digest, Usage
from proto.gen.headway.v1 import facts_pb2

Write = Callable[[Any], bytes]
"""A fact to its record; raises InvalidFact."""

Read = Callable[[Any, int], f.Fact | None]
"""(a parsed `Fact` message, bytes of its record) to the fact; None where the plain form has to say what is wrong; raises InvalidFact."""

_ENV_TAG, _INPUTS_TAG = b"\x12", b"\x1a"
"""How the fields 2 and 3 of a `Command` start on the wire."""

_RESULTS = {int(result): result for result in RunResult if result}


def _of_dispatch(fact: f.DispatchAccepted | f.ActionFinished) -> bool:
    return (
        0 < len(fact.instance) <= MAX_NAME_CHARS
        and len(fact.endpoint) <= MAX_NAME_CHARS
        and fact.endpoint.split() == [fact.endpoint]
        and 0 < fact.dispatch_id <= U63_MAX
    )


def _reported_holds(fact: f.WorkerReported) -> bool:
    return (
        0 < len(fact.instance) <= MAX_NAME_CHARS
        and len(fact.endpoint) <= MAX_NAME_CHARS
        and fact.endpoint.split() == [fact.endpoint]
        and (fact.free_memory_kib is None or fact.free_memory_kib <= U63_MAX)
    )


def _finished_holds(fact: f.ActionFinished) -> bool:
    return (
        _of_dispatch(fact)
        and fact.result != 0
        and len(fact.message) <= MAX_MESSAGE_CHARS
        and len(fact.stdout_tail) <= MAX_TAIL_BYTES
        and len(fact.stderr_tail) <= MAX_TAIL_BYTES
        and (fact.usage is NO_USAGE or max(fact.usage) <= U63_MAX)
    )


def _queued_holds(fact: f.ActionQueued) -> bool:
    """Requirements and command apart: their messages are checked where they are at hand."""
    digest = fact.action_digest
    return (
        0 < len(fact.instance) <= MAX_NAME_CHARS
        and 0 < len(fact.client_operation_id) <= MAX_NAME_CHARS
        and fact.queued_at_us <= U63_MAX
        and len(fact.client_id) <= MAX_NAME_CHARS
        and len(fact.invocation_id) <= MAX_NAME_CHARS
        and (digest is NO_DIGEST or (MIN_HASH_BYTES <= len(digest[0]) <= MAX_HASH_BYTES and digest[1] <= U63_MAX))
        and fact.timeout_us <= MAX_DURATION_US
        and fact.expected_duration_us <= MAX_DURATION_US
        and len(fact.target_id) <= MAX_TARGET_CHARS
        and len(fact.mnemonic) <= MAX_NAME_CHARS
    )


def _only_arguments(command: bytes) -> bool:
    """Whether a serialised `Command` certainly holds nothing but arguments, not too many and without a NUL.

    Told from the bytes, since reading the message costs ten times as much: the tags of env and inputs and a NUL are nowhere in them.
    Any of the three may stand for something harmless (a length of 18), which the full check then sees.
    """
    return (
        len(command) <= 2 * MAX_ARGUMENTS  # an argument takes two bytes at least
        and _ENV_TAG not in command
        and _INPUTS_TAG not in command
        and b"\0" not in command
    )


def _command_holds(data: bytes, command: Any) -> bool:
    """Whether the message `command`, which serialises to `data`, certainly keeps COMMAND_RULE.

    Read from the message, field by field as far as needed: what `check_fact` makes of it first takes four times as long.
    """
    if len(command.argv) > MAX_ARGUMENTS or len(command.env) > MAX_VARIABLES or len(command.inputs) > MAX_INPUTS:
        return False
    if b"\0" in data:  # mostly of a digest
        for argument in command.argv:
            if "\0" in argument:
                return False
    seen: dict[str, None] = {}
    for variable in command.env:
        name, value, secret = variable.name, variable.value, variable.secret
        if (
            not name
            or name in seen
            or "=" in name
            or "\0" in name
            or "\0" in value
            or (secret and (value or len(secret) > MAX_NAME_CHARS))
        ):
            return False
        seen[name] = None
    for item in command.inputs:
        digest = item.digest
        if not MIN_HASH_BYTES <= len(digest.hash) <= MAX_HASH_BYTES or digest.size_bytes > U63_MAX:
            return False
    return True


def _queued_writer(known: KnownRequirements) -> Write:
    message = facts_pb2.Fact()
    part = message.action_queued
    serialise = message.SerializeToString

    def write(fact: f.ActionQueued) -> bytes:
        command = fact.command
        if command:
            try:
                part.command.ParseFromString(command)
            except DecodeError as error:
                value = f"{len(command)} bytes that are no Command"
                raise InvalidFact("ActionQueued", "command", value, COMMAND_RULE.text) from error
        else:
            part.ClearField("command")
        if not (
            _queued_holds(fact)
            and (not command or _only_arguments(command) or _command_holds(command, part.command))
            and (not fact.requirements or known.is_canonical(fact.requirements))
        ):
            check_fact(fact)
        part.instance = fact.instance
        part.client_operation_id = fact.client_operation_id
        part.client_id = fact.client_id
        part.invocation_id = fact.invocation_id
        part.attached = fact.attached
        if fact.action_digest is NO_DIGEST or fact.action_digest == NO_DIGEST:
            part.ClearField("action_digest")
        else:
            digest = part.action_digest
            digest.hash, digest.size_bytes = fact.action_digest
        part.cacheable = fact.cacheable
        part.skip_cache_lookup = fact.skip_cache_lookup
        part.priority = fact.priority
        part.queued_at_us = fact.queued_at_us
        if fact.requirements:
            part.requirements.ParseFromString(fact.requirements)
        else:
            part.ClearField("requirements")
        part.timeout_us = fact.timeout_us
        part.expected_duration_us = fact.expected_duration_us
        part.target_id = fact.target_id
        part.mnemonic = fact.mnemonic
        return serialise()

    return write


def _accepted_writer() -> Write:
    message = facts_pb2.Fact()
    part = message.dispatch_accepted
    part.SetInParent()
    serialise = message.SerializeToString

    def write(fact: f.DispatchAccepted) -> bytes:
        if not _of_dispatch(fact):
            check_fact(fact)
        part.instance = fact.instance
        part.endpoint = fact.endpoint
        part.connection_id = fact.connection_id
        part.dispatch_id = fact.dispatch_id
        return serialise()

    return write


def _finished_writer() -> Write:
    message = facts_pb2.Fact()
    part = message.action_finished
    part.SetInParent()
    serialise = message.SerializeToString

    def write(fact: f.ActionFinished) -> bytes:
        if not _finished_holds(fact):
            check_fact(fact)
        part.instance = fact.instance
        part.endpoint = fact.endpoint
        part.connection_id = fact.connection_id
        part.dispatch_id = fact.dispatch_id
        part.result = fact.result
        part.exit_code = fact.exit_code
        part.message = fact.message
        part.stdout_tail = fact.stdout_tail
        part.stderr_tail = fact.stderr_tail
        if fact.usage is NO_USAGE or fact.usage == NO_USAGE:
            part.ClearField("usage")
        else:
            usage = part.usage
            usage.wall_us, usage.cpu_us, usage.peak_memory_kib = fact.usage
        return serialise()

    return write


def _reported_writer() -> Write:
    message = facts_pb2.Fact()
    part = message.worker_reported
    part.SetInParent()
    serialise = message.SerializeToString

    def write(fact: f.WorkerReported) -> bytes:
        if not _reported_holds(fact):
            check_fact(fact)
        part.instance = fact.instance
        part.endpoint = fact.endpoint
        part.connection_id = fact.connection_id
        if fact.free_memory_kib is None:
            part.ClearField("free_memory_kib")
        else:
            part.free_memory_kib = fact.free_memory_kib
        return serialise()

    return write


def writers(known: KnownRequirements) -> dict[type, Write]:
    """A new set of writers, one per kind; for one thread."""
    return {
        f.ActionQueued: _queued_writer(known),
        f.DispatchAccepted: _accepted_writer(),
        f.ActionFinished: _finished_writer(),
        f.WorkerReported: _reported_writer(),
    }


def _queued_reader(known: KnownRequirements) -> Read:
    def read(message: Any, size_bytes: int) -> f.ActionQueued:
        part = message.action_queued
        requirements = part.requirements.SerializeToString() if part.HasField("requirements") else b""
        if requirements:
            requirements = known.canonical(requirements, part.requirements)
        if part.HasField("action_digest"):
            found = part.action_digest
            digest = Digest(found.hash, found.size_bytes)
        else:
            digest = NO_DIGEST
        command = part.command.SerializeToString() if part.HasField("command") else b""
        instance, client_operation_id = part.instance, part.client_operation_id
        queued_at_us = part.queued_at_us
        timeout_us, expected_duration_us = part.timeout_us, part.expected_duration_us
        fact = f.ActionQueued(
            instance,
            client_operation_id,
            requirements,
            part.priority,
            queued_at_us,
            part.client_id,
            part.invocation_id,
            part.attached,
            digest,
            part.cacheable,
            part.skip_cache_lookup,
            timeout_us,
            expected_duration_us,
            command,
            part.target_id,
            part.mnemonic,
        )
        short = (
            size_bytes - len(command) <= MAX_NAME_CHARS  # so small a record has no text that is too long
            and instance
            and client_operation_id
            and queued_at_us <= U63_MAX
            and timeout_us <= MAX_DURATION_US
            and expected_duration_us <= MAX_DURATION_US
            and (digest is NO_DIGEST or (MIN_HASH_BYTES <= len(digest[0]) <= MAX_HASH_BYTES and digest[1] <= U63_MAX))
        )
        if not (short or _queued_holds(fact)) or (
            command and not _only_arguments(command) and not _command_holds(command, part.command)
        ):
            check_fact(fact)
        return fact

    return read


def _accepted_reader(names: KnownNames) -> Read:
    known, new = names.endpoints.get, names.endpoint

    def read(message: Any, size_bytes: int) -> f.DispatchAccepted:
        part = message.dispatch_accepted
        endpoint = part.endpoint
        endpoint = known(endpoint) or new(endpoint) or endpoint
        instance, dispatch_id = part.instance, part.dispatch_id
        fact = f.DispatchAccepted(instance, endpoint, part.connection_id, dispatch_id)
        if (
            size_bytes > MAX_NAME_CHARS
            or not instance
            or not 0 < dispatch_id <= U63_MAX
            or endpoint not in names.endpoints
        ):
            check_fact(fact)
        return fact

    return read


def _finished_reader(names: KnownNames) -> Read:
    known, new = names.endpoints.get, names.endpoint

    def read(message: Any, size_bytes: int) -> f.ActionFinished | None:
        part = message.action_finished
        result = _RESULTS.get(part.result)
        if result is None:
            return None
        if part.HasField("usage"):
            used = part.usage
            usage = Usage(used.wall_us, used.cpu_us, used.peak_memory_kib)
        else:
            usage = NO_USAGE
        endpoint = part.endpoint
        endpoint = known(endpoint) or new(endpoint) or endpoint
        instance, dispatch_id = part.instance, part.dispatch_id
        fact = f.ActionFinished(
            instance,
            endpoint,
            part.connection_id,
            dispatch_id,
            result,
            part.exit_code,
            part.message,
            part.stdout_tail,
            part.stderr_tail,
            usage,
        )
        if (
            size_bytes > MAX_NAME_CHARS
            or not instance
            or not 0 < dispatch_id <= U63_MAX
            or endpoint not in names.endpoints
            or (usage is not NO_USAGE and max(usage) > U63_MAX)
        ) and not _finished_holds(fact):
            check_fact(fact)
        return fact

    return read


def _reported_reader(names: KnownNames) -> Read:
    known, new = names.endpoints.get, names.endpoint

    def read(message: Any, size_bytes: int) -> f.WorkerReported:
        part = message.worker_reported
        endpoint = part.endpoint
        endpoint = known(endpoint) or new(endpoint) or endpoint
        free_kib = part.free_memory_kib if part.HasField("free_memory_kib") else None
        fact = f.WorkerReported(part.instance, endpoint, part.connection_id, free_kib)
        if not _reported_holds(fact):
            check_fact(fact)
        return fact

    return read


def readers(known: KnownRequirements) -> dict[str, Read]:
    """Readers by the name of the oneof field; for one thread."""
    names = KnownNames()
    return {
        "action_queued": _queued_reader(known),
        "dispatch_accepted": _accepted_reader(names),
        "action_finished": _finished_reader(names),
        "worker_reported": _reported_reader(names),
    }
