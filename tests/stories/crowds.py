"""Steps for stories of the hold: workers full of small actions, and small actions that come one after the other.

As in the scenarios' own fixtures, a worker has 12 cores, a small action takes one, a big one eight, and every action is queued at least
a second after the one before.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.stories.notation import Step, alive, connect, finish, queue

if TYPE_CHECKING:
    from tests.stories.story import Story

CORES = 12


def both(*steps: Step) -> Step:
    """Several steps as one."""

    def step(story: "Story") -> None:
        for each in steps:
            each(story)

    return step


def arrive(name: str, *, cpu: int = 1, after_s: float = 1, **asked: object) -> Step:
    """A second later an action is queued; every connected worker is heard meanwhile."""
    return both(alive(after_s), queue(name, cpu=cpu, **asked))


def names(prefix: str, count: int = CORES, first: int = 1) -> list[str]:
    """`a1`, `a2`, … for the small actions on worker `a`."""
    return [f"{prefix}{number}" for number in range(first, first + count)]


def full(endpoint: str, **registered: object) -> Step:
    """A worker that connects and is filled with twelve small actions named after it. Nobody else may have room."""
    small = {"memory": 1000} if "memory" in registered else {}
    return both(connect(endpoint, cpu=CORES, **registered), *(arrive(name, **small) for name in names(endpoint)))


def end(ended: Iterable[str]) -> Step:
    """These actions finish, one after the other."""
    return both(*(finish(name) for name in ended))


def overtake(ended: str, small: str, **asked: object) -> Step:
    """A core frees and a new small action takes it, past the big one that waits."""
    return both(finish(ended), arrive(small, **asked))
