"""One fact's events before the rules: which event is due, what it must say, and what was found.

A rule asks for an event (`expect`); the next recorded one must be it and say the same. It is folded then, so that the next rule sees what
it changed. Where another event stands there the rest of the fact cannot be judged (`Off`): it is folded as far as it goes, and judging
goes on with the next fact.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from projections.verify.catalogue import CATALOGUE, READABLE
from projections.verify.rows import Domain, Op, Run, Shard, Worker

EVENT_CHARS = 300
"""Characters of an event that stand in a finding."""


class Finding(NamedTuple):
    """Something that does not follow: the rule's number, where it stands, what was expected and what is there."""

    rule: int
    seq: int
    offset: int
    cause_offset: int
    expected: str
    found: str


class Recorded(NamedTuple):
    """One event of the fact in hand."""

    seq: int
    offset: int
    kind: str
    payload: Any


class FactSeen(NamedTuple):
    """What the log still has of the fact: its record's key, and its kind as events call it."""

    key: str
    kind: str


class Off(Exception):
    """Another event is due than the one that stands there."""

    def __init__(self, rule: int, expected: str) -> None:
        super().__init__(expected)
        self.rule = rule
        self.expected = expected


class Case:
    """The fact in hand and the events it caused. One case serves a whole audit: `open` begins the next fact."""

    __slots__ = ("at", "events", "fact", "findings", "folds", "judged", "now_us", "offset", "seq", "shard", "was_us")

    def __init__(self, shard: Shard, folds: dict[str, Callable[["Case", Any], None]]) -> None:
        self.shard = shard
        self.folds = folds
        self.judged = [0] * len(CATALOGUE)
        self.findings: list[Finding] = []
        self.events: list[Recorded] = []
        self.at = 0
        self.offset = 0
        self.now_us = 0
        self.was_us = 0
        self.seq = 0
        self.fact: FactSeen | None = None

    def open(self, offset: int, events: list[Recorded], now_us: int) -> None:
        """Begin with the events of the next fact; `fact` is for who finds it in the log to set."""
        self.offset = offset
        self.events = events
        self.at = 0
        self.was_us = self.shard.now_us
        self.now_us = now_us
        self.fact = None

    def peek(self) -> str:
        """The kind of the next event; empty at the end of the fact."""
        return self.events[self.at].kind if self.at < len(self.events) else ""

    def fold_next(self) -> Any:
        """Take the next event as it is."""
        event = self.events[self.at]
        self.at += 1
        self.seq = event.seq
        self.folds[event.kind](self, event.payload)
        return event.payload

    def due(self, rule: int, kind: str, expected: str = "") -> Any:
        """The next event's message, which must be of this kind. Raises Off."""
        if self.peek() != kind:
            raise Off(rule, f"{kind} {expected}".strip())
        self.judged[rule] += 1
        return self.events[self.at].payload

    def expect(self, rule: int, kind: str, **fields: Any) -> Any:
        """The next event is of this kind and says this; it is folded. Raises Off."""
        if self.peek() != kind:
            raise Off(rule, " ".join((kind, *(f"{name}={value!r}" for name, value in fields.items()))))
        self.judged[rule] += 1
        payload = self.events[self.at].payload
        for name, value in fields.items():
            have = getattr(payload, name)
            if have != value:
                self.find(rule, f"{name}={value!r}", f"{name}={have!r} in {self.shown()}")
        return self.fold_next()

    def check(self, rule: int, holds: bool, expected: str) -> None:
        """Of the next event: a condition beside its fields."""
        self.judged[rule] += 1
        if not holds:
            self.find(rule, expected, self.shown())

    def find(self, rule: int, expected: str, found: str, at: int | None = None) -> None:
        """Note a finding at the next event (at the last one where the fact has no more)."""
        place = min(self.at if at is None else at, len(self.events) - 1)
        event = self.events[place]
        self.findings.append(Finding(rule, event.seq, event.offset, self.offset, expected, found))

    def shown(self) -> str:
        """The next event in words."""
        if self.at >= len(self.events):
            return "the fact has no more events"
        event = self.events[self.at]
        text = " ".join(str(event.payload).split())
        return f"{event.kind} {text}"[:EVENT_CHARS].strip()

    def domain(self, name: str) -> Domain:
        """A known instance. Raises Off."""
        domain = self.shard.domains.get(name)
        if domain is None:
            raise Off(READABLE, f"an instance that is configured, not {name!r}")
        return domain

    def op(self, number: int) -> Op:
        """A known operation. Raises Off."""
        op = self.shard.ops.get(number)
        if op is None:
            raise Off(READABLE, f"an operation that is known, not {number}")
        return op

    def worker(self, domain: Domain, endpoint: str) -> Worker:
        """A connected worker. Raises Off."""
        worker = domain.workers.get(endpoint)
        if worker is None:
            raise Off(READABLE, f"a worker that is connected, not {endpoint!r}")
        return worker

    def run(self, rule: int, op: Op, number: int) -> Run:
        """The operation's current dispatch, which must be this one. Raises Off."""
        run = op.run
        if run is None or run.id != number:
            held = "none" if run is None else run.id
            raise Off(rule, f"the current dispatch of operation {op.id}, which is {held}")
        return run
