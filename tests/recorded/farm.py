"""The fleet of the recorded run and what its scenes do with it: eight workers of twelve cores, kept full of runs of four cores.

Workers accept what they get after some tens of milliseconds; arrivals are at least a second apart; ticks go on between. Every scene
begins and ends with a full fleet in which nothing waits.
"""

from __future__ import annotations

from events.state import Dispatch, Worker
from streams.rehearsal import Rehearsal
from tests.recorded.truths import Cause, Move, Truth
from tests.stories.notation import (
    MAIN,
    Step,
    accept,
    advance,
    alive,
    cancel,
    connect,
    drain,
    finish,
    gone,
    keepalive,
    queue,
    submit,
    undrain,
)
from tests.stories.story import Story

CORES = 12
FILL = 4  # cores of the runs that fill the fleet
BIG = 8  # cores of what waits
FLEET = tuple(f"w{number}" for number in range(1, 9))
BENCH = "w8"
"""The only worker with property `bench`; `w7` and it have `lab`, the first four are in zone `east`."""

HOLD = {"kind": "shortfall", "after_s": 5}
OPTIONS: dict[str, object] = {
    "supported_platform_properties": {"bench": "exact", "lab": "exact", "zone": "exact"},
    "live_memory_veto": "memory_kib",
    "client_action_timeout_s": 20,
    "dispatch_ack_timeout_s": 30,
    "hold": HOLD,
}
ACCEPTS_S = 0.03


def registered(endpoint: str) -> dict[str, object]:
    """What a worker of the fleet registers."""
    number = FLEET.index(endpoint) + 1
    found: dict[str, object] = {"cpu": CORES, "memory": 400_000 if endpoint == "w5" else 100_000}
    found["zone"] = "east" if number <= 4 else "west"
    if number >= 7:
        found["lab"] = "yes"
    if endpoint == BENCH:
        found["bench"] = "yes"
    return found


class Farm:
    """The story of the run, with words for what its scenes do again and again.

    Attributes:
        truths: what the scenes have said they did.
    """

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.story = Story(configured=False, rehearsal=rehearsal)
        self.truths: list[Truth] = []
        self.options: dict[str, object] = {}
        self._serial = 0
        self._boots: dict[str, int] = {}

    # -- what happens --------------------------------------------------------------------------------------------------------------

    def do(self, step: Step, *, accepting: bool = True) -> int:
        """Take one step that is one fact; the offset of that fact. What it placed is accepted shortly after."""
        offset = self.story.rehearsal.next_offset
        step(self.story)
        assert self.story.rehearsal.next_offset == offset + 1, "a step of one fact"
        if accepting:
            self.accept()
        return offset

    def accept(self) -> None:
        """Every worker accepts what it was given and is still to run."""
        given = [dispatch for worker in self._workers().values() for dispatch in worker.running.values()]
        for name in [self._name(each) for each in given if not each.accepted and not each.revoked]:
            advance(ACCEPTS_S)(self.story)
            accept(name)(self.story)

    def wait(self, seconds: float, *, silent: str = "") -> None:
        """Time passes; every worker is heard every two seconds but the silent one."""
        if not silent:
            alive(seconds)(self.story)
            return
        for _ in range(round(seconds)):
            advance(1)(self.story)
            for endpoint in self.story.connected():
                if endpoint != silent:
                    keepalive(endpoint)(self.story)

    def configure(self, **options: object) -> int:
        """Put the run's options in force, some of them changed."""
        self.options = OPTIONS | options
        return self.do(lambda story: story.configure(self.options))

    def arrive(self, name: str, *, cpu: int = FILL, accepting: bool = True, **asked: object) -> int:
        """A second later an operation is queued; the offset of its fact."""
        self.wait(1)
        return self.do(queue(name, cpu=cpu, **{"expected_s": 300, **asked}), accepting=accepting)

    def submit(self, name: str, mnemonic: str) -> int:
        """A second later an operation of a kind is queued that says nothing of how long it takes; the offset of its fact."""
        self.wait(1)
        return self.do(submit(name, cpu=FILL, mnemonic=mnemonic))

    def new(self, prefix: str) -> str:
        """A name that was not there before."""
        self._serial += 1
        return f"{prefix}-{self._serial}"

    def come(self, endpoint: str, **changed: object) -> int:
        """A worker of the fleet connects as a process that was not there before, with its properties or some changed."""
        self._boots[endpoint] = self._boots.get(endpoint, 0) + 1
        found = (registered(endpoint) if endpoint in FLEET else {"cpu": CORES}) | changed
        return self.do(connect(endpoint, boot=self._boots[endpoint], **found))

    def back(self, endpoint: str, *, running: list[str], **changed: object) -> int:
        """The same process connects again, with what it runs."""
        found = registered(endpoint) | changed
        return self.do(connect(endpoint, boot=self._boots[endpoint], running=tuple(running), **found))

    def end(self, name: str) -> int:
        """A run ends half a second later; the offset of the report."""
        self.wait(0.5)
        return self.do(finish(name))

    # -- what a scene begins with --------------------------------------------------------------------------------------------------

    def tilt(self, endpoint: str, free: int = 1) -> None:
        """Leave some cores free there, too few for anything: it is the closest to room for a big one."""
        self.end(self.runs(endpoint)[0])
        self.arrive(self.new("odd"), cpu=FILL - free)

    def overtake(self, endpoint: str) -> tuple[str, int]:
        """A run ends there and a later one takes its room; that one's name, and the offset of the fact that queued it."""
        self.end(self.runs(endpoint)[-1])
        name = self.new("small")
        return name, self.arrive(name)

    def hold(self, name: str, worker: str, over: str, *, closest: bool = True, **asked: object) -> Truth:
        """A big one waits for five seconds and is overtaken on `over`; `worker` has been made the one to be held."""
        operation_id = self.arrive(name, **{"cpu": BIG, **asked})
        self.wait(6)
        overtaker, offset = self.overtake(over)
        return self.say(Truth(name, operation_id, worker, closest, overtaker, offset, self._at_us(offset)))

    def say(self, truth: Truth) -> Truth:
        """Keep what a scene did."""
        self.truths.append(truth)
        return truth

    def ended(
        self, truth: Truth, ending: str, cause: Cause, by: int | None, *, subject: str = "", on: str = ""
    ) -> None:
        """Note how the hold ended: by a fact, or (None) now, as time passed."""
        truth.ending, truth.cause, truth.ended_by, truth.subject, truth.placed_on = ending, cause, by, subject, on
        ended_at_us = self.story.now_us if by is None else self._at_us(by)
        truth.held_us = ended_at_us - truth.made_at_us

    def drains(self, truth: Truth, endpoint: str, *, pause_s: float = 0) -> None:
        """The first two runs there end, the second one `pause_s` after the first, and the big one starts on it."""
        first, second, *_ = self.runs(endpoint)
        self.end(first)
        self.wait(pause_s)
        self.ended(truth, "placed", Cause.DRAINED_EMPTY, self.end(second), subject=endpoint, on=endpoint)

    def moved(self, truth: Truth, to: str, cause: Cause, reason: str, by: int | None) -> None:
        """Note that the hold went to another worker."""
        truth.moves.append(Move(to, cause, reason, by))

    def drain(self, truth: Truth, endpoint: str, *, to: str) -> None:
        """An operator drains the held worker, and `to` is the next closest."""
        self.moved(truth, to, Cause.DRAINED, "drained", self.do(drain(endpoint)))

    # -- what a scene leaves behind ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """The fleet is whole and full again, and nothing waits."""
        for name in self.story.waiting():
            if name.startswith("big"):
                self.do(cancel(name))
        if self.options != OPTIONS:
            self.configure()
        for endpoint in [name for name in self.story.connected() if name not in FLEET]:
            for name in self.runs(endpoint):
                self.end(name)
            self.do(gone(endpoint))
        for endpoint in FLEET:
            worker = self._workers().get(endpoint)
            if worker is None or worker.totals[0] != CORES * 1000:
                self.come(endpoint)
            elif worker.draining:
                self.do(undrain(endpoint))
        self.wait(2)
        self.accept()
        for name in self._running():
            if not name.startswith(("fill", "small")):
                self.end(name)
        while left := self.story.waiting():
            self.end(next(name for name in self._running() if name.startswith("fill")))
            assert self.story.waiting() != left, f"{left} would never start"
        while self._room():
            self.arrive(self.new("fill"))

    def empty(self) -> None:
        """Everything ends."""
        while running := self._running():
            self.end(running[0])

    # -- what the scene sees ---------------------------------------------------------------------------------------------------------

    def runs(self, endpoint: str) -> list[str]:
        """Names of what runs there, the longest running first."""
        running = self._workers()[endpoint].running
        return [self._name(running[dispatch_id]) for dispatch_id in sorted(running)]

    def held(self) -> tuple[str, str] | None:
        """(worker, operation) of the hold that stands."""
        return self.story.held()

    def _workers(self) -> dict[str, Worker]:
        return self.story.rehearsal.shard.instances[MAIN].workers

    def _running(self) -> list[str]:
        return [name for endpoint in self._workers() for name in self.runs(endpoint)]

    def _name(self, dispatch: Dispatch) -> str:
        return self.story.names[dispatch.operation_id]

    def _room(self) -> bool:
        return any(self.story.free(endpoint) >= FILL * 1000 for endpoint in self._workers())

    def _at_us(self, offset: int) -> int:
        return self.story.rehearsal.facts[offset].at_us
