"""Makes the golden histories of a release, with the build that stands here: `python -m tests.golden.make RELEASE`.

What is made is never made again: a later build has to read what this one wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from events.config import SimpleScheduler
from events.config.hold import DrainTimeHold
from streams.export import ExportWriter
from streams.log import Record
from streams.simulate.made import farm
from streams.simulate.policies import Policy, configuration
from streams.simulate.recording import Recording
from streams.simulate.workload import Workload
from streams.simulate.world import INSTANCE, World
from streams.topics import EVENTS, FACTS, topic_table
from tests.projections.recorded import Recorded
from tests.verify.forging import History, forged, holds, of_recorded, parsed

HERE = Path(__file__).parent
EXPECTED = "expected.json"

WALKS = (3, 8, 21)
"""Seeds: among their configurations is every policy, decorator and timeout that walks have."""

FORGED_KIND = "hold_made"


def write(history: History, directory: Path, release: str) -> None:
    """An export of a history."""
    topics = {spec.name: (f"golden-{spec.name}", spec.partitions) for spec in topic_table(1)}
    writer = ExportWriter(directory, cluster_id="golden", topics=topics, shards={"main": 0}, made_by=release)
    events = [Record(offset, 0, None, value) for offset, value in history.events]
    facts = [Record(fact.offset, fact.at_us, fact.key.encode() or None, fact.value) for fact in history.facts]
    writer.add((EVENTS, 0), events)
    writer.add((FACTS, 0), facts)
    writer.cover((EVENTS, 0), 0, events[-1].offset + 1)
    writer.cover((FACTS, 0), 0, facts[-1].offset + 1)
    writer.finish()


def simulate(workload: Workload, config: SimpleScheduler, directory: Path, release: str) -> None:
    """An export of a simulated run."""
    recording = Recording(directory, INSTANCE, made_by=release)
    World(workload, config, recording=recording).run()
    recording.finish()


def forged_hold() -> tuple[History, dict[str, Any]]:
    """The recorded holds with one that is made for another worker than the closest; its chain is whole."""
    history = holds()
    at = next(
        at
        for at, message in enumerate(parsed(history))
        if message.WhichOneof("kind") == FORGED_KIND and len(message.hold_made.candidates) > 1
    )

    def second(messages: list[Any], at: int) -> None:
        messages[at].hold_made.endpoint = messages[at].hold_made.candidates[1].endpoint

    return forged(history, at, second), {"rule": "hold_choice", "seq": at + 1}


def make(release: str) -> None:
    """Every history of a release. Raises FileExistsError where there are some already."""
    root = HERE / release
    root.mkdir()
    makers: dict[str, Callable[[Path], None]] = {
        **{f"walk-{seed}": _walk(seed, release) for seed in WALKS},
        "holds": lambda to: write(holds(), to, release),
        "farm-shortfall": lambda to: simulate(farm(1, span_s=240), configuration(Policy.HOLD, after_s=20), to, release),
        "farm-backfill": lambda to: simulate(farm(2, span_s=120), configuration(Policy.EASY), to, release),
        "farm-drain-time": lambda to: simulate(farm(3, span_s=240), _drain_time(), to, release),
    }
    for name, maker in makers.items():
        maker(root / name)
    history, expected = forged_hold()
    write(history, root / "forged", release)
    (root / "forged" / EXPECTED).write_text(json.dumps(expected, indent=2) + "\n")


def _walk(seed: int, release: str) -> Callable[[Path], None]:
    return lambda to: write(of_recorded(Recorded().walk(seed, 250, elections=0.03)), to, release)


def _drain_time() -> SimpleScheduler:
    return SimpleScheduler(kind="simple", hold=DrainTimeHold(kind="drain_time", after_s=20))


if __name__ == "__main__":
    make(sys.argv[1])
