"""What a record says of the world: facts that nobody's decision caused, and how every run went.

Facts are of two kinds. *Given* ones would have come under any policy: actions queued, workers and clients coming and going, operators,
ticks. *Answers* are what workers say of runs: they follow from where and when an operation was dispatched, so they belong to that attempt
and are taken again only where the dispatch is the same.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from events import facts as f
from events.events import LeaderElected, OperationDispatched
from events.reasons import RunResult
from events.state import Operation, Shard
from projections.whatif.decisions import Decision

SILENCE_US: Final = 3_000_000
"""A longer gap between two facts of a log with a ticker: nobody could write (events/deciding/timing.py)."""

FOREIGN: Final = 1 << 62
"""Added to a dispatch id that never was, or was not yet: it must not be taken for one that will have this number in a new history."""

ANSWERS: Final = (f.DispatchAccepted, f.DispatchDeclined, f.ActionFinished)
"""What workers say of runs."""

AnswerFact = f.DispatchAccepted | f.DispatchDeclined | f.ActionFinished


class Given(NamedTuple):
    """A fact of the record that is taken again as it was, or an election.

    `at_us` is the scheduler's now as it was taken, `append_us` the fact's own append time; `written_off` says why the core failed on it.
    """

    at_us: int
    offset: int
    append_us: int
    key: str
    fact: f.Fact | None = None
    election: LeaderElected | None = None
    written_off: str = ""

    @property
    def order(self) -> tuple[int, int, int]:
        """When it comes; an election comes after the fact at its offset, be that given or an answer."""
        return self.at_us, self.offset, int(self.fact is None)


class Answer(NamedTuple):
    """What a worker said of a run, and when."""

    at_us: int
    offset: int
    append_us: int
    key: str
    fact: AnswerFact


@dataclass(slots=True)
class Attempt:
    """One dispatch of an operation in the record, `number` from 0, with all that was said of it in the window."""

    operation_id: int
    number: int
    dispatch_id: int
    instance: str
    endpoint: str
    dispatched_at_us: int
    cause_offset: int
    kind: str
    answers: list[Answer] = field(default_factory=list)
    killed_at_us: int = 0  # 0: it was never told to stop
    lost_at_us: int = 0  # 0: its worker was not lost under it
    unanswered: bool = False  # it was taken back because its worker never accepted it

    def end(self) -> Answer | None:
        """What ended it by itself; None where that was not seen: it was killed, lost with its worker, or runs on."""
        for answer in self.answers:
            fact = answer.fact
            if type(fact) is f.DispatchDeclined or (
                type(fact) is f.ActionFinished and not (self.killed_at_us and fact.result == RunResult.KILLED)
            ):
                return answer
        return None

    def accepted(self) -> Answer | None:
        """Its first acceptance."""
        return next((answer for answer in self.answers if type(answer.fact) is f.DispatchAccepted), None)

    def stopped(self) -> Answer | None:
        """What the worker reported after it was told to stop."""
        if not self.killed_at_us:
            return None
        finished = (answer for answer in self.answers if type(answer.fact) is f.ActionFinished)
        return next((answer for answer in finished if answer.at_us >= self.killed_at_us), None)


@dataclass(slots=True)
class Record:
    """A window of a shard's record. Rows of operations that ended before it are not kept.

    Args:
        base: the state before its first fact; not live, and never decided on (`state_copy.copy_of` makes what is).
    """

    base: Shard = field(default_factory=Shard)
    givens: list[Given] = field(default_factory=list)
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)  # by operation_id, in order
    by_dispatch: dict[int, Attempt] = field(default_factory=dict)  # of those, the ones that ran in the window
    dispatches: list[OperationDispatched] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lookups_us: dict[int, int] = field(
        default_factory=dict
    )  # when the cache was asked, by operation_id; until it answered
    cache_answers_us: dict[int, int] = field(default_factory=dict)  # how long the answer took
    stable_seqs: dict[int, int] = field(default_factory=dict)  # of BlobsStable events, by offset of the fact
    silences: list[tuple[int, int]] = field(default_factory=list)  # from, to: nobody could write
    first_seq: int = 0
    last_seq: int = 0
    first_at_us: int = 0
    last_at_us: int = 0
    events: int = 0
    facts: int = 0
    rebuilt: int = 0  # facts that are gone from the log and were made again from their events
    lost: int = 0  # of those, the ones whose events do not say what they were

    def attempt_before(self, dispatch_id: int, offset: int) -> Attempt | None:
        """The attempt of a dispatch id, as whoever wrote the fact at `offset` could know it; None: there was none yet, or it is over."""
        attempt = self.by_dispatch.get(dispatch_id)
        return attempt if attempt is not None and attempt.cause_offset < offset else None

    def foreign(self, dispatch_id: int) -> int:
        """The number of a dispatch that this window has no attempt of; those of before the window stand for nothing else in any history."""
        return dispatch_id if dispatch_id <= self.base.seq else FOREIGN + dispatch_id

    def awake_us(self, at_us: int) -> int:
        """When somebody who wants to write at `at_us` can: then, or at the end of the outage it falls into."""
        at = bisect_right(self.silences, (at_us, 1 << 62)) - 1
        if at >= 0 and self.silences[at][0] < at_us < self.silences[at][1]:
            return self.silences[at][1]
        return at_us


def kind_of(shard: Shard, operation: Operation) -> str:
    """What runs of an operation are compared by: its mnemonic where it has one, else what it asks for."""
    if operation.mnemonic:
        return f"{operation.instance}/{operation.mnemonic}"
    asked = operation.asked_requirement_id or operation.requirement_id
    return f"{operation.instance}/{shard.requirements[asked].hex()}"
