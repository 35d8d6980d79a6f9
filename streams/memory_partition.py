"""One partition of the in-memory log: records, transaction ends that take an offset, and the last stable offset.

Pure bookkeeping: no clock, no waiting. `memory_log` decides when something happens, this module decides what is then
stored and who may see it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from streams.log import Outgoing, Record

_offset = attrgetter("offset")


class MemoryPartition:
    """Records in offset order with holes where transactions ended, aborted ones vanished, or compaction removed some.

    `first` is the log's start, `end` the offset the next record gets. Transactions are numbered by the log; 0 stands
    for none.
    """

    def __init__(self) -> None:
        self.first = 0
        self.end = 0
        self._records: list[Record] = []
        self._transactions: list[int] = []  # of each record, parallel to _records
        self._open: dict[int, int] = {}  # transaction -> its first offset here
        self._aborted: set[int] = set()  # only ever asked for membership, so its order does not matter

    def __len__(self) -> int:
        return len(self._records)

    @property
    def last_stable(self) -> int:
        """The offset below which every transaction has ended."""
        return min(self._open.values(), default=self.end)

    def add(self, records: Sequence[Outgoing], at_us: int, transaction: int = 0) -> list[int]:
        """Stores records; returns their offsets. With a transaction, they stay unstable until `finish`."""
        first = self.end
        self._records.extend(
            Record(offset, at_us, key, value, headers) for offset, (value, key, headers) in enumerate(records, first)
        )
        self.end = first + len(records)
        self._transactions.extend([transaction] * len(records))
        if transaction and records:
            self._open.setdefault(transaction, first)
        return list(range(first, self.end))

    def finish(self, transaction: int, *, committed: bool) -> None:
        """Ends a transaction here; its marker takes one offset, as in Kafka, so nobody may count with offsets."""
        del self._open[transaction]
        if not committed:
            self._aborted.add(transaction)
        self.end += 1

    def read(self, position: int, most: int, *, committed: bool) -> tuple[list[Record], int]:
        """Up to `most` visible records from `position` on, and the position after them.

        When nothing visible is left, the position is the end that `committed` allows: markers and aborted records are
        behind it.
        """
        until = self.last_stable if committed else self.end
        if position >= until:
            return [], position
        start = bisect_left(self._records, position, key=_offset)
        stop = bisect_left(self._records, until, key=_offset)
        if not (committed and self._aborted):
            taken = self._records[start : min(stop, start + most)]
            return taken, until if start + most >= stop else taken[-1].offset + 1
        taken = []
        for index in range(start, stop):
            if self._transactions[index] in self._aborted:
                continue
            taken.append(self._records[index])
            if len(taken) == most:
                return taken, taken[-1].offset + 1
        return taken, until

    def trim(self, before: int) -> None:
        """Moves the log's start up to `before` (at most `end`) and forgets what lies below."""
        self.first = max(self.first, before)
        gone = bisect_left(self._records, self.first, key=_offset)
        del self._records[:gone]
        del self._transactions[:gone]
        # An aborted transaction none of whose records is left needs no memory any more.
        self._aborted.intersection_update(self._transactions)

    def compact(self) -> None:
        """Keeps the last committed record of every key below the last stable offset; offsets stay as they were."""
        until = self.last_stable
        last: dict[bytes | None, int] = {}
        for record, transaction in zip(self._records, self._transactions, strict=True):
            if record.offset < until and transaction not in self._aborted:
                last[record.key] = record.offset
        kept = [
            (record, transaction)
            for record, transaction in zip(self._records, self._transactions, strict=True)
            if record.offset >= until or last.get(record.key) == record.offset
        ]
        self._records = [record for record, _ in kept]
        self._transactions = [transaction for _, transaction in kept]
        self._aborted.intersection_update(self._transactions)
