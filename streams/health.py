"""What a decider says of itself: counters, and a small HTTP endpoint on the loopback interface that shows them (a shadow's, too).

GET /healthz   200 while every shard of the process follows or leads (a shadow's: is judged), else 503; the roles as JSON
GET /stats     all counters of all shards as JSON
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from streams.errors import StreamError

if TYPE_CHECKING:
    from aiohttp import web

LOOPBACK = "127.0.0.1"


class PortTaken(StreamError):
    """The port of an HTTP endpoint cannot be bound."""

    code: ClassVar[str] = "port-taken"
    runbook: ClassVar[str] = "Another process listens there: choose another port, or stop that process."

    def __init__(self, what: str, port: int, because: str) -> None:
        self.port = port
        super().__init__(
            f"{what} cannot listen on {LOOPBACK}:{port}: {because}",
            remedy="Choose another port, or stop the process that has it",
        )


def check_port(what: str, port: int) -> None:
    """Raise PortTaken when `what` could not listen on `port` of the loopback address now."""
    with socket.socket() as probing:
        # As the server itself does: connections of a former one in TIME_WAIT keep nobody off.
        probing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probing.bind((LOOPBACK, port))
        except OSError as error:
            raise PortTaken(what, port, error.strerror or str(error)) from error


@dataclass(slots=True)
class DeciderStats:
    """Counters of one decider for one shard since its process started. Times are in microseconds of its monotonic clock.

    `stale_events` were ignored because their leader had been replaced; `unknown_outcomes` counts commits without an answer. `holders` says
    how it knows what endpoints hold: off, behind or ready; `holders_unanswered` counts placements made while it was not ready, and
    `holders_dropped` by reason how often it had to be made again. `snapshot_seq` is the event of the snapshot that it
    began with (0: it began with the first event), `snapshots_dropped` counts by reason those that were of no use.
    """

    shard: int
    role: str = "following"
    rank: int = 0
    leader_epoch: int = 0
    seq: int = 0
    position: int = -1
    batches: int = 0
    transactions: int = 0
    facts: int = 0
    events: int = 0
    placements: int = 0
    commands: int = 0
    dead_letters: int = 0
    encoded_bytes: int = 0
    decide_us: int = 0
    commit_us: int = 0
    commit_last_us: int = 0
    commit_max_us: int = 0
    takeovers: int = 0
    fencings: int = 0
    unknown_outcomes: int = 0
    unavailable: int = 0
    undecidable: int = 0
    rebuilds: int = 0
    stale_events: int = 0
    ticks: int = 0
    tick_failures: int = 0
    holders: str = "off"
    holders_seq: int = 0
    holders_unanswered: int = 0
    holders_dropped: dict[str, int] = field(default_factory=dict)
    snapshot_seq: int = 0
    snapshots_dropped: dict[str, int] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        """Whether it follows or leads."""
        return self.role in ("following", "leading")

    def committed(
        self,
        *,
        facts: int,
        events: int,
        placements: int,
        commands: int,
        dead_letters: int,
        size_bytes: int,
        took_us: int,
        seq: int,
        position: int,
    ) -> None:
        """Count one committed transaction."""
        self.transactions += 1
        self.facts += facts
        self.events += events
        self.placements += placements
        self.commands += commands
        self.dead_letters += dead_letters
        self.encoded_bytes += size_bytes
        self.commit_us += took_us
        self.commit_last_us = took_us
        self.commit_max_us = max(self.commit_max_us, took_us)
        self.seq, self.position = seq, position

    def as_dict(self) -> dict[str, Any]:
        """All counters by name."""
        return asdict(self)


class Stats(Protocol):
    """Counters of one shard, and where it stands."""

    shard: int
    role: str

    @property
    def well(self) -> bool:
        """Whether it does its work, or stands by for it."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """All counters by name."""
        ...


class HealthEndpoint:
    """Serves the counters of a process over HTTP.

    Args:
        port: on 127.0.0.1; 0 takes a free one, which `port` then tells.
    """

    def __init__(self, stats: Sequence[Stats], port: int) -> None:
        from aiohttp import web  # a quarter of the time in which a decider starts, and most serve nothing

        self._stats, self._answer = stats, web.json_response
        self.port = port
        self._site = web.TCPSite
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/stats", self._show)
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self) -> None:
        """Listen.

        Raises:
            PortTaken: the port cannot be bound.
        """
        await self._runner.setup()
        site = self._site(self._runner, LOOPBACK, self.port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise PortTaken("the health endpoint", self.port, error.strerror or str(error)) from error
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        roles = {str(stats.shard): stats.role for stats in self._stats}
        well = all(stats.well for stats in self._stats)
        return self._answer({"ok": well, "roles": roles}, status=200 if well else 503)

    async def _show(self, request: web.Request) -> web.Response:
        return self._answer({"shards": [stats.as_dict() for stats in self._stats]})
