"""The rules of the wire contract that a protobuf type cannot say, stated once for both forms of a fact.

`check_fact` is the last step of decoding, whether the record was protobuf or JSON, and the first of encoding, so a producer hears of a
mistake before it reaches the log. What depends on state (a known instance, a minimum that is a number under the configuration in force) is
for `decide`.
"""

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from events import facts
from events.errors import InvalidFact
from events.facts import Fact
from events.payloads import MAX_DIGESTS, NO_NAME_TWICE, Command, command_of, digests_of, requirements_of
from events.reasons import CacheAnswer, DigestRole, FetchFailure, Outcome, RejectReason, RunResult, UpstreamState
from events.values import U63_MAX, Digest, Properties, ResourceHint, Usage

MAX_NAME_CHARS = 256
MAX_TARGET_CHARS = 1024
MAX_MESSAGE_CHARS = 1024
MAX_TAIL_BYTES = 16 * 1024
MAX_REQUIREMENTS = 64
MAX_WORKER_PROPERTIES = 256
MAX_RUNNING = 65_536
MAX_INPUTS = 4096
MAX_HINTS = 65_536
MAX_ARGUMENTS = 16_384
MAX_VARIABLES = 4096
MAX_CONFIG_CHARS = 256 * 1024
MIN_HASH_BYTES, MAX_HASH_BYTES = 20, 64
STATE_DIGEST_BYTES = 16
MAX_DURATION_US = 10 * 365 * 24 * 3600 * 1_000_000
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
SHOWN_CHARS = 128

Fault = tuple[str, object]
"""Where below the field the fault is (a path suffix, "" for the field itself) and what stands there."""


class Rule(NamedTuple):
    """One rule: its text for people, and the search for what breaks it."""

    text: str
    fault: Callable[[Any], Fault | None]


def _text(least: int, most: int, what: str = "") -> Rule:
    return Rule(
        what or f"{least} to {most} characters",
        lambda value: None if least <= len(value) <= most else ("", value),
    )


def _number(least: int, most: int, text: str) -> Rule:
    return Rule(text, lambda value: None if value is None or least <= value <= most else ("", value))


def _endpoint_fault(value: str) -> Fault | None:
    return None if len(value) <= MAX_NAME_CHARS and value.split() == [value] else ("", value)


def _digest_fault(value: Digest) -> Fault | None:
    if not value.hash and not value.size_bytes:
        return None
    sized = MIN_HASH_BYTES <= len(value.hash) <= MAX_HASH_BYTES and 0 <= value.size_bytes <= U63_MAX
    return None if sized else ("", value)


def _pairs_fault(pairs: Properties, most: int) -> Fault | None:
    if len(pairs) > most:
        return "", f"{len(pairs)} of them"
    previous = ""
    for number, (name, value) in enumerate(pairs):
        if not 0 < len(name) <= MAX_NAME_CHARS or name <= previous:
            return f"[{number}].name", name
        if len(value) > MAX_NAME_CHARS:
            return f"[{number}].value", value
        previous = name
    return None


def _requirements_fault(data: bytes) -> Fault | None:
    if not data:
        return None
    try:
        pairs = requirements_of(data)
    except ValueError:
        return "", f"{len(data)} bytes that are no Requirements"
    return _pairs_fault(pairs, MAX_REQUIREMENTS)


def _command_fault(data: bytes) -> Fault | None:
    if not data:
        return None
    try:
        return command_fault(command_of(data))
    except ValueError:
        return "", f"{len(data)} bytes that are no Command"


def command_fault(command: Command) -> Fault | None:
    """What breaks COMMAND_RULE in a command, None where nothing does."""
    for name, items, most in (
        ("argv", command.argv, MAX_ARGUMENTS),
        ("env", command.env, MAX_VARIABLES),
        ("inputs", command.inputs, MAX_INPUTS),
    ):
        if len(items) > most:
            return f".{name}", f"{len(items)} of them"
    for number, argument in enumerate(command.argv):
        if "\0" in argument:
            return f".argv[{number}]", argument
    seen: dict[str, None] = {}
    for number, variable in enumerate(command.env):
        if not variable.name or "=" in variable.name or "\0" in variable.name or variable.name in seen:
            return f".env[{number}].name", variable.name
        if "\0" in variable.value or (variable.value and variable.secret):
            return f".env[{number}].value", variable.value
        if len(variable.secret) > MAX_NAME_CHARS:
            return f".env[{number}].secret", variable.secret
        seen[variable.name] = None
    for number, digest in enumerate(command.inputs):
        if not digest.hash or _digest_fault(digest):
            return f".inputs[{number}]", digest
    return None


def _digests_fault(data: bytes) -> Fault | None:
    if not data:
        return None
    try:
        digests = digests_of(data)
    except ValueError:
        return "", f"{len(data)} bytes that are no Digests"
    if len(digests) > MAX_DIGESTS:
        return "", f"{len(digests)} of them"
    for number, digest in enumerate(digests):
        if not digest.hash or _digest_fault(digest):
            return f"[{number}]", digest
    return None


def _some_digests_fault(data: bytes) -> Fault | None:
    return _digests_fault(data) if data else ("", "none")


def _some_digest_fault(value: Digest) -> Fault | None:
    return _digest_fault(value) if value.hash else ("", value)


def _url_fault(value: str) -> Fault | None:
    if not value:
        return None
    scheme, separator, rest = value.partition("://")
    return None if separator and scheme in ("http", "https") and rest and value.split() == [value] else ("", value)


def _running_fault(value: tuple[int, ...]) -> Fault | None:
    if len(value) > MAX_RUNNING:
        return "", f"{len(value)} of them"
    for number, dispatch_id in enumerate(value):
        if not 0 < dispatch_id <= U63_MAX:
            return f"[{number}]", dispatch_id
    return None


def _hints_fault(hints: tuple[ResourceHint, ...]) -> Fault | None:
    if len(hints) > MAX_HINTS:
        return "", f"{len(hints)} of them"
    seen: dict[tuple[str, str], int] = {}
    for number, hint in enumerate(hints):
        at = f"[{number}]"
        for name, most in (("target_id", MAX_TARGET_CHARS), ("mnemonic", MAX_NAME_CHARS)):
            if len(getattr(hint, name)) > most:
                return f"{at}.{name}", getattr(hint, name)
        for name in ("cpu_millis", "memory_kib"):
            if not 0 <= getattr(hint, name) <= U63_MAX:
                return f"{at}.{name}", getattr(hint, name)
        key = (hint.target_id, hint.mnemonic)
        if key == ("", ""):
            return at, "neither a target_id nor a mnemonic"
        if key in seen:
            return at, f"target_id {hint.target_id!r} and mnemonic {hint.mnemonic!r}, as in [{seen[key]}]"
        seen[key] = number
    return None


def _config_fault(value: str) -> Fault | None:
    if len(value) > MAX_CONFIG_CHARS:
        return "", f"{len(value)} characters"
    try:
        # An escaped half of a surrogate pair is valid JSON and no character: no event could repeat the text it stands in.
        json.dumps(json.loads(value), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "", "half of a surrogate pair"
    except RecursionError:
        return "", "values nested too deeply to be read"
    except ValueError:
        return None  # no JSON: events/config.py says so, with the rest of its rules
    return None


NAME_RULE = _text(1, MAX_NAME_CHARS)
LABEL_RULE = _text(0, MAX_NAME_CHARS, f"at most {MAX_NAME_CHARS} characters")
ENDPOINT_RULE = Rule(f"1 to {MAX_NAME_CHARS} characters without white space", _endpoint_fault)
AMOUNT_RULE = _number(0, U63_MAX, "a whole number from 0 to 2^63-1")
ID_RULE = _number(1, U63_MAX, "a whole number from 1 to 2^63-1")
OFFSET_RULE = _number(0, U63_MAX, "a whole number from 0 to 2^63-1")
INT32_RULE = _number(-(2**31), 2**31 - 1, "a whole number from -2^31 to 2^31-1")
DRAWN_RULE = _number(0, U64_MAX, "a whole number from 0 to 2^64-1")
CONNECTION_RULE = _number(1, U64_MAX, "a whole number from 1 to 2^64-1, drawn at each connect")
DURATION_RULE = _number(0, MAX_DURATION_US, "0 to 10 years, in microseconds")
DIGEST_RULE = Rule(f"a hash of {MIN_HASH_BYTES} to {MAX_HASH_BYTES} bytes and a size from 0 to 2^63-1", _digest_fault)
ONE_DIGEST_RULE = Rule(DIGEST_RULE.text, _some_digest_fault)
DIGESTS_RULE = Rule(f"at most {MAX_DIGESTS} digests, each with {DIGEST_RULE.text}", _digests_fault)
SOME_DIGESTS_RULE = Rule(f"1 to {MAX_DIGESTS} digests, each with {DIGEST_RULE.text}", _some_digests_fault)
STORE_RULE = Rule('"" (content) or "ac" (the action cache)', lambda value: None if value in ("", "ac") else ("", value))
URL_RULE = Rule("empty, or http://host:port without white space", _url_fault)
STATE_DIGEST_RULE = _text(STATE_DIGEST_BYTES, STATE_DIGEST_BYTES, f"{STATE_DIGEST_BYTES} bytes")
U32_RULE = _number(0, U32_MAX, "a whole number from 0 to 2^32-1")
REQUIREMENTS_RULE = Rule(
    f"at most {MAX_REQUIREMENTS}, sorted by name, {NO_NAME_TWICE}, names of 1 to {MAX_NAME_CHARS} and values of at most "
    f"{MAX_NAME_CHARS} characters",
    _requirements_fault,
)
PROPERTIES_RULE = Rule(
    f"at most {MAX_WORKER_PROPERTIES}, sorted by name, {NO_NAME_TWICE}, names of 1 to {MAX_NAME_CHARS} and values of at most "
    f"{MAX_NAME_CHARS} characters",
    lambda value: _pairs_fault(value, MAX_WORKER_PROPERTIES),
)
COMMAND_RULE = Rule(
    f"at most {MAX_ARGUMENTS} arguments, {MAX_VARIABLES} variables and {MAX_INPUTS} inputs; no NUL; each variable has a name "
    "without '=', no name stands twice, a secret has no value besides; each input is a digest",
    _command_fault,
)
MESSAGE_RULE = _text(0, MAX_MESSAGE_CHARS, f"at most {MAX_MESSAGE_CHARS} characters")
TAIL_RULE = _text(0, MAX_TAIL_BYTES, f"at most {MAX_TAIL_BYTES} bytes; the worker keeps the end of what was written")
USAGE_RULE = Rule(
    AMOUNT_RULE.text,
    lambda value: next(
        ((f".{n}", v) for n, v in zip(Usage._fields, value, strict=True) if not 0 <= v <= U63_MAX), None
    ),
)


def _one_of(kind: type[IntEnum]) -> Rule:
    return Rule(
        "one of " + ", ".join(value.name.lower() for value in kind if value),
        lambda value: ("", "unspecified") if value == 0 else None,
    )


RESULT_RULE = _one_of(RunResult)
HINTS_RULE = Rule(
    f"at most {MAX_HINTS}; each names a target_id (at most {MAX_TARGET_CHARS} characters), a mnemonic (at most {MAX_NAME_CHARS}) or "
    "both, no pair twice; amounts are whole numbers from 0 (no hint) to 2^63-1",
    _hints_fault,
)

_OF_WORKER = {"instance": NAME_RULE, "endpoint": ENDPOINT_RULE, "connection_id": DRAWN_RULE}
_OF_DISPATCH = {**_OF_WORKER, "dispatch_id": ID_RULE}
_OF_CLIENT = {"instance": NAME_RULE, "client_operation_id": NAME_RULE}
_OF_ANSWER = {"instance": NAME_RULE, "operation_id": OFFSET_RULE, "exit_code": INT32_RULE, "message": MESSAGE_RULE}
_OF_OPERATION = {"instance": NAME_RULE, "operation_id": OFFSET_RULE, "client_operation_id": LABEL_RULE}

RULES: dict[type, dict[str, Rule]] = {
    facts.ActionQueued: {
        "instance": NAME_RULE,
        "client_operation_id": NAME_RULE,
        "requirements": REQUIREMENTS_RULE,
        "priority": INT32_RULE,
        "queued_at_us": AMOUNT_RULE,
        "client_id": LABEL_RULE,
        "invocation_id": LABEL_RULE,
        "action_digest": DIGEST_RULE,
        "timeout_us": DURATION_RULE,
        "expected_duration_us": DURATION_RULE,
        "command": COMMAND_RULE,
        "target_id": _text(0, MAX_TARGET_CHARS, f"at most {MAX_TARGET_CHARS} characters"),
        "mnemonic": LABEL_RULE,
    },
    facts.WorkerConnected: {
        "instance": NAME_RULE,
        "endpoint": ENDPOINT_RULE,
        "boot_epoch": DRAWN_RULE,
        "connection_id": CONNECTION_RULE,
        "properties": PROPERTIES_RULE,
        "max_inflight": _number(0, U32_MAX, "a whole number from 0 (no limit) to 2^32-1"),
        "build": LABEL_RULE,
        "running": Rule(f"at most {MAX_RUNNING} dispatch ids, each from 1 to 2^63-1", _running_fault),
        "blobs_url": URL_RULE,
    },
    facts.WorkerReported: {**_OF_WORKER, "free_memory_kib": AMOUNT_RULE},
    facts.WorkerDrained: {"instance": NAME_RULE, "endpoint": ENDPOINT_RULE},
    facts.WorkerUndrained: {"instance": NAME_RULE, "endpoint": ENDPOINT_RULE},
    facts.WorkerGone: _OF_WORKER,
    facts.DispatchAccepted: _OF_DISPATCH,
    facts.DispatchDeclined: {**_OF_DISPATCH, "needed_kib": AMOUNT_RULE, "free_kib": AMOUNT_RULE},
    facts.ActionFinished: {
        **_OF_DISPATCH,
        "result": RESULT_RULE,
        "exit_code": INT32_RULE,
        "message": MESSAGE_RULE,
        "stdout_tail": TAIL_RULE,
        "stderr_tail": TAIL_RULE,
        "usage": USAGE_RULE,
    },
    facts.CancelRequested: _OF_OPERATION,
    facts.PriorityRequested: {**_OF_OPERATION, "priority": INT32_RULE},
    facts.InstancePaused: {"instance": NAME_RULE},
    facts.InstanceResumed: {"instance": NAME_RULE},
    facts.Configured: {
        "instance": NAME_RULE,
        "config_json": Rule(
            f"at most {MAX_CONFIG_CHARS} characters, nested less than 1,000 deep, no half of a surrogate pair",
            _config_fault,
        ),
    },
    facts.Tick: {},
    facts.KeyReleased: {"key": NAME_RULE},
    facts.ClientHeard: _OF_CLIENT,
    facts.ClientGone: _OF_CLIENT,
    facts.CacheAnswered: {**_OF_ANSWER, "answer": _one_of(CacheAnswer)},
    facts.HintsLoaded: {"instance": NAME_RULE, "hints": HINTS_RULE},
    facts.UpstreamReported: {**_OF_ANSWER, "state": _one_of(UpstreamState)},
    facts.BlobsAvailable: {
        **_OF_WORKER,
        "report": ID_RULE,
        "chunk": U32_RULE,
        "added": DIGESTS_RULE,
        "ac_pins": DIGESTS_RULE,
        "mirror_pending": U32_RULE,
        "mirror_pinned": U32_RULE,
        "mirror_pinned_bytes": AMOUNT_RULE,
    },
    facts.BlobsEvicted: {**_OF_WORKER, "digests": SOME_DIGESTS_RULE},
    facts.PeerFetchFailed: {
        "instance": NAME_RULE,
        "endpoint": ENDPOINT_RULE,
        "digest": ONE_DIGEST_RULE,
        "failure": _one_of(FetchFailure),
        "boot_epoch": DRAWN_RULE,
        "reporter": LABEL_RULE,
    },
    facts.BlobsStable: {
        "instance": NAME_RULE,
        "broadcast": DRAWN_RULE,
        "sequence": U32_RULE,
        "store": STORE_RULE,
        "digests": SOME_DIGESTS_RULE,
    },
    facts.BlobsStableAcknowledged: {**_OF_WORKER, "chunk_seq": ID_RULE},
    facts.StateDigested: {
        "seq": ID_RULE,
        "state_digest": STATE_DIGEST_RULE,
        "format": U32_RULE,
        "next_fact_offset": OFFSET_RULE,
        "by": ENDPOINT_RULE,
        "role": _one_of(DigestRole),
    },
}
"""The rules of each kind of fact, by field; a field that is not here has none beyond its type."""

OUTCOME_WHEN_FINISHED = "set when state is finished, and only then"
EXACTLY_ONE_ID = "exactly one of operation_id and client_operation_id names the operation"


def shown(value: object) -> str:
    """`value` as an error or event shows it: at most 128 characters, each one encodable."""
    text = value if isinstance(value, str) else str(value)
    return text[:SHOWN_CHARS].encode("utf-8", "backslashreplace").decode()[:SHOWN_CHARS]


def check_fact(fact: Fact) -> None:
    """Check `fact` against the rules of its kind.

    Raises:
        InvalidFact: the first field, in the dataclass's order, that breaks one.
        TypeError: an `Unreadable`, or no fact at all.
    """
    rules = RULES.get(type(fact))
    if rules is None:
        raise TypeError(f"{type(fact).__name__} is no fact of the wire contract")
    kind = type(fact).__name__
    for field, rule in rules.items():
        fault = rule.fault(getattr(fact, field))
        if fault is not None:
            path, value = fault
            raise InvalidFact(kind, field + path, shown(value), rule.text)
    if isinstance(fact, facts.CancelRequested | facts.PriorityRequested) and (fact.operation_id is None) == (
        not fact.client_operation_id
    ):
        both = f"operation_id {fact.operation_id}, client_operation_id {fact.client_operation_id!r}"
        raise InvalidFact(kind, "operation_id", shown(both), EXACTLY_ONE_ID)
    if isinstance(fact, facts.UpstreamReported) and (fact.state == UpstreamState.FINISHED) == (
        fact.outcome == Outcome.UNSPECIFIED
    ):
        raise InvalidFact(kind, "outcome", Outcome(fact.outcome).name.lower(), OUTCOME_WHEN_FINISHED)


def unreadable(error: InvalidFact, instance: object = "", key: object = "") -> facts.Unreadable:
    """What stands for a record that is no valid fact. `instance` and `key` are what it said of itself, whatever type that has."""
    if not error.field:
        reason = RejectReason.UNDECODABLE
    elif error.field == "kind":
        reason = RejectReason.UNKNOWN_KIND
    else:
        reason = RejectReason.INVALID_FIELD
    return facts.Unreadable(
        reason,
        fact_kind=shown(error.kind),
        field=shown(error.field),
        value=shown(error.value),
        rule=error.rule,
        instance=shown(instance) if isinstance(instance, str) else "",
        key=shown(key) if isinstance(key, str) else "",
    )


def key_of(fact: Fact) -> str:
    """The record key of a fact: its client_operation_id, endpoint or key; "" for a fact of the whole instance or shard."""
    for field in ("client_operation_id", "endpoint", "key"):
        found = getattr(fact, field, "")
        if found:
            return str(found)
    return ""
