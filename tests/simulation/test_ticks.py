"""A simulated world in which time passes as a decider's ticker has it."""

from __future__ import annotations

from pathlib import Path

from events import events as e
from events.codec import decode_event
from streams.export import ExportLog
from streams.simulate.made import farm
from streams.simulate.policies import Policy, configuration
from streams.simulate.recording import Recording
from streams.simulate.world import INSTANCE, World
from streams.topics import EVENTS
from tests.contract.reading import read_all


async def events_of(directory: Path, tick_us: int) -> list[e.Event]:
    recording = Recording(directory, INSTANCE)
    World(
        farm(3, workers=2, span_s=60), configuration(Policy.HOLD, after_s=5), recording=recording, tick_us=tick_us
    ).run()
    recording.finish()
    return [decode_event(record.value) for record in await read_all(ExportLog(directory), (EVENTS, 0))]


async def test_with_ticks_the_log_is_never_silent(tmp_path):
    events = await events_of(tmp_path, 500_000)
    ticks = [event for event in events if isinstance(event, e.Ticked)]
    assert not [event for event in events if isinstance(event, e.LogSilent)]
    times = [event.at_us for event in events if event.at_us]
    assert len(ticks) >= (times[-1] - times[0]) // 500_000 - 1
    assert times == sorted(times)


async def test_without_ticks_gaps_stand_in_the_log_as_silence(tmp_path):
    assert [event for event in await events_of(tmp_path, 0) if isinstance(event, e.LogSilent)]
