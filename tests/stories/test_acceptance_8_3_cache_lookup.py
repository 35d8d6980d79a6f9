"""The cache look-up decorator's suite. Names and promises: tests/fixtures/spec/acceptance.toml."""

from events import events as e
from events.reasons import CacheAnswer, Outcome
from events.state import Stage
from projections import answers
from tests.stories.client_words import answer, configured, of_kind, row, submit
from tests.stories.notation import cancel, connect
from tests.stories.read_side import table_of

CACHED = {"kind": "cache_lookup", "scheduler": {"kind": "simple"}}


def test_add_action_handles_skip_cache(story):
    story.given(configured(CACHED), connect("w1", cpu=8))
    story.when(submit("a", "x", cpu=1, skip_cache=True)).then("a queued", "a to w1")
    assert of_kind(story, e.CacheLookupRequested) == []
    story.given(submit("b", "x", cpu=1))
    assert row(story, "b").stage is Stage.CACHE_CHECK
    story.given(answer("b", CacheAnswer.HIT))
    assert row(story, "b").outcome is Outcome.COMPLETED_FROM_CACHE
    assert row(story, "a").stage is Stage.EXECUTING


def test_find_by_client_operation_id_call_passed(story):
    story.given(configured(CACHED), submit("a", "x", cpu=1))
    told = answers.operation(table_of(story), answers.lookup(table_of(story), "a"))
    assert (told["client_operation_id"], told["stage"]) == ("a", "cache_check")
    story.when(cancel("a")).then("a finished: cancelled")
