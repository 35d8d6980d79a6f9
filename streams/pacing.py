"""How long a leader gathers facts before it reads the next ones: a transaction costs what it costs, whatever it holds.

At 100 life cycles a second each fact would have a transaction of its own, some 2 ms of processor time between decider and broker. So a
leader has credit: it grows with time, and what a transaction costs of it is the less the more facts it holds. As long as there is any,
facts are decided the moment they come; without any, facts are waited for. A single fact, or a few in a row, are never held up, and where
facts come fast the wait is shorter than a transaction takes anyway.
"""

from __future__ import annotations

from typing import Final

ENOUGH_FACTS: Final = 10
"""A transaction with so many costs no credit."""

BURST: Final = 3
"""The credit of a leader at rest, in transactions of nothing."""


class Pacing:
    """The credit of one leader, in microseconds.

    Args:
        gather_us: the least between two transactions of few facts, once the credit is used up; 0: none is ever kept waiting.
        now_us: any monotonic time; the others are compared with it.
    """

    def __init__(self, gather_us: int, now_us: int) -> None:
        self._gather_us = gather_us
        self._most_us = BURST * gather_us
        self._credit_us = self._most_us
        self._at_us = now_us

    def wait_us(self, now_us: int) -> int:
        """How long to gather before the next read; 0: at once."""
        self._credit_us = min(self._most_us, self._credit_us + now_us - self._at_us)
        self._at_us = now_us
        return max(0, -self._credit_us)

    @property
    def rested(self) -> bool:
        """Whether so little happens that even what arrives right behind a fact need not be waited for. As of the last `wait_us`."""
        return self._gather_us > 0 and self._credit_us >= self._gather_us

    def spent(self, facts: int) -> None:
        """Note that a transaction with so many facts was committed."""
        if facts < ENOUGH_FACTS:
            self._credit_us -= self._gather_us * (ENOUGH_FACTS - facts) // ENOUGH_FACTS
