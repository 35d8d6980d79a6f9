"""An exit code is told only of a run that came to its own end."""

from __future__ import annotations

from typing import Any

from events.reasons import RunResult
from projections import answers
from projections.explain import explain_operation
from streams.cli.explaining import operation_in_words
from tests.projections.stories import history_of, operation_story, operation_words
from tests.stories.notation import advance, cancel, connect, finish, queue
from tests.stories.story import Story


def four_ends() -> Story:
    """a left with 3, a signal ended k, p could not be begun, and n, larger than the worker, was cancelled as it waited."""
    story = Story().given(connect("W1", cpu=4), *(queue(name, cpu=1) for name in ("a", "k", "p")), queue("n", cpu=9))
    story.given(advance(1), finish("a", exit_code=3), finish("k", exit_code=-9))
    return story.given(finish("p", RunResult.FAILED_PRECONDITION), cancel("n"))


def explained(name: str) -> dict[str, Any]:
    history = history_of(four_ends())
    table = history.table_at(history.last_seq)
    row = answers.lookup(table, name)
    assert row is not None
    return explain_operation(table, row)


def test_only_a_run_that_came_to_its_own_end_has_an_exit_code():
    codes = {"a": 3, "k": -9, "p": None, "n": None}
    assert {name: explained(name)["ended"]["exit_code"] for name in codes} == codes
    assert {name: explained(name)["operation"]["exit_code"] for name in codes} == codes
    assert {name: operation_story(four_ends(), name)["chapters"][-1]["exit_code"] for name in codes} == codes


def test_it_is_said_in_words_and_a_signal_by_its_number():
    said = {name: "\n".join(operation_in_words(explained(name))) for name in ("a", "k", "p", "n")}
    assert ", exit code 3" in said["a"]
    assert ", killed by signal 9" in said["k"]
    assert "exit code" not in said["p"] + said["n"]
    assert "ended on W1 after 1.00s, killed by signal 9, completed" in operation_words(four_ends(), "k")[-1]
    assert not any("exit code" in line for line in operation_words(four_ends(), "p"))
