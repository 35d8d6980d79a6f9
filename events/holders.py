"""The port through which placing asks who holds the inputs of an action (section 6, design section 2).

Which endpoint holds which blob is millions of pairs, too many for the rows of the core. It is a fold of the same events, kept elsewhere;
the core asks for it as it places an action, and writes the answers into the dispatch event. So deciding the same facts again needs no such
fold: `RecordedHolders` answers from those events.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from events.events import Event, OperationDispatched
from events.state import Operation
from events.values import Holding

MOST_HOLDERS: Final = 8
"""Endpoints in one answer, so that no event grows with the fleet."""


class Holders(Protocol):
    """Who holds what, as of the last event it was told.

    Implementations may do I/O, but never raise for it: who cannot answer says that nobody holds anything, which is a preference less and
    never a wrong placement.
    """

    def see(self, events: Sequence[Event]) -> None:
        """These events were decided. Every event is told, each once and in order of `seq`, before anything that follows it is asked."""
        ...

    def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
        """Which endpoints of its instance hold how many bytes of the operation's inputs: at most 8, the most bytes first.

        Their bytes are those of `bytes_at`. Not everybody who holds something need be named: what most of the fleet holds finds nobody.
        """
        ...

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        """How many bytes of the operation's inputs, of the largest ones, this endpoint of its instance holds."""
        ...


class NoHolders:
    """Nobody holds anything."""

    def see(self, events: Sequence[Event]) -> None:
        """See `Holders.see`: nothing to remember."""

    def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
        """See `Holders.most_bytes`."""
        return ()

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        """See `Holders.bytes_at`."""
        return 0


NO_HOLDERS: Final = NoHolders()


class RecordedHolders:
    """Answers what was answered when the recorded events were decided: for the nth dispatch of an operation, what its nth dispatch says.

    Where another build or configuration dispatches an operation more often than recorded, the last answer for it stands; for one that was
    never dispatched nobody holds anything. What an endpoint held that the dispatch neither went to nor named is not known: nothing. That
    changes no decision of the build that wrote it, since the worker that was taken held more.

    Args:
        recorded: events in order of `seq`; those that are no dispatch are passed over.
    """

    def __init__(self, recorded: Iterable[Event]) -> None:
        self._answers: dict[int, list[OperationDispatched]] = {}  # by operation_id
        self._dispatched: Counter[int] = Counter()  # in what is decided now, by operation_id
        for event in recorded:
            if type(event) is OperationDispatched:
                self._answers.setdefault(event.operation_id, []).append(event)

    def see(self, events: Sequence[Event]) -> None:
        """See `Holders.see`: dispatches are counted."""
        for event in events:
            if type(event) is OperationDispatched:
                self._dispatched[event.operation_id] += 1

    def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
        """See `Holders.most_bytes`."""
        answer = self._answer(operation)
        return () if answer is None else answer.holders

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        """See `Holders.bytes_at`."""
        answer = self._answer(operation)
        if answer is None:
            return 0
        if answer.endpoint == endpoint:
            return answer.saved_bytes
        return next((held.bytes for held in answer.holders if held.endpoint == endpoint), 0)

    def _answer(self, operation: Operation) -> OperationDispatched | None:
        answers = self._answers.get(operation.operation_id)
        if answers is None:
            return None
        return answers[min(self._dispatched[operation.operation_id], len(answers) - 1)]
