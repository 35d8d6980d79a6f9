"""`headway explain` finds out from the log alone what each scene did: worker, overtaker, every move and the end, each with its event.

Text and JSON of the real command on the exported directory. The events that an explanation links are those that the scene's own facts
caused, so a cause that is merely plausible does not pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from events import events as e
from streams.cli.main import main
from streams.topics import EVENTS
from tests.projections.stories import check_figures
from tests.recorded.farm import FLEET
from tests.recorded.run import SHARD, RecordedRun, recorded_run
from tests.recorded.truths import Cause, Truth

TRUTHS = recorded_run().truths
HELD = recorded_run().held
LINK = re.compile(r"\[seq (\d+), offset (\d+)\]")

SAID: dict[Cause, tuple[str, str]] = {
    Cause.DRAINED_EMPTY: ("OperationFinished", r"made possible by: .* ended on {subject}, completed"),
    Cause.ROOM_ELSEWHERE: ("OperationFinished", r"was placed on {subject}(.|\n)*not the worker that was held"),
    Cause.WORKER_CAME: ("WorkerAdmitted", r"made possible by: {subject} connected"),
    Cause.CANCELLED: ("OperationFinished", r"\({subject}\) ended, cancelled"),
    Cause.CLIENT_LEFT: ("ClientLeft", r"client {subject} left: The client said that it leaves"),
    Cause.CLIENT_SILENT: ("ClientLeft", r"client {subject} left, after 20.0[0-9.]*s of silence"),
    Cause.OUTRANKED: ("HoldMade", r"hold-\d+ holds \w+ for \S+ \({subject}"),
    Cause.LEFT: ("WorkerDisconnected", r"{subject} was lost: The worker said that it leaves"),
    Cause.SILENT: ("WorkerDisconnected", r"{subject} was lost, after 10.03s of silence"),
    Cause.REPLACED: ("WorkerAdmitted", r"{subject} connected as another process"),
    Cause.REMOVED: ("WorkerDisconnected", r"{subject} was lost: An operator removed the worker"),
    Cause.DRAINED: ("WorkerDrained", r"{subject} was drained"),
    Cause.DECLINED: ("OperationRequeued", r"came back from {subject}: The worker declined it"),
    Cause.UNACKNOWLEDGED: ("OperationRequeued", r"came back from {subject}: The worker did not acknowledge"),
    Cause.REFUSED_IDLE: ("WorkerIdleCapped", r"{subject} ran nothing and had no more than 40000 KiB free"),
    Cause.REPORTED_LESS: ("WorkerReported", r"{subject} reported with 50000 KiB free"),
    Cause.SHRUNK: ("WorkerAdmitted", r"{subject} connected again .*cpu_millis=7000"),
    Cause.OUT_OF_TIME: ("HoldReleased", r"expired: The hold lasted max_hold_s"),
    Cause.POLICY_OFF: ("Configured", r"with hold policy none"),
    Cause.POLICY_CHANGED: ("Configured", r"with hold policy shortfall, after_s 90"),
    Cause.SOONER: ("OperationFinished", r"Another worker is expected to be free sooner"),
}
"""Of each cause: the kind of the event that an explanation has to link, and what it says."""


@pytest.fixture(scope="module")
def explain(directory: Path):
    """`headway explain …` on the directory: its JSON and its text; each figure of the story stands in the JSON."""

    def run(*arguments: str) -> tuple[dict[str, Any], str]:
        told = []
        for form in ("json", "table"):
            done = CliRunner().invoke(main, ["explain", *arguments, "--file", str(directory), "-o", form])
            assert done.exit_code == 0, (done.output, done.exception)
            told.append(done.stdout)
        answer = json.loads(told[0])
        check_figures(answer, told[1].rpartition("\n\n")[2].splitlines())
        return answer, told[1]

    return run


def links_are_true(recorded: RecordedRun, text: str) -> None:
    """Every link names an event of the log and the offset it stands at."""
    offsets = [record.offset for record in recorded.log.records((EVENTS, SHARD))]
    found = LINK.findall(text)
    assert found, text
    assert [(seq, offset) for seq, offset in found if offsets[int(seq) - 1] != int(offset)] == []


def check_cause(
    recorded: RecordedRun, told: Mapping[str, Any], text: str, cause: Cause, subject: str, fact: int | None
) -> None:
    """The linked event is of the right kind and of the scene's own fact, and the text says so."""
    kind, words = SAID[cause]
    because = told.get("because") or {}
    linked = [
        each for each in (because, because.get("because"), told.get("room"), told) if each and each["event"] == kind
    ]
    assert linked, (kind, told)
    event = recorded.events[linked[0]["seq"] - 1]
    assert type(event).__name__ == kind
    if fact is not None:
        assert event.cause_offset == fact
    assert re.search(words.format(subject=subject), text), text


@pytest.mark.parametrize("truth", HELD, ids=lambda truth: f"{truth.operation}-{truth.cause.name.lower()}")
def test_a_hold_is_explained_by_what_was_done_to_it(recorded, explain, truth: Truth):
    answer, text = explain("hold", truth.operation)
    story = answer["story"]
    links_are_true(recorded, text)

    made = story["made"]
    event = recorded.events[made["seq"] - 1]
    assert story["operation"]["client_operation_id"] == truth.operation
    assert (made["endpoint"], event.cause_offset) == (truth.worker, truth.made_by)
    overtaker = made["overtaken_by"]
    assert (overtaker["client_operation_id"] if overtaker else "") == truth.overtaken_by
    assert f"{truth.worker} was held because" in text

    was = truth.worker
    assert len(story["moves"]) == len(truth.moves)
    for told, move in zip(story["moves"], truth.moves, strict=True):
        assert (told["from_endpoint"], told["endpoint"], told["cause"]["reason"]) == (was, move.to, move.reason)
        check_cause(recorded, told, text, move.cause, was, move.fact)
        was = move.to

    ended = story["ended"]
    assert (ended["reason"]["reason"], ended["endpoint"]) == (truth.ending, truth.last_worker)
    assert f"{truth.ending}: " in text
    assert ended["elsewhere"] is (truth.placed_on not in ("", truth.last_worker))
    check_cause(recorded, ended, text, truth.cause, truth.subject, truth.ended_by)


@pytest.mark.parametrize("truth", HELD, ids=lambda truth: truth.operation)
def test_the_story_of_the_operation_names_the_same_hold_and_cause(recorded, explain, truth: Truth):
    answer, text = explain("operation", truth.operation)
    links_are_true(recorded, text)
    assert truth.worker in text
    assert truth.overtaken_by in text
    assert all(move.to in text for move in truth.moves)
    stays = answer["story"]["stays"]
    assert sum(stay["for_us"] for stay in stays) == answer["story"]["life_us"]
    assert re.search(rf"the hold on {truth.last_worker} ended after .*, {truth.ending}: ", text), text


@pytest.mark.parametrize("truth", [each for each in TRUTHS if not each.worker], ids=lambda truth: truth.operation)
@pytest.mark.parametrize("noun", ["operation", "hold"])
def test_where_nobody_could_be_held_the_counts_by_reason_are_told(recorded, explain, truth: Truth, noun: str):
    _, text = explain(noun, truth.operation)
    links_are_true(recorded, text)
    counts = ", ".join(f"{count} {reason}" for reason, count in truth.excluded.items())
    assert re.search(rf"no worker could be held.*{counts}", text), text
    assert truth.overtaken_by in text


@pytest.mark.parametrize(
    "truth", [each for each in HELD if each.held_us > 2_000_000], ids=lambda truth: truth.operation
)
def test_as_of_a_moment_in_between_the_hold_stands_and_has_no_end(recorded, explain, truth: Truth):
    """Why pending then is why pending now, on the table of then."""
    made = recorded.first(e.HoldMade, truth.operation_id)
    answer, text = explain("hold", truth.operation, "--at", str(made.seq + 1))
    assert answer["story"]["ended"] is None
    assert answer["worker"]["endpoint"] == truth.worker
    assert truth.worker in text


def test_a_learnt_hold_says_when_room_was_expected_and_where_that_is_known_from(explain):
    """The worker that lacked least was not held: what ran on the other one was known to be quick."""
    (truth,) = [each for each in HELD if each.worker == "w3" and not each.closest]
    answer, text = explain("hold", truth.operation)
    chosen, *others = answer["story"]["made"]["candidates"]
    assert chosen["endpoint"] == "w3"
    assert min(each["shortfall_milli"] for each in others) < chosen["shortfall_milli"]
    assert chosen["free_at_us"] < min(each["free_at_us"] for each in others)
    assert re.search(
        r"expected to have room first, after .*\n +2 runs of quick by .*, as the last 2 of its kind took", text
    ), text


def test_24_a_day_later_it_says_who_was_ahead_who_went_past_and_what_each_worker_lacked(recorded, explain):
    """Why it waited then, by the code that says why it waits now."""
    truth = HELD[0]
    made = recorded.first(e.HoldMade)
    answer, text = explain("operation", truth.operation, "--at", str(made.seq + 20))
    waits = answer["waits"]
    assert answer["operation"]["stage"] == "queued"
    assert waits["place"] == 1
    assert waits["closest"][0]["endpoint"] == truth.worker
    assert [(one["name"], one["asked"], one["free"]) for one in waits["closest"][0]["short"]] == [
        ("cpu_millis", 8000, 2000)
    ]
    assert sum(each["workers"] for each in waits["standings"]) == 8
    assert truth.overtaken_by in text
    assert f"{truth.worker} is held for" in text


def test_30_a_placement_of_the_past_says_why_this_worker_and_not_the_others(explain):
    truth = next(each for each in HELD if each.cause is Cause.ROOM_ELSEWHERE)
    answer, text = explain("operation", truth.operation, "--at-placement")
    assert answer["placed"]["endpoint"] == truth.placed_on
    by_standing = {each["standing"]: each["workers"] for each in answer["waits"]["standings"]}
    assert by_standing == {"room": 1, "short": 7}
    assert re.search(rf"{truth.worker}: short of cpu_millis 7000", text), text


def test_no_reason_is_empty_for_anything_that_ever_was_in_the_queue(recorded, explain):
    """Finished, cancelled, requeued, declined, long forgotten: a story, and no line of it without words."""
    for name in list(recorded.names.values())[::9]:
        answer, text = explain("operation", name)
        assert answer["story"]["stays"]
        assert all(reason["sentence"] for reason in answer["reasons"])
        assert not re.search(r": *(\[seq|$)", text, re.MULTILINE), text


@pytest.mark.parametrize("endpoint", [*FLEET, "w9"])
def test_a_worker_is_told_with_every_hold_on_it_and_all_that_it_ran(recorded, explain, endpoint: str):
    story = explain("worker", endpoint)[0]["story"]
    came = [chapter for chapter in story["chapters"] if chapter["event"] in ("HoldMade", "HoldMoved")]
    mine = [truth for truth in HELD if endpoint in (truth.worker, *(move.to for move in truth.moves))]
    assert {chapter["operation"]["client_operation_id"] for chapter in came} == {truth.operation for truth in mine}
    ended = {
        chapter["operation"]["client_operation_id"]: chapter["reason"]["reason"]
        for chapter in story["chapters"]
        if chapter["event"] == "HoldReleased"
    }
    assert ended == {truth.operation: truth.ending for truth in mine if truth.last_worker == endpoint}
    assert sum(state["for_us"] for state in story["states"]) == story["span_us"]
    given = [each for each in recorded.events if isinstance(each, e.OperationDispatched) and each.endpoint == endpoint]
    assert story["ran"]["given"] == len(given)
