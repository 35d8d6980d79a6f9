"""What all views share: how a request is read, how one is refused, and how an answer goes out as JSON."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

DEFAULT_LIMIT: Final = 100
MOST_ROWS: Final = 10_000

Answer = dict[str, Any]
View = Callable[[web.Request], Answer]
WaitingView = Callable[[web.Request], Answer | Awaitable[Answer]]
"""One that may have to wait for what it answers from."""


class Refused(Exception):
    """A request that gets an error for an answer: `{"error": code, "message", "remedy", ...}` with `status`."""

    def __init__(self, status: int, code: str, message: str, remedy: str, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": code, "message": message, "remedy": remedy, **details}


def answering(view: WaitingView) -> Callable[[web.Request], Any]:
    """The view as aiohttp wants it."""

    async def answer(request: web.Request) -> web.Response:
        try:
            answered = view(request)
            body, status = await answered if inspect.isawaitable(answered) else answered, 200
        except Refused as refused:
            body, status = refused.body, refused.status
        text = json.dumps(body, separators=(",", ":"))
        return web.Response(text=text + "\n", status=status, content_type="application/json")

    return answer


def text_of(request: web.Request, name: str) -> str | None:
    """A parameter; None where it is absent or empty."""
    return request.query.get(name) or None


def number_of(request: web.Request, name: str, default: int) -> int:
    """A whole number from 0. Raises Refused."""
    given = request.query.get(name)
    if not given:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        message = f"{name}={given[:64]!r} is refused: it is a whole number from 0"
        raise Refused(400, "bad-request", message, "Correct the parameter")
    return int(given)


def limit_of(request: web.Request, name: str = "limit", *, default: int = DEFAULT_LIMIT, least: int = 1) -> int:
    """How many rows are wanted at most. Raises Refused."""
    limit = number_of(request, name, default)
    if not least <= limit <= MOST_ROWS:
        message = f"{name}={limit} is refused: it is from {least} to {MOST_ROWS}"
        raise Refused(400, "bad-request", message, "Ask for pages, with `after`")
    return limit


def hex_of(request: web.Request, name: str) -> bytes:
    """A parameter in hex; empty where it is absent. Raises Refused."""
    given = request.query.get(name, "")
    try:
        return bytes.fromhex(given)
    except ValueError:
        raise Refused(400, "bad-request", f"{name}={given[:64]!r} is no hex", "Pass the last row's key") from None
