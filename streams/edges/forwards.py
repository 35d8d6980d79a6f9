"""Which operations of a shard stand with another scheduler, and what the log knows of them: a fold. Pure.

`OperationForwarded` hands one over. It comes back by `UpstreamReported{finished|refused}`; one that ends here first (cancelled, or
left by its clients) is *withdrawn*: the other scheduler has to be told.

The name an operation has there is made from what the log says, so a process that starts anew says the same name, and what it says
twice is a duplicate there: `<instance>/op-<operation id>`, followed by `@<id of the facts topic>` where the other scheduler has a
log of its own: other logs, or one that was made anew, have an `op-5` as well.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from events import events as e
from events.config import UpstreamScheduler, parse_config, resolve
from events.errors import SequenceBroken
from events.fact_rules import MAX_NAME_CHARS
from events.facts import ActionQueued
from events.reasons import UpstreamState

CANCEL_AGAIN_US: Final = 24 * 3600 * 1_000_000
"""A process that starts tells the other scheduler again of what was withdrawn this long before the last event, not of older ones."""

FORWARD_KINDS = frozenset(
    {
        e.LeaderElected,
        e.Configured,
        e.RequirementDefined,
        e.OperationQueued,
        e.CacheLookupRequested,
        e.CacheAnswered,
        e.OperationReprioritised,
        e.OperationForwarded,
        e.UpstreamReported,
        e.OperationFinished,
    }
)

ENDED = (UpstreamState.FINISHED, UpstreamState.REFUSED)


class Target(NamedTuple):
    """Another scheduler: an instance of this log (both others empty), or of the one with that prefix on that cluster."""

    instance: str
    bootstrap_servers: str = ""  # empty: this cluster
    topic_prefix: str = ""

    @property
    def is_here(self) -> bool:
        """Whether it is an instance of this log."""
        return not self.bootstrap_servers and not self.topic_prefix


def target_of(upstream: UpstreamScheduler) -> Target:
    """The target that a configuration names."""
    return Target(upstream.instance, upstream.bootstrap_servers or "", upstream.topic_prefix)


@dataclass(slots=True, eq=False)
class Forward:
    """One operation that another scheduler has."""

    operation_id: int
    instance: str
    client_operation_id: str
    target: Target
    forwarded_at_us: int
    action: ActionQueued  # as it is to be queued there, with the priority of now
    first_priority: int  # when it was forwarded
    told: UpstreamState = UpstreamState.UNSPECIFIED  # what the log knows of how it stands there
    withdrawn_at_us: int = 0  # it ended here first

    @property
    def name(self) -> str:
        """Its client_operation_id there."""
        return self.action.client_operation_id


class Forwards:
    """Operations of one shard that stand with others. Give it every event of FORWARD_KINDS in order."""

    def __init__(self) -> None:
        self.open: dict[int, Forward] = {}
        self.withdrawn: OrderedDict[int, Forward] = OrderedDict()
        self._upstreams: dict[str, UpstreamScheduler | None] = {}
        self._requirements: dict[int, bytes] = {}
        # An operation is forwarded in the step that queues it, or in the one that answers its look-up.
        self._latest: e.OperationQueued | None = None
        self._looked_up: dict[int, e.OperationQueued] = {}
        self._priorities: dict[int, int] = {}  # of those of them that were reprioritised
        self._facts_topic_id = ""

    def take(self, event: e.Event) -> Forward | None:
        """Fold one event; returns the forward that it changed.

        Raises:
            InvalidConfiguration: this build cannot read a configuration that is in force.
            SequenceBroken: an operation is forwarded that was not queued, or by an instance that hands nothing on.
        """
        match event:
            case e.OperationQueued():
                self._latest = event
            case e.CacheLookupRequested():
                if self._latest is not None:
                    self._looked_up[event.operation_id] = self._latest
            case e.CacheAnswered():
                self._latest = self._looked_up.pop(event.operation_id, None)
            case e.OperationFinished():
                self._looked_up.pop(event.operation_id, None)
                self._priorities.pop(event.operation_id, None)
                return self._end(event)
            case e.OperationForwarded():
                return self._forward(event)
            case e.UpstreamReported():
                forward = self.open.get(event.operation_id)
                if forward is not None:
                    forward.told = event.state
                return forward
            case e.OperationReprioritised():
                return self._reprioritise(event)
            case e.RequirementDefined():
                self._requirements[event.requirement_id] = event.requirements
            case e.Configured():
                self._upstreams[event.instance] = resolve(parse_config(event.config_json)).upstream
            case e.LeaderElected():
                self._facts_topic_id = event.facts_topic_id
            case _:
                return None
        return None

    def _forward(self, event: e.OperationForwarded) -> Forward:
        queued, self._latest = self._latest, None
        upstream = None if queued is None else self._upstreams.get(queued.instance)
        if queued is None or queued.operation_id != event.operation_id or upstream is None:
            raise SequenceBroken(
                f"event {event.seq} hands operation {event.operation_id} to {event.upstream!r}, but it was not queued just before, or "
                "its instance hands nothing on. The log holds something no decider writes: run 'headway replay' to locate it"
            )
        target = target_of(upstream)
        priority = self._priorities.pop(event.operation_id, queued.priority)
        action = ActionQueued(
            target.instance,
            self._name_of(queued, target),
            self._requirements.get(queued.requirement_id, b""),
            priority,
            queued.queued_at_us,
            queued.client_id,
            queued.invocation_id,
            False,  # its clients are heard here; when they are gone it is cancelled there
            queued.action_digest,
            queued.cacheable,
            queued.skip_cache_lookup,
            queued.timeout_us,
            queued.expected_duration_us,
            queued.command,
            queued.target_id,
            queued.mnemonic,
        )
        forward = Forward(
            event.operation_id, queued.instance, queued.client_operation_id, target, event.at_us, action, priority
        )
        self.open[event.operation_id] = forward
        return forward

    def _name_of(self, queued: e.OperationQueued, target: Target) -> str:
        suffix = f"/op-{queued.operation_id}" + ("" if target.is_here else f"@{self._facts_topic_id}")
        name = queued.instance + suffix
        if len(name) > MAX_NAME_CHARS:
            name = blake2b(queued.instance.encode(), digest_size=16).hexdigest() + suffix
        return name

    def _reprioritise(self, event: e.OperationReprioritised) -> Forward | None:
        forward = self.open.get(event.operation_id)
        if forward is not None:
            forward.action.priority = event.priority
        elif event.operation_id in self._looked_up:
            self._priorities[event.operation_id] = event.priority
        return forward

    def _end(self, event: e.OperationFinished) -> Forward | None:
        forward = self.open.pop(event.operation_id, None)
        if forward is None or forward.told in ENDED:
            return forward
        forward.withdrawn_at_us = event.at_us
        forward.action.command = b""  # it is not sent again
        self.withdrawn[event.operation_id] = forward
        while next(iter(self.withdrawn.values())).withdrawn_at_us < event.at_us - CANCEL_AGAIN_US:
            self.withdrawn.popitem(last=False)
        return forward

    def goes_round(self, forward: Forward) -> bool:
        """Whether instances of this log hand the operation on in a circle, as far as this shard knows their configurations.

        Of an instance of another shard it only knows that an operation came from there, by its name.
        """
        seen = [forward.instance]
        target: Target | None = forward.target
        while target is not None and target.is_here:
            if target.instance in seen:
                return True
            seen.append(target.instance)
            upstream = self._upstreams.get(target.instance)
            target = None if upstream is None else target_of(upstream)
        there = re.escape(forward.target.instance)
        return forward.target.is_here and re.fullmatch(there + r"/op-\d+", forward.client_operation_id) is not None

    def all(self) -> Iterator[Forward]:
        """Those that are open, then those that are withdrawn."""
        yield from self.open.values()
        yield from self.withdrawn.values()

    def settle(self, forward: Forward) -> None:
        """The other scheduler knows that it is withdrawn, or has ended it."""
        self.withdrawn.pop(forward.operation_id, None)
