"""`headway explain`, `headway hold list` and what other lists say of holds, against the real views."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from events.codec import canonical_requirements
from events.facts import ActionFinished, ActionQueued, Configured, InstancePaused, WorkerConnected
from events.values import Digest
from streams.cli import source
from streams.cli.main import main
from streams.connection import NoBroker

START_US = 1_700_000_000_000_000

HOLDING = Configured("main", '{"kind":"simple","hold":{"kind":"shortfall","after_s":0,"max_hold_s":60}}')


def queued(name: str, cpu: int = 1000, **fields: object) -> ActionQueued:
    return ActionQueued("main", name, canonical_requirements([("cpu_millis", str(cpu))]), **fields)


def connected(name: str, cpu: int = 4000, **properties: str) -> WorkerConnected:
    pairs = tuple(sorted({"cpu_millis": str(cpu), "memory_kib": "1024", **properties}.items()))
    return WorkerConnected("main", name, 1, 7, pairs)


def held(read_side):
    """w1 runs four small ones; big waits, late went past it, and w1 is held for big."""
    first = 7  # elected, configured twice, admitted, requirement, queued, dispatched: the seq of the first dispatch
    small = [queued(f"s{number}") for number in range(4)]
    return read_side(
        [
            HOLDING,
            connected("w1"),
            *small,
            queued("big", cpu=4000),
            queued("late"),
            ActionFinished("main", "w1", 7, first),
        ]
    )


def test_an_operation_that_waits_is_explained_with_amounts_and_a_hold(read_side):
    side = held(read_side)
    said = side.run("explain", "operation", "big").stdout.splitlines()
    assert said[0].startswith("main/op-")
    assert "(big): queued, number 1 in the queue, waiting" in said[0]
    assert "no_room: Workers that could run it have no room for it now." in said
    assert "  cpu_millis: asks 4000, most free 0 (on w1)" in said
    assert any(line.startswith("hold: w1 is held for main/op-") for line in said)
    assert said[-1].startswith("shard 0 seq ")
    assert said[-1].endswith(" old")
    assert any(line.startswith("+2.0ms  1 later one went past it (1 on w1), first main/op-") for line in said)


def test_the_json_holds_the_same_facts_and_the_position(read_side):
    answer = held(read_side).json("explain", "operation", "big")
    assert answer["reasons"][0]["reason"] == "no_room"
    assert answer["waits"]["amounts"][0]["asked"] == 4000
    assert answer["waits"]["hold"]["endpoint"] == "w1"
    assert answer["seq"] > 0


@pytest.mark.parametrize("name", [[], ["big"], ["w1"], ["main"]])
def test_a_hold_is_explained_by_operation_worker_or_instance(read_side, name):
    said = held(read_side).run("explain", "hold", *name).stdout
    assert "instance main: hold policy shortfall, after_s 0, max_hold_s 60" in said
    assert "w1 is held for main/op-" in said
    assert "asks cpu_millis=1000) was placed past it" in said
    assert "w1 still lacks cpu_millis 4000 (asks 4000, 0 of 4000 free)" in said
    assert "given back by max_hold_s 1m00s after it was made" in said


def test_without_a_hold_the_reason_is_given(read_side):
    side = read_side([connected("w1"), queued("big", cpu=9000)])
    said = side.run("explain", "hold").stdout
    assert "instance main: hold policy none" in said
    assert "none, off: The configuration has no hold." in said
    assert side.json("explain", "hold", "big")["absence"]["reason"] == "off"


def test_what_is_no_hold_names_those_there_are(read_side):
    result = held(read_side).run("explain", "hold", "nope", "--now", code=4)
    assert "'nope' is no operation in the state table, no held worker and no instance; held: w1 for main/op-" in (
        result.stderr
    )
    result = held(read_side).run("explain", "hold", "nope", code=4)
    assert "'nope' is no operation, worker or instance of shard 0 up to seq" in result.stderr
    result = held(read_side).run("explain", "operation", "nope", "--now", code=4)
    assert "operation 'nope' is not in the state table" in result.stderr
    result = held(read_side).run("explain", "operation", "nope", code=4)
    assert "no operation 'nope' was queued in shard 0 up to seq" in result.stderr


def ended(read_side):
    """The same, until the others have ended and big runs on w1."""
    rest = [ActionFinished("main", "w1", 7, number) for number in (9, 11, 13, 18)]
    side = read_side(
        [
            HOLDING,
            connected("w1"),
            *(queued(f"s{number}") for number in range(4)),
            queued("big", cpu=4000),
            queued("late"),
            ActionFinished("main", "w1", 7, 7),
            *rest,
        ]
    )
    assert side.json("explain", "operation", "big", "--now")["operation"]["stage"] == "executing"
    return side


LEARNT = Configured("main", '{"kind":"simple","hold":{"kind":"drain_time","after_s":0,"min_runs":1}}')


def test_a_hold_by_drain_time_names_the_runs_it_waits_for_and_how_long_they_are_known_to_take(read_side):
    side = read_side(
        [
            LEARNT,
            connected("quick", 12_000),
            queued("c1", 6_000, mnemonic="Compile"),
            ActionFinished("main", "quick", 7, 7),
            queued("c2", 6_000, mnemonic="Compile"),
            queued("c3", 6_000, mnemonic="Compile"),
            connected("near", 12_000, zone="a"),
            queued("link", 5_000, mnemonic="Link", expected_duration_us=900_000_000),
            connected("small", 1_000, zone="b"),
            queued("big", 8_000),
            ActionQueued("main", "s", canonical_requirements([("cpu_millis", "1000"), ("zone", "b")])),
        ]
    )
    answer = side.json("explain", "hold")
    assert answer["hold"]["endpoint"] == answer["story"]["made"]["endpoint"] == "quick"
    (basis,) = answer["hold"]["basis"]
    assert (basis["source"], basis["kind"], basis["samples"], basis["runs"]) == ("mnemonic", "Compile", 1, 2)
    made = answer["story"]["made"]
    assert made["basis"] == [{**basis, "last_end_after_us": basis["last_end_us"] - made["at_us"]}]
    assert answer["story"]["made"]["free_at_us"] == answer["hold"]["free_at_us"] == basis["last_end_us"]
    for said in (side.run("explain", "hold").stdout, side.run("explain", "hold", "--now").stdout):
        assert "chosen because it was expected to have room first" in said
        assert "2 runs of Compile by " in said
        assert "as the last 1 of its kind took" in said
        assert "near (short of 8.3 %, expected to have room after 14m59s)" in said


def test_a_hold_by_drain_time_that_nothing_is_known_for_says_that_the_shortfall_decided(read_side):
    side = read_side(
        [
            LEARNT,
            connected("near", 12_000, zone="a"),
            queued("link", 5_000, mnemonic="Link"),
            connected("small", 1_000, zone="b"),
            queued("big", 8_000),
            ActionQueued("main", "s", canonical_requirements([("cpu_millis", "1000"), ("zone", "b")])),
        ]
    )
    said = side.run("explain", "hold").stdout
    assert "how long its runs take was not known, so it was chosen for lacking least" in said
    assert side.json("explain", "hold")["hold"]["basis"][0]["source"] == "unknown"


@pytest.mark.parametrize("name", [[], ["big"], ["w1"], ["main"]])
def test_a_hold_that_ended_is_told_by_operation_worker_or_instance(read_side, name):
    side = ended(read_side)
    answer = side.json("explain", "hold", *name)
    story = answer["story"]
    assert (answer["hold"], answer["absence"]["reason"]) == (None, "not_queued" if name == ["big"] else "nothing_waits")
    assert (story["endpoint"], story["ended"]["reason"]["reason"]) == ("w1", "placed")
    assert story["made"]["overtaken_by"]["client_operation_id"] == "late"
    assert story["ended"]["room"]["operation"]["client_operation_id"] == "late"
    said = side.run("explain", "hold", *name).stdout.splitlines()
    assert any(line.startswith(f"{story['hold']} of instance main: w1 for main/op-") for line in said)
    assert any(line.startswith("cost: ") and "core-seconds kept idle" in line for line in said)
    assert side.json("explain", "hold", story["hold"])["story"] == story


def test_a_hold_that_is_asked_for_by_its_name_is_told_first_and_the_present_after_it(read_side):
    side = ended(read_side)
    name = side.json("explain", "hold")["story"]["hold"]
    said = side.run("explain", "hold", name).stdout.splitlines()
    assert said[0].startswith(f"{name} of instance main: w1 for main/op-")
    present = next(number for number, line in enumerate(said) if line.startswith("how it stands as of seq "))
    assert said[present + 1].startswith("  instance main: hold policy")
    assert present > next(number for number, line in enumerate(said) if line.startswith("cost: "))


def test_an_event_that_made_no_hold_is_not_one(read_side):
    result = ended(read_side).run("explain", "hold", "hold-3", code=4)
    assert "event 3 of shard 0 made no hold" in result.stderr


def test_as_of_an_earlier_moment_the_hold_still_stands(read_side):
    side = ended(read_side)
    made = side.json("explain", "hold")["story"]["made"]["seq"]
    answer = side.json("explain", "hold", "--at", str(made))
    assert (answer["hold"]["endpoint"], answer["story"]["ended"], answer["seq"]) == ("w1", None, made)
    assert side.run("explain", "hold", "--at", str(made)).stdout.splitlines()[-1] == (
        f"as of seq {made} of shard 0, folded from the log"
    )


def test_a_worker_is_told_of_from_its_connection_on(read_side):
    side = ended(read_side)
    story = side.json("explain", "worker", "w1")["story"]
    assert (story["state"], story["ran"]["given"], story["ran"]["still_running"]) == ("working", 6, 1)
    assert [chapter["event"] for chapter in story["chapters"]] == ["WorkerAdmitted", "HoldMade", "HoldReleased"]
    assert sum(state["for_us"] for state in story["states"]) == story["span_us"]
    said = side.run("explain", "worker", "w1").stdout.splitlines()
    assert said[0].startswith("w1 of instance main: working; told of ")
    assert "no worker 'w9' connected to instance main" in side.run("explain", "worker", "w9", code=4).stderr


def test_without_the_state_table_all_comes_from_the_log(read_side, monkeypatch):
    side = ended(read_side)
    wanted = side.json("explain", "operation", "big")
    side.address = "http://127.0.0.1:9"
    result = side.run("explain", "operation", "big", "-o", "json")
    assert "from the log alone: the read side at http://127.0.0.1:9 does not answer" in result.stderr
    answer = json.loads(result.stdout)
    assert answer["story"] == wanted["story"]
    assert (answer["operation"], answer["runs"]) == (wanted["operation"], wanted["runs"])
    assert "does not answer" in side.run("explain", "operation", "big", "--now", code=1).stderr


def test_without_a_log_the_state_table_says_why_now(read_side, monkeypatch):
    side = held(read_side)

    @asynccontextmanager
    async def nowhere(settings, *, client_id):
        raise NoBroker(settings)
        yield

    monkeypatch.setattr(source, "connected", nowhere)
    result = side.run("explain", "operation", "big")
    assert "its story stands in the log: no broker" in result.stderr
    assert "no_room: Workers that could run it have no room for it now." in result.stdout


PLACED = [connected("w1"), connected("w2"), queued("x", cpu=3000), queued("a", cpu=2000)]


def test_a_placement_is_explained_as_of_the_event_before_it(read_side):
    side = read_side(PLACED)
    assert "why there: `headway explain operation main/op-" in side.run("explain", "operation", "a").stdout
    result = side.run("explain", "operation", "a", "--at-placement")
    assert "  w2: room, runs 0" in result.stdout.splitlines()
    assert "  w1: short of cpu_millis 1000 (asks 2000, 1000 of 4000 free), runs 1" in result.stdout.splitlines()
    assert "of shard 0, folded from the log" in result.stdout.splitlines()[-1]
    answer = side.json("explain", "operation", "a", "--at-placement")
    assert (answer["placed"]["endpoint"], answer["placed"]["holders"]) == ("w2", [])
    assert f"then placed on w2 (dispatch {answer['placed']['dispatch_id']})" in result.stdout.splitlines()
    placed = side.json("explain", "operation", "a")["runs"]["dispatch_id"]
    answer = side.json("explain", "operation", "a", "--at", str(placed - 1))
    assert (answer["seq"], answer["operation"]["stage"]) == (placed - 1, "queued")


def test_a_moment_before_the_operation_or_after_the_log_is_not_found(read_side):
    side = read_side(PLACED)
    early = side.run("explain", "operation", "a", "--at", "3", code=4).stderr
    assert "no operation 'a' was queued in shard 0 up to seq 3" in early
    late = side.run("explain", "operation", "a", "--at", "9999", code=4).stderr
    assert "shard 0 has no seq 9999: its last event is seq" in late
    before = side.run("explain", "operation", "a", "--at", "2020-01-01", code=4).stderr
    assert "no operation 'a' was queued in shard 0 up to seq 1" in before


def test_two_moments_are_refused():
    result = CliRunner().invoke(main, ["explain", "operation", "a", "--at", "3", "--at-placement"])
    assert result.exit_code == 2
    assert "name two moments" in result.stderr


def test_what_was_never_placed_has_no_placement_to_explain(read_side):
    side = read_side([queued("a")])
    result = side.run("explain", "operation", "a", "--at-placement", code=1)
    assert "(a) is queued and was never placed" in result.stderr


def test_a_finished_operation_says_how_it_ended(read_side):
    side = read_side([connected("w1"), queued("a"), ActionFinished("main", "w1", 7, 6, exit_code=2)])
    said = side.run("explain", "operation", "a").stdout
    assert "finished: It has ended." in said
    assert "completed: The action ran to its end" in said
    assert "exit code 2" in said


def test_a_paused_instance_is_the_first_reason(read_side):
    side = read_side([connected("w1"), InstancePaused("main"), queued("a")])
    assert [each["reason"] for each in side.json("explain", "operation", "a")["reasons"]] == ["instance_paused", "room"]


def test_holds_are_listed_with_policy_and_cause(read_side):
    head, row, footer = held(read_side).run("hold", "list").stdout.splitlines()
    assert head.split()[:2] == ["INSTANCE", "OPERATION"]
    assert "big" in row
    assert " w1 " in row
    assert "shortfall, after_s 0, max_hold_s 60" in row
    assert "100.0 % (the only candidate)" in row
    assert footer.startswith("1 hold; shard 0 seq ")
    assert held(read_side).json("hold", "list")["holds"][0]["client_operation_id"] == "big"
    assert read_side([]).run("hold", "list").stdout.splitlines()[-1].startswith("0 holds; ")


def test_workers_show_whom_they_are_reserved_for_only_when_one_is_held(read_side):
    assert "RESERVED FOR" not in read_side([connected("w1")]).run("worker", "list").stdout
    side = held(read_side)
    head, row, _ = side.run("worker", "list").stdout.splitlines()
    assert "RESERVED FOR" in head
    assert "main/op-" in row
    assert side.json("worker", "list")["workers"][0]["reserved_for"].startswith("main/op-")
    assert "reserved_for" not in read_side([connected("w1")]).json("worker", "list")["workers"][0]


def test_the_queue_notes_what_is_held_for_and_what_can_never_run(read_side):
    side = held(read_side)
    assert "w1 is held for it" in side.run("queue", "list").stdout
    never = read_side([connected("w1"), queued("a", cpu=9000)])
    assert "no worker could ever run it" in never.run("queue", "list").stdout


def test_what_an_edge_has_is_listed_shown_and_explained(read_side):
    side = read_side(
        [Configured("main", '{"kind":"upstream","instance":"far"}'), queued("a"), queued("b", attached=True)]
    )
    listed = side.run("operation", "list", "--stage", "forwarded").stdout
    assert "at far" in listed
    assert "2 operations; " in listed
    assert "b" in side.run("operation", "show", "b").stdout
    assert "handed to far, which has not answered" in side.run("explain", "operation", "a").stdout
    asking = read_side(
        [
            Configured("main", '{"kind":"cache_lookup","scheduler":{"kind":"simple"}}'),
            queued("c", cacheable=True, action_digest=Digest(b"\x01" * 32, 1)),
        ]
    )
    assert "asks the action cache" in asking.run("operation", "list", "--stage", "cache_check").stdout
    assert asking.run("operation", "cancel", "--all", "--dry-run").stdout.split() == ["TARGET", "main/op-2"]
