"""A wire to the broker that a test can cut and mend, without touching the broker that other tests use.

Clients learn the broker's address from its answers, so a plain forwarder would be left after the first one. This one
reads whole answers and puts its own port where the broker's address stands (a host name followed by four bytes of port,
in every version of the answers that carry addresses).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator


class Wire:
    """Forwards to one broker from a port of its own. While cut, it swallows what comes and says nothing."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._whole = asyncio.Event()
        self._whole.set()
        self._swallow_answers = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._old = b""
        self._new = b""

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"{self._host}:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Nothing passes any more, in neither direction; connections stay open, as behind a dead switch."""
        self._whole.clear()

    def cut_answers(self) -> None:
        """Requests still arrive, answers do not: what was asked for happens and nobody learns of it."""
        self._swallow_answers = True

    def mend(self) -> None:
        self._swallow_answers = False
        self._whole.set()

    def drop(self) -> None:
        """Closes every connection, as a broker that restarts does; new ones are taken at once."""
        for task in self._tasks:
            task.cancel()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, self._host, 0)
        host = self._host.encode()
        self._old = host + struct.pack(">i", self._port)
        self._new = host + struct.pack(">i", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Cancelled only by stop(); asyncio's server would report a connection's task that ends as cancelled.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            broker_reader, broker_writer = await asyncio.open_connection(self._host, self._port)
            answers = asyncio.create_task(self._pass(broker_reader, writer, answers=True))
            self._tasks.add(answers)
            answers.add_done_callback(self._tasks.discard)
            try:
                await self._pass(reader, broker_writer, answers=False)
            finally:
                broker_writer.close()
                writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", size)[0])
                await self._whole.wait()
                if answers and self._swallow_answers:
                    continue
                writer.write(size + (frame.replace(self._old, self._new) if answers else frame))
                await writer.drain()


@contextlib.asynccontextmanager
async def wire_to(bootstrap_servers: str) -> AsyncIterator[Wire]:
    host, port = bootstrap_servers.split(",")[0].rsplit(":", 1)
    wire = Wire(host, int(port))
    await wire.start()
    try:
        yield wire
    finally:
        wire.mend()
        await wire.stop()
