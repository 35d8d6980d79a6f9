"""Random facts and events, made from the dataclasses themselves, so that a new kind or field is covered the day it is added."""

from dataclasses import fields
from enum import IntEnum
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from events import events as e
from events import facts as f
from events.payloads import canonical_requirements, command_bytes, digests_bytes
from events.reasons import Outcome, UpstreamState
from events.values import NO_DIGEST, NO_USAGE, U63_MAX, Digest, Properties, Usage

names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
endpoints = st.text(st.characters(exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=12)
amounts = st.integers(0, U63_MAX)
int32 = st.integers(-(2**31), 2**31 - 1)
digests = st.just(NO_DIGEST) | st.builds(Digest, st.binary(min_size=20, max_size=64), amounts)
usages = st.just(NO_USAGE) | st.builds(Usage, amounts, amounts, amounts)
pairs = st.dictionaries(names, names, max_size=4).map(lambda found: tuple(sorted(found.items())))
arguments = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
variables = st.dictionaries(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0="), min_size=1, max_size=5),
    st.tuples(arguments, st.just("")) | st.tuples(st.just(""), names),
    max_size=3,
).map(lambda found: [(name, value, secret) for name, (value, secret) in found.items()])
real_digests = st.builds(Digest, st.binary(min_size=20, max_size=64), amounts)
commands = st.builds(command_bytes, st.lists(arguments, max_size=4), variables, st.lists(real_digests, max_size=3))
digest_lists = st.lists(real_digests, min_size=1, max_size=3).map(digests_bytes)
uint32 = st.integers(0, 2**32 - 1)
durations = st.integers(0, 10 * 365 * 24 * 3600 * 1_000_000)

BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "endpoint": endpoints,
    "requirements": pairs.map(canonical_requirements),
    "command": commands,
    "timeout_us": durations,
    "expected_duration_us": durations,
    "priority": int32,
    "exit_code": int32,
    "clamped_us": st.integers(-(2**62), 2**62),
    "requirement_id": st.integers(0, 2**32 - 1),
    "max_inflight": st.integers(0, 2**32 - 1),
    "job_failures": st.integers(0, 2**32 - 1),
    "worker_losses": st.integers(0, 2**32 - 1),
    "asked_requirement_id": st.integers(0, 2**32 - 1),
    "escalations": st.integers(0, 2**32 - 1),
    "more_candidates": st.integers(0, 2**32 - 1),
    "free_requeues": st.integers(0, 2**32 - 1),
    "connection_id": st.integers(1, 2**64 - 1),
    "boot_epoch": st.integers(0, 2**64 - 1),
    "dispatch_id": st.integers(1, U63_MAX),
    "blobs_url": st.just("") | st.just("http://host:1234"),
    "report": st.integers(1, U63_MAX),
    "chunk": uint32,
    "chunks": uint32,
    "changes": uint32,
    "sequence": uint32,
    "mirror_pending": uint32,
    "mirror_pinned": uint32,
    "added": digest_lists | st.just(b""),
    "ac_pins": digest_lists | st.just(b""),
    "digests": digest_lists,
    "digest": real_digests,
    "broadcast": st.integers(0, 2**64 - 1),
    "store": st.sampled_from(("", "ac")),
    "chunk_seq": st.integers(1, U63_MAX),
    "state_digest": st.binary(min_size=16, max_size=16),
    "other_digest": st.binary(min_size=16, max_size=16),
    "format": uint32,
    "by": endpoints,
    "seq": st.integers(1, U63_MAX),
    "config_json": st.just("{}") | st.just('{"kind":"simple"}'),
}
"""Fields whose rule is narrower, or wider, than their type says."""


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    by_type: dict[Any, st.SearchStrategy[Any]] = {
        int: amounts,
        str: names,
        bool: st.booleans(),
        bytes: st.binary(max_size=40),
        int | None: st.none() | amounts,
        Digest: digests,
        Usage: usages,
        Properties: pairs,
        tuple[int, ...]: st.lists(st.integers(1, U63_MAX), max_size=4).map(tuple),
        tuple[str, ...]: st.lists(names, max_size=4).map(tuple),
    }
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return st.sampled_from([value for value in hint if value])
    if get_origin(hint) is UnionType and hasattr(get_args(hint)[0], "_fields"):
        return st.none() | part(get_args(hint)[0])
    if get_origin(hint) is tuple and hasattr(get_args(hint)[0], "_fields"):
        return st.lists(part(get_args(hint)[0]), max_size=3, unique_by=lambda found: found[:2]).map(tuple)
    return by_type[hint]


IN_PARTS: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("QueueOrder", "time_us"): st.integers(-(2**62), 2**62),
    ("HoldCandidate", "running"): st.integers(0, 2**32 - 1),
    ("DrainBasis", "runs"): st.integers(0, 2**32 - 1),
    ("HoldExclusionCount", "workers"): st.integers(0, 2**32 - 1),
}


def part(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a named tuple that stands in a field."""
    hints = get_type_hints(kind)
    return st.builds(
        kind,
        *[IN_PARTS.get((kind.__name__, name), BY_NAME.get(name, of_type(hints[name]))) for name in kind._fields],
    )


def records(kind: type) -> st.SearchStrategy[Any]:
    """Valid values of one kind of fact or event."""
    hints = get_type_hints(kind)
    made = st.builds(
        kind, **{field.name: BY_NAME.get(field.name, of_type(hints[field.name])) for field in fields(kind)}
    )
    if kind in (f.CancelRequested, f.PriorityRequested):
        return made.map(_one_id)
    if kind is f.UpstreamReported:
        return made.map(_outcome_when_finished)
    return made


def _one_id(fact: Any) -> Any:
    if fact.operation_id is not None:
        fact.client_operation_id = ""
    return fact


def _outcome_when_finished(fact: Any) -> Any:
    if fact.state != UpstreamState.FINISHED:
        fact.outcome = Outcome.UNSPECIFIED
    return fact


any_fact = st.sampled_from(sorted(f.FACT_KINDS)).flatmap(lambda name: records(f.FACT_KINDS[name]))
any_event = st.sampled_from(sorted(e.EVENT_KINDS)).flatmap(lambda name: records(e.EVENT_KINDS[name]))
