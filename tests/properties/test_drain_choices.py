"""Who is expected to have room soonest: the choice and a plain one agree on busy fleets with histories of every kind.

Rerun one by its seed: `pytest tests/properties/test_drain_choices.py -k '[7]'`.
"""

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from events import facts as f
from events.codec import canonical_requirements
from events.config import DrainTimeHold
from events.decide import decide, elect
from events.deciding.candidates import Census, Choice
from events.deciding.draining import choose_by_drain
from events.evolving.rows import demand_of
from events.indexing import build_indexes
from events.state import Instance, Shard
from tests.reference.naive_draining import choose_plainly

SECOND_US = 1_000_000
MAIN = "main"
ASKS = ("1000", "2000", "3000")


class Fleet:
    """A shard whose workers run actions of a few kinds to their ends; nothing ever fails."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_us = SECOND_US
        self.offset = 0
        self.shard = Shard()
        build_indexes(self.shard)
        elect(self.shard, leader_epoch=1)
        min_runs, last_runs = self.rng.choice(((1, 4), (3, 8), (10, 30), (60, 100)))
        self.take(
            f.Configured(
                MAIN,
                f'{{"kind":"simple","hold":{{"kind":"drain_time","after_s":100000,"min_runs":{min_runs},"last_runs":{last_runs}}}}}',
            )
        )
        for number in range(1, self.rng.randrange(3, 9)):
            offers = (("cpu_millis", self.rng.choice(("4000", "8000"))),)
            self.take(f.WorkerConnected(MAIN, f"w{number}", 1, number, offers, max_inflight=self.rng.choice((0, 0, 4))))

    def instance(self) -> Instance:
        return self.shard.instances[MAIN]

    def policy(self) -> DrainTimeHold:
        policy = self.instance().config.hold
        assert isinstance(policy, DrainTimeHold)
        return policy

    def take(self, fact: f.Fact) -> None:
        decide(self.shard, fact, offset=self.offset, append_us=self.now_us)
        self.offset += 1

    def step(self) -> None:
        """Time passes; an action arrives, or one that runs ends."""
        rng = self.rng
        self.now_us += rng.choice((1, 1_000, 700_000, 2_000_000))
        running = [run for worker in self.instance().workers.values() for run in worker.running.values()]
        if running and rng.random() < 0.48:
            run = rng.choice(running)
            self.take(f.ActionFinished(MAIN, run.worker.endpoint, run.connection_id, run.dispatch_id))
        else:
            self.take(
                f.ActionQueued(
                    MAIN,
                    str(self.offset),
                    canonical_requirements([("cpu_millis", rng.choice(ASKS))]),
                    expected_duration_us=rng.choice((0, 0, 3 * SECOND_US)),
                    target_id=rng.choice(("", "", "//a")),
                    mnemonic=rng.choice(("", "", "Link")),
                )
            )

    def choices(self) -> Iterator[tuple[Choice, Choice]]:
        """For a demand of each size: the choice, and the plain one."""
        instance, shard = self.instance(), self.shard
        for requirement_id in shard.requirements:
            demand = demand_of(shard, instance, requirement_id)
            census = Census(instance, demand, by_end=False)
            yield (
                choose_by_drain(census, self.policy(), self.now_us),
                choose_plainly(census, self.policy(), self.now_us),
            )


def walk(seed: int) -> Iterator[tuple[Choice, Choice]]:
    fleet = Fleet(seed)
    for number in range(200):
        fleet.step()
        if number % 5 == 0:
            yield from fleet.choices()


@pytest.mark.parametrize("seed", range(24))
def test_both_choose_alike(seed: int) -> None:
    for number, (choice, plain) in enumerate(walk(seed)):
        assert choice == plain, f"seed {seed}, choice {number}"


def test_the_walks_know_durations_from_every_source() -> None:
    """Otherwise the comparison would say nothing of that source."""
    chosen = [choice for seed in range(24) for choice, _ in walk(seed) if choice.worker is not None]
    seen = Counter(basis.source.name for choice in chosen for basis in choice.basis)
    assert {"MNEMONIC", "TARGET", "REQUIREMENT", "PRODUCER", "EVERY_RUN", "UNKNOWN"} <= set(seen)
    assert min(seen.values()) >= 20, seen
    assert any(choice.free_at_us and choice.candidates[-1].free_at_us == 0 for choice in chosen), "known before unknown"
    assert any(len(choice.basis) > 1 for choice in chosen)
