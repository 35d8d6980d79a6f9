"""The built-in action cache: what cacheable actions came to, as a fold of one shard's events. Pure.

`CacheLookupRequested` is answered from actions of the same instance that ran to their end with exit code 0; the newest result of a
digest counts. It holds the last `most` results by use, so what was not asked for in a long time is run again. Being used is itself in
the log (`CacheAnswered` with a hit), so two edges that have read the same events hold the same results and answer alike.

A result is an exit code: what an action wrote lies where its worker put it, and whoever has a real content store puts an edge of
their own in this one's place; the core takes whichever answer comes first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from events import events as e
from events.errors import SequenceBroken
from events.facts import CacheAnswered
from events.reasons import CacheAnswer, Outcome
from events.values import Digest

MOST_RESULTS: Final = 500_000
"""Results held; one costs some 300 bytes."""

_Key = tuple[str, Digest]  # instance, action_digest

CACHE_KINDS = frozenset({e.OperationQueued, e.CacheLookupRequested, e.CacheAnswered, e.OperationFinished})


class CacheEdge:
    """Results and open look-ups of one shard. Give it every event of CACHE_KINDS in order; publish what `answers` returns.

    Args:
        most: results held; the one that was not used for the longest time gives way. 0: none, every look-up misses.
    """

    def __init__(self, most: int = MOST_RESULTS) -> None:
        if most < 0:
            raise ValueError(f"most is {most}; it must be 0 or more")
        self._most = most
        self._exit_codes: OrderedDict[_Key, int] = OrderedDict()
        self._live: dict[int, _Key] = {}  # cacheable operations by id
        self._open: dict[int, _Key] = {}  # look-ups by operation id, oldest first
        self._unanswered: dict[int, None] = {}  # those of them that this edge has not answered
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._exit_codes)

    @property
    def open_lookups(self) -> int:
        """Look-ups that the log holds no answer to."""
        return len(self._open)

    def take(self, event: e.Event) -> None:
        """Fold one event. Raises SequenceBroken where the log asks for an operation that it did not queue as cacheable."""
        match event:
            case e.OperationQueued():
                if event.cacheable:
                    self._live[event.operation_id] = (event.instance, event.action_digest)
            case e.CacheLookupRequested():
                self._ask(event)
            case e.CacheAnswered():
                self._close(event.operation_id)
                key = self._live.get(event.operation_id)
                if event.answer is CacheAnswer.HIT and key is not None and key in self._exit_codes:
                    self._exit_codes.move_to_end(key)
            case e.OperationFinished():
                self._close(event.operation_id)
                key = self._live.pop(event.operation_id, None)
                if key is not None and key[1].hash and event.outcome is Outcome.COMPLETED and event.exit_code == 0:
                    self._keep(key, event.exit_code)
            case _:
                return

    def _ask(self, event: e.CacheLookupRequested) -> None:
        key = self._live.get(event.operation_id)
        if key is None:
            raise SequenceBroken(
                f"event {event.seq} looks up operation {event.operation_id}, which is not live or not cacheable. "
                "The log holds something no decider writes: run 'headway replay' to locate it"
            )
        self._open[event.operation_id] = key
        self._unanswered[event.operation_id] = None

    def _close(self, operation_id: int) -> None:
        self._open.pop(operation_id, None)
        self._unanswered.pop(operation_id, None)

    def _keep(self, key: _Key, exit_code: int) -> None:
        self._exit_codes[key] = exit_code
        self._exit_codes.move_to_end(key)
        if len(self._exit_codes) > self._most:
            self._exit_codes.popitem(last=False)

    def answers(self) -> list[CacheAnswered]:
        """The answers to look-ups that neither the log nor this edge has answered yet, oldest first; each is returned once."""
        owed, self._unanswered = self._unanswered, {}
        return [self._answer(operation_id, self._open[operation_id]) for operation_id in owed]

    def _answer(self, operation_id: int, key: _Key) -> CacheAnswered:
        exit_code = self._exit_codes.get(key)
        if exit_code is None:
            self.misses += 1
            return CacheAnswered(key[0], operation_id, CacheAnswer.MISS)
        self.hits += 1
        return CacheAnswered(key[0], operation_id, CacheAnswer.HIT, exit_code)
