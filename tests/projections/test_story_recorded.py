"""A history in memory answers what a replay of the same events would, at every moment and in any order."""

from __future__ import annotations

import random

import pytest

from events import events as e
from projections.story import recorded
from tests.projections.stories import history_of
from tests.projections.test_explain import table_at
from tests.projections.test_story_operation import overtaken


def test_the_table_at_a_moment_is_that_of_a_replay_up_to_it(monkeypatch):
    monkeypatch.setattr(recorded, "KEEP_EVERY", 7)
    story = overtaken()
    history = history_of(story)
    moments = list(range(1, history.last_seq + 1))
    for seq in [*moments, *random.Random(3).sample(moments, len(moments))]:
        found, wanted = history.table_at(seq), table_at(story, seq)
        assert found.shard.seq == seq
        same = {key: row for key, row in found.rows.scan(b"", b"") if key[4:5] != b"!"}
        assert same == {key: row for key, row in wanted.rows.by_key.items() if key[4:5] != b"!"}


def test_a_run_is_paid_for_from_its_dispatch_to_its_end():
    story = overtaken()
    history = history_of(story)
    begun = next(event for event in story.every_event() if isinstance(event, e.OperationQueued)).at_us
    runs = {run.operation_id: run for run in history.runs_of_worker("main", "W1", 0, 1 << 62)}
    s2, b = (runs[history.operations_named(name)[0]] for name in ("s2", "b"))
    assert (s2.since_us, s2.until_us, s2.ended) == (begun, begun + 3_000_000, "completed")
    assert (b.until_us, b.ended) == (None, "")
    late = history.runs_of_worker("main", "W1", begun + 9_500_000, begun + 9_600_000)
    assert [run.operation_id for run in late] == history.operations_named("t1")


def test_the_moment_of_an_instant_is_the_last_event_at_or_before_it():
    story = overtaken()
    history = history_of(story)
    for event in story.every_event():
        found = history.seq_at(event.at_us)
        assert found >= event.seq
        assert history.events_between(found, found)[0].event.at_us == event.at_us
    assert history.seq_at(0) <= 1


def test_the_rows_of_a_moment_end_with_the_next_question_and_nobody_changes_them():
    history = history_of(overtaken())
    earlier = history.table_at(9)
    assert list(earlier.scan(b""))
    history.table_at(9)
    with pytest.raises(ValueError, match="another moment of this history was asked for"):
        list(earlier.scan(b""))
    with pytest.raises(ValueError, match="only read"):
        history.table_at(9).flush()
