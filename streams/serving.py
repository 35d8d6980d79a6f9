"""Listens on a port of the loopback interface for a whole process, from its first moment to its last."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from streams.health import LOOPBACK, PortTaken


class PublicApi:
    """An HTTP server.

    Args:
        add_routes: told the application before it is served.
        port: on 127.0.0.1; 0 takes a free one, which `port` then tells.
    """

    def __init__(self, add_routes: Callable[[web.Application], None], port: int) -> None:
        self.port = port
        application = web.Application()
        add_routes(application)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> None:
        """Listen. Raises PortTaken."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, LOOPBACK, self.port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise PortTaken("the views", self.port, error.strerror or str(error)) from error
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening; requests that are being answered get a second."""
        await self._runner.cleanup()
