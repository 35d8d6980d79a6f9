"""Moments of a shard's history, as people name them: the seq of an event, or a time. The one parser for commands and views."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final

from streams.errors import StreamError

MOST_SEQ: Final = (1 << 63) - 1

RULE: Final = (
    "a moment is the seq of an event (48120) or a time as ISO 8601 writes it (2026-03-01T14:05:30.250Z, "
    "'2026-03-01 14:05'); a time without an offset is UTC"
)


class BadMoment(StreamError):
    """What was given is neither a seq nor a time."""

    code: ClassVar[str] = "bad-moment"
    runbook: ClassVar[str] = "A seq from 1, or an ISO 8601 time; `headway events tail` prints both with each event."

    def __init__(self, given: str) -> None:
        self.given = given
        super().__init__(
            f"moment {given[:64]!r} is refused: {RULE}",
            remedy="`headway events tail` shows seq and time of every event",
        )


class NoSuchMoment(StreamError):
    """The log has no event at a moment that was asked for."""

    code: ClassVar[str] = "no-such-moment"
    runbook: ClassVar[str] = "Past the log's end, or past damage in the log, which `headway replay` locates."

    def __init__(self, shard: int, asked: str, seq: int, damage: str = "") -> None:
        why = f", as the log is damaged behind it: {damage}" if damage else ""
        super().__init__(
            f"shard {shard} has no {asked}: its last event is seq {seq}{why}",
            remedy="Name a moment up to that one; `headway replay` locates damage, in an export with the same --file",
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment: exactly one of `seq` (from 1) and `at_us` (microseconds since 1970).

    As the place where a history is looked at, or where a range ends, a time stands for the last event at or before it; where a range
    begins, for the first event at or after it. Several events share a time, since it is that of the fact that caused them.
    """

    seq: int | None = None
    at_us: int | None = None

    def __str__(self) -> str:
        return f"seq {self.seq}" if self.at_us is None else time_of(self.at_us)


def parse_moment(text: str) -> Moment:
    """The moment that `text` names. Raises BadMoment."""
    given = text.strip()
    if given.isascii() and given.isdigit():
        seq = int(given) if len(given) < 20 else 0
        if not 1 <= seq <= MOST_SEQ:
            raise BadMoment(text)
        return Moment(seq=seq)
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        raise BadMoment(text) from None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    at_us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if at_us < 0:
        raise BadMoment(text)
    return Moment(at_us=at_us)


def time_of(at_us: int) -> str:
    """A time for people, in UTC, to the millisecond where it has no finer part; `parse_moment` reads it back."""
    fraction = "milliseconds" if at_us % 1000 == 0 else "microseconds"
    seconds, micros = divmod(at_us, 1_000_000)
    at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
    return at.isoformat(timespec=fraction).replace("+00:00", "Z")
