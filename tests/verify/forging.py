"""Histories to audit, and forgeries of them: an event changed, and every record behind it chained anew, so that the chain tells nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

from events.codec import encode_event, encode_fact
from events.codec.chain import GENESIS_CHAIN, link
from events.codec.facts import plain_record
from events.errors import InvalidFact
from events.events import LeaderElected
from events.facts import Fact, Unreadable
from projections.verify.auditor import WHOLE, Audit, Auditor, FactRecord, Range, Refusal
from projections.verify.case import Finding
from projections.verify.catalogue import CATALOGUE
from proto.gen.headway.v1 import events_pb2
from streams.log import Record
from streams.rehearsal import Rehearsal
from streams.topics import EVENTS, FACTS
from streams.verifying import read_fact, refusal_of
from tests.projections.recorded import Recorded
from tests.properties.walks import Walk
from tests.recorded.run import recorded_run


@dataclass(frozen=True, slots=True)
class History:
    """A shard's records: events as (offset, value), and the facts; `refused` are those without a record, by offset."""

    events: Sequence[tuple[int, bytes]]
    facts: Sequence[FactRecord]
    refused: Mapping[int, Refusal] = field(default_factory=dict)


def audit(history: History, *, facts: bool = True, judged: Range = WHOLE) -> Audit:
    """Audit a history as a reader of the log does, in small batches."""

    def edge(record: FactRecord) -> bytes | Refusal:
        return history.refused.get(record.offset) or read_fact(record)

    auditor = Auditor(edge, facts=facts, judged=judged)
    auditor.take_facts(list(history.facts))
    for offset, value in history.events:
        auditor.take(offset, value)
    auditor.close()
    return auditor.audit


def rule_of(finding: Finding) -> str:
    """Its rule's name."""
    return CATALOGUE[finding.rule].name


def told(found: Audit) -> list[str]:
    """The findings in words, for the message of a failed test."""
    return [f"{rule_of(f)} at seq {f.seq}: expected {f.expected}; found {f.found}" for f in found.findings]


def of_rehearsal(rehearsal: Rehearsal) -> History:
    """What a rehearsal has decided so far."""
    facts = [
        FactRecord(offset, taken.at_us, taken.key, _value(taken.fact), False)
        for offset, taken in enumerate(rehearsal.facts)
    ]
    refused = {
        offset: refusal_of(taken.fact)
        for offset, taken in enumerate(rehearsal.facts)
        if isinstance(taken.fact, Unreadable)
    }
    return History([(record.offset, record.value) for record in rehearsal.records], facts, refused)


def _value(fact: Fact) -> bytes:
    """The record of a fact; of one that a test gives to the core although no edge would let it in, as it is; none of an unreadable one."""
    if isinstance(fact, Unreadable):
        return b""
    try:
        return encode_fact(fact)
    except InvalidFact:
        return unchecked_record(fact)


def unchecked_record(fact: Fact) -> bytes:
    """The record of a fact that breaks a rule of its own."""
    with patch("events.codec.facts.check_fact", lambda fact: None):
        return plain_record(fact)


@cache
def walked(seed: int, facts: int = 300, elections: float = 0.03) -> History:
    """A random walk with lies, outages, reconfigurations and leaders."""
    walk = Walk(random.Random(seed))
    rng = random.Random(seed + 1)
    for _ in walk.go(facts):
        if rng.random() < elections:
            walk.restart()
    records = [
        FactRecord(offset, step.append_us, "", _value(step.fact), False) for offset, step in enumerate(walk.steps)
    ]
    return History([(record.offset, record.value) for record in walk.records], records)


def of_recorded(recorded: Recorded) -> History:
    """A shard that was decided on with holders asked and keys given; its events are chained anew."""
    messages, epoch = [], 0
    for _, event in recorded.events:
        epoch = event.leader_epoch if isinstance(event, LeaderElected) else epoch
        messages.append(events_pb2.Event.FromString(encode_event(event, epoch, GENESIS_CHAIN)[0]))
    offsets = [offset for offset, _ in recorded.events]
    return History(list(zip(offsets, chained(messages), strict=True)), [as_fact(record) for record in recorded.facts])


def as_fact(record: Record) -> FactRecord:
    """A record of the facts as the audit takes it."""
    return FactRecord(record.offset, record.at_us, (record.key or b"").decode(), record.value, False)


@cache
def holds() -> History:
    """The recorded run: holds of every ending."""
    log = recorded_run().log
    events = [(record.offset, record.value) for record in log.records((EVENTS, 0))]
    return History(events, [as_fact(record) for record in log.records((FACTS, 0))])


def chained(messages: Sequence[Any]) -> list[bytes]:
    """Records of these events, each chained to the one before."""
    chain, values = GENESIS_CHAIN, []
    for message in messages:
        message.ClearField("chain")
        value, chain = link(message.SerializeToString(deterministic=True), chain)
        values.append(value)
    return values


def parsed(history: History) -> list[Any]:
    """The events of a history as messages."""
    return [events_pb2.Event.FromString(value) for _, value in history.events]


def first(kind: str, where: Callable[[Any], bool], within: Iterable[History]) -> tuple[History, int]:
    """The first event of a kind that suits: its history, and its index there."""
    for history in within:
        for at, message in enumerate(parsed(history)):
            if message.WhichOneof("kind") == kind and where(getattr(message, kind)):
                return history, at
    raise AssertionError(f"no history has such a {kind}")


Change = Callable[[list[Any], int], None]
"""Forge the event at an index of all messages."""


def forged(history: History, at: int, change: Change) -> History:
    """The history with the event at index `at` forged, whole and correctly chained."""
    messages = parsed(history)
    change(messages, at)
    offsets = [offset for offset, _ in history.events]
    offsets += range(offsets[-1] + 1, offsets[-1] + 1 + max(0, len(messages) - len(offsets)))
    return History(list(zip(offsets, chained(messages), strict=False)), history.facts)


def turned_to(endpoint: str, connection_id: int) -> Change:
    """Another worker gets the dispatch."""

    def turn(messages: list[Any], at: int) -> None:
        messages[at].operation_dispatched.endpoint = endpoint
        messages[at].operation_dispatched.connection_id = connection_id

    return turn


def left_out(messages: list[Any], at: int) -> None:
    """The event is not there, and those behind it are counted anew."""
    del messages[at]
    _count(messages)


def doubled(messages: list[Any], at: int) -> None:
    """The event stands there twice, and those behind it are counted anew."""
    messages.insert(at + 1, deepcopy(messages[at]))
    _count(messages)


def _count(messages: list[Any]) -> None:
    for number, message in enumerate(messages, start=1):
        message.seq = number
