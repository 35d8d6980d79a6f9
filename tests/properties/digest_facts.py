"""What followers report of the state in a random world: digests that agree, differ, come twice, too early or too late.

It goes through a fixed cycle and draws nothing, so that the rest of a seed's world is what it was.
"""

from itertools import cycle

from events import events as e
from events import facts as f
from events.reasons import DigestRole

WRITER, VERIFIER = ("f/writer", DigestRole.WRITTEN), ("f/verifier", DigestRole.VERIFIED)


class DigestFacts:
    """Makes the next report; the digest of a state is told from its seq, so that two honest followers say the same."""

    def __init__(self) -> None:
        self._seq = 1  # of the last event
        self._position = 0
        self._state = (1, 0)  # what is reported of now
        compared = (
            self._written,
            self._verified,
            self._verified,
            self._other,
            self._verified_first,
            self._written_again,
        )
        amiss = (self._written, self._differs, self._verified, self._ahead, self._written, self._verified, self._late)
        self._turns = cycle((*compared, *amiss))

    def see(self, events: list[e.Event]) -> None:
        """Note how far the log has come."""
        self._seq, self._position = events[-1].seq, events[-1].cause_offset

    def next(self) -> f.StateDigested:
        """The next report."""
        return next(self._turns)()

    def _report(
        self, who: tuple[str, DigestRole], seq: int, position: int, digest: bytes, format: int = 1
    ) -> f.StateDigested:
        by, role = who
        return f.StateDigested(seq, digest, format, position + 1, by, role)

    def _now(self) -> tuple[int, int, bytes]:
        return self._told((self._seq, self._position))

    def _told(self, state: tuple[int, int]) -> tuple[int, int, bytes]:
        self._state = state
        return *state, state[0].to_bytes(16, "big")

    def _written(self) -> f.StateDigested:
        return self._report(WRITER, *self._now())

    def _verified_first(self) -> f.StateDigested:
        return self._report(VERIFIER, *self._now())

    def _written_again(self) -> f.StateDigested:
        return self._report(WRITER, *self._told(self._state))

    def _verified(self) -> f.StateDigested:
        return self._report(VERIFIER, *self._told(self._state))

    def _other(self) -> f.StateDigested:
        return self._report(VERIFIER, *self._told(self._state), format=2)

    def _differs(self) -> f.StateDigested:
        return self._report(VERIFIER, *self._state, b"another digest..")

    def _ahead(self) -> f.StateDigested:
        return self._report(WRITER, self._seq + 1000, self._position, bytes(16))

    def _late(self) -> f.StateDigested:
        return self._report(WRITER, 1, 0, bytes(16))
