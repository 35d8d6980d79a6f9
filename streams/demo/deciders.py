"""The two deciders of a performance, one deciding and one standing by, and which of them leads."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

import aiohttp

from streams.broker.ports import free_ports
from streams.demo.stage import DECIDER
from streams.health import LOOPBACK
from streams.ownership import Role

STANDBY = "standby"
HEALTH_PORTS = range(15_087, 19_087)
"""The first two free ones from a random one on, below the ports of views: another stage may be looking at the same time."""


@dataclass(frozen=True, slots=True)
class Deciders:
    """`ports` of their health endpoints, by the name of their part, in the order of their rank."""

    ports: dict[str, int]

    @classmethod
    def on_free_ports(cls) -> Deciders:
        """A decider and a standby."""
        free = free_ports(secrets.choice(HEALTH_PORTS))
        return cls({name: next(free) for name in (DECIDER, STANDBY)})

    def arguments(self) -> dict[str, list[str]]:
        """The arguments of the `headway` command for each."""
        return {
            name: ["decider", "run", "--shard", "0", "--rank", str(rank), "--health-port", str(port)]
            for rank, (name, port) in enumerate(self.ports.items())
        }

    async def leader(self, *, timeout_s: float = 20.0) -> str:
        """The part that leads now, waited for. Raises TimeoutError."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if (name := await self.leading_now()) is not None:
                        return name
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"no decider led within {timeout_s:g} s") from None

    async def leading_now(self) -> str | None:
        """The part that says that it leads; None where neither does, or neither answers."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
            for name, port in self.ports.items():
                if await _leads(session, port):
                    return name
        return None


async def _leads(session: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with session.get(f"http://{LOOPBACK}:{port}/healthz") as answer:
            said = await answer.json()
    except (aiohttp.ClientError, TimeoutError):
        return False  # not there yet, or killed
    return Role.LEADING.value in said["roles"].values()
