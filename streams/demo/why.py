"""Why an action waited, in five lines, from the events alone: what it asked, who held the room, who overtook it, what freed it.

The capacity of each worker is folded along with the events: a dispatch takes its amounts, its end gives them back. `overtook` of a
dispatch names the first waiting operation that it went past, so the dispatches that name the action are those for which it stood
first in line and did not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from events.config import DEFAULT_CONFIG, parse_config, resolve
from events.events import (
    Configured,
    DispatchSettled,
    Event,
    KillRequested,
    OperationDispatched,
    OperationFinished,
    OperationRequeued,
    RequirementDefined,
    WorkerAdmitted,
    WorkerDisconnected,
)
from events.payloads import requirements_of
from streams.cli.output import duration
from streams.demo.tally import Run, Tally

Amounts = dict[str, int]


@dataclass(slots=True)
class Site:
    """A worker as of an event: what it offers, and the runs it pays for, by dispatch id."""

    endpoint: str
    properties: dict[str, str]
    offers: Amounts
    running: dict[int, int] = field(default_factory=dict)  # dispatch id to operation id


class Room:
    """Who holds how much of which worker, folded event by event."""

    def __init__(self, tally: Tally) -> None:
        self._runs = tally.runs
        self._requirements: dict[int, dict[str, str]] = {}
        self._pools = DEFAULT_CONFIG.pools()
        self._exact: tuple[str, ...] = ()
        self._revoked: set[int] = set()
        self.sites: dict[str, Site] = {}

    def add(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case Configured():
                config = resolve(parse_config(event.config_json)).base
                self._pools = config.pools()
                self._exact = tuple(
                    name for name, kind in config.supported_platform_properties.items() if kind == "exact"
                )
            case RequirementDefined():
                self._requirements[event.requirement_id] = dict(requirements_of(event.requirements))
            case WorkerAdmitted():
                properties = dict(event.properties)
                offers = {name: int(properties[name]) for name in self._pools if name in properties}
                before = self.sites.get(event.endpoint)
                kept = {i: op for i, op in before.running.items() if i in event.kept} if before else {}
                self.sites[event.endpoint] = Site(event.endpoint, properties, offers, kept)
            case WorkerDisconnected():
                self.sites.pop(event.endpoint, None)
            case OperationDispatched():
                self.sites[event.endpoint].running[event.dispatch_id] = event.operation_id
            case KillRequested():
                self._revoked.add(event.dispatch_id)  # told to stop; its run pays until the worker reports
            case OperationRequeued() | OperationFinished() if event.dispatch_id not in self._revoked:
                self._release(event.dispatch_id)
            case DispatchSettled():
                self._release(event.dispatch_id)

    def _release(self, dispatch_id: int) -> None:
        for site in self.sites.values():
            site.running.pop(dispatch_id, None)

    def asks(self, operation_id: int) -> Amounts:
        """What an operation asks of the pools."""
        requirements = self._requirements.get(self._runs[operation_id].requirement_id, {})
        return {name: int(requirements[name]) for name in self._pools if name in requirements}

    def free(self, site: Site) -> Amounts:
        """What a worker has left."""
        left = dict(site.offers)
        for operation_id in site.running.values():
            for name, amount in self.asks(operation_id).items():
                left[name] = left.get(name, 0) - amount
        return left

    def could_ever_run(self, operation_id: int) -> list[Site]:
        """The workers that, empty, have room for an operation and the properties it asks for by value."""
        asked = self.asks(operation_id)
        requirements = self._requirements.get(self._runs[operation_id].requirement_id, {})
        return [
            site
            for site in self.sites.values()
            if all(site.offers.get(name, -1) >= amount for name, amount in asked.items())
            and all(site.properties.get(name) == requirements[name] for name in self._exact if name in requirements)
        ]


def why_it_waited(events: Sequence[Event], tally: Tally, run: Run) -> list[str]:
    """Five lines on why `run` waited for its first dispatch.

    Args:
        events: all events of the shard, in order.
        tally: the fold of the same events.
        run: an operation of the tally that was dispatched.
    """
    placed = run.first_dispatch
    if placed is None:
        raise ValueError(f"operation {run.operation_id} was never dispatched, so its wait has no end")
    room = Room(tally)
    # The first leader is elected before any fact has set the scheduler's clock.
    begun_us = next((event.at_us for event in events if event.at_us), 0)
    overtakers: list[OperationDispatched] = []
    at_start: list[str] = []
    candidates: list[str] = []
    freed = ""
    for event in events:
        if event.seq == placed.seq:
            break
        if isinstance(event, OperationFinished | OperationRequeued | DispatchSettled) and event.seq > run.queued_seq:
            site = room.sites.get(placed.endpoint)
            if site is not None and event.dispatch_id in site.running:
                freed = name_of(tally, event.operation_id)
        room.add(event)
        if event.seq == run.queued_seq:
            sites = room.could_ever_run(run.operation_id)
            candidates = [site.endpoint for site in sites]
            at_start = [_held(room, site, run.operation_id) for site in sites]
        elif isinstance(event, OperationDispatched) and event.overtook == run.operation_id:
            overtakers.append(event)
    return [
        f"{name_of(tally, run.operation_id)} waited {duration(run.wait_us)}: queued {_at(run.queued_at_us, begun_us)}, "
        f"placed on {placed.endpoint} {_at(placed.at_us, begun_us)}.",
        f"It asked for {_amounts(room.asks(run.operation_id))}; "
        f"{len(candidates)} of {len(room.sites)} workers are large enough{_listed(candidates)}.",
        "When it was queued: " + ("; ".join(at_start) if at_start else "no worker large enough was connected") + ".",
        _overtaken(overtakers, candidates, tally, room.asks, run.operation_id),
        (
            f"It was placed when {freed} ended on {placed.endpoint} and all it asked for was free there at once; "
            "nothing is held for an action that waits, unless a hold is configured."
            if freed
            else f"It was placed as soon as {placed.endpoint} had the room."
        ),
    ]


def _overtaken(
    overtakers: Sequence[OperationDispatched],
    candidates: Sequence[str],
    tally: Tally,
    asks: Callable[[int], Amounts],
    operation_id: int,
) -> str:
    if not overtakers:
        return "Nobody overtook it while it stood first in line."
    there = [event for event in overtakers if event.endpoint in candidates]
    first = (there or list(overtakers))[0]
    return (
        f"{len(overtakers)} later actions overtook it because they asked for less, {len(there)} of them onto "
        f"{'that worker' if len(candidates) == 1 else 'those workers'}, which kept the room split up: first "
        f"{name_of(tally, first.operation_id)} ({_amounts(asks(first.operation_id))}) on {first.endpoint}."
    )


def _held(room: Room, site: Site, operation_id: int) -> str:
    free, asked = room.free(site), room.asks(operation_id)
    short = [
        f"{amount} {name} wanted, {free.get(name, 0)} free"
        for name, amount in asked.items()
        if free.get(name, 0) < amount
    ]
    holders = f"{len(site.running)} run{'' if len(site.running) == 1 else 's'} held {site.endpoint}"
    return f"{holders} ({', '.join(short)})" if short else f"{site.endpoint} had the room"


def name_of(tally: Tally, operation_id: int) -> str:
    """An operation for people: `op-17 (its target, or its client's id)`."""
    run = tally.runs.get(operation_id)
    label = (run.target_id or run.client_operation_id) if run is not None else ""
    return f"op-{operation_id}" + (f" ({label})" if label else "")


def _amounts(amounts: Amounts) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items()) or "nothing in particular"


def _listed(names: Sequence[str], most: int = 4) -> str:
    if not names:
        return ""
    return f" ({', '.join(names[:most])}{', ...' if len(names) > most else ''})"


def _at(instant_us: int, begun_us: int) -> str:
    return f"at {max(0, instant_us - begun_us) / 1_000_000:.1f} s"
