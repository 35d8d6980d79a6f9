"""Publishes facts and finds out what became of them, from the event log itself.

Every fact yields at least one event with `cause_offset` = the fact's offset, and all events of a fact stand in one transaction.
So after publishing, the events partition is read from where it ended before, until an event of the last fact has been seen;
no projection is involved, and a command can tell "done" from "ignored, because ..." and "rejected, because ...".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from events.codec import decode_event, encode_fact, envelope_of
from events.events import Event, FactIgnored, FactRejected
from events.fact_rules import key_of
from events.facts import Fact
from events.reasons import IgnoreReason, sentence
from streams.errors import StreamError
from streams.log import Log, Outgoing
from streams.topics import EVENTS, FACTS

PUBLISH_AT_ONCE = 1_000


class NotDecided(StreamError):
    """Facts are in the log, and no decider has decided them in time. They will be, once one runs."""

    code: ClassVar[str] = "not-decided"
    runbook: ClassVar[str] = "Does a decider run for the shard? `headway status` shows its lag and its last event."

    def __init__(self, shard: int, offsets: Sequence[int], undecided: int, waited_s: float) -> None:
        self.shard, self.offsets, self.undecided, self.waited_s = shard, tuple(offsets), undecided, waited_s
        super().__init__(
            f"{undecided} of {len(offsets)} fact(s) published to {FACTS}[{shard}] up to offset {offsets[-1]} "
            f"had no event after {waited_s:g} s",
            remedy=f"They stay in the log and will be decided: start a decider with `headway decider run --shard {shard}`",
        )


@dataclass(slots=True)
class Effect:
    """What one fact caused: its offset and its events, in order; no event before it is decided."""

    fact: Fact
    offset: int
    events: list[Event] = field(default_factory=list)

    @property
    def ignored(self) -> FactIgnored | None:
        """The event that says the fact changed nothing."""
        return next((event for event in self.events if isinstance(event, FactIgnored)), None)

    @property
    def rejected(self) -> FactRejected | None:
        """The event that says the fact was refused."""
        return next((event for event in self.events if isinstance(event, FactRejected)), None)

    @property
    def unchanged(self) -> bool:
        """Whether what the fact asks for was already so."""
        return self.ignored is not None and self.ignored.reason is IgnoreReason.NO_CHANGE

    @property
    def seq(self) -> int:
        """The last of its events; 0 when it is not decided."""
        return self.events[-1].seq if self.events else 0

    @property
    def said(self) -> str:
        """Why it had no effect, in a sentence; empty when it had one."""
        if self.rejected is not None:
            found = self.rejected
            where = f" Field {found.field!r} is {found.value!r}: {found.rule}." if found.field or found.rule else ""
            return sentence(found.reason) + where
        return sentence(self.ignored.reason) if self.ignored is not None else ""


def record_of(fact: Fact) -> Outgoing:
    """A fact as the record that goes into the facts topic."""
    key = key_of(fact)
    return Outgoing(encode_fact(fact), key=key.encode() if key else None)


async def publish_facts(log: Log, shard: int, facts: Sequence[Fact]) -> list[Effect]:
    """Publish facts to a shard, in order, and return at once: the effects have offsets and no events.

    Raises what `Log.publish` raises; facts of earlier slices of PUBLISH_AT_ONCE are then in the log.
    """
    effects: list[Effect] = []
    for begin in range(0, len(facts), PUBLISH_AT_ONCE):
        part = facts[begin : begin + PUBLISH_AT_ONCE]
        offsets = await log.publish((FACTS, shard), [record_of(fact) for fact in part])
        effects += [Effect(fact, offset) for fact, offset in zip(part, offsets, strict=True)]
    return effects


async def publish_and_see(log: Log, shard: int, facts: Sequence[Fact], *, timeout_s: float = 15.0) -> list[Effect]:
    """Publish facts to a shard and return what each caused.

    Raises:
        NotDecided: not all were decided within `timeout_s`.
        UnknownEvent: an event of theirs cannot be read by this build.
        What `Log.follow` and `Log.publish` raise.
    """
    if not facts:
        return []
    partition = (EVENTS, shard)
    follower = await log.follow({partition: None})
    try:
        # Whatever these facts will cause lies behind what is committed now.
        follower.seek(partition, await follower.end_offset(partition))
        effects = await publish_facts(log, shard, facts)
        by_offset = {effect.offset: effect for effect in effects}
        last = effects[-1].offset
        deadline = time.monotonic() + timeout_s
        seen_to, complete = -1, False
        while not complete:
            if time.monotonic() > deadline:
                undecided = sum(1 for effect in effects if not effect.events)
                raise NotDecided(shard, [effect.offset for effect in effects], undecided, timeout_s)
            for record in (await follower.read(timeout_ms=200)).get(partition, ()):
                cause = envelope_of(record.value).cause_offset
                effect = by_offset.get(cause)
                if effect is not None:
                    effect.events.append(decode_event(record.value))
                seen_to = max(seen_to, cause)
            # The last fact's events are all there once one of a later fact is, or nothing committed is left to be read.
            complete = seen_to > last or (
                seen_to == last and await follower.position(partition) >= await follower.end_offset(partition)
            )
        return effects
    finally:
        await follower.close()
