"""`headway decide`: JSON lines in, JSON lines out, on a virtual clock."""

import json

import pytest
from click.testing import CliRunner

from streams.cli.main import main

WORKER = {
    "at_us": 1_000_000,
    "kind": "WorkerConnected",
    "endpoint": "w1",
    "connection_id": 1,
    "boot_epoch": 1,
    "properties": [{"name": "cpu_millis", "value": "8000"}],
}
ACTION = {
    "at_us": 1_000_000,
    "kind": "ActionQueued",
    "client_operation_id": "a",
    "requirements": [{"name": "cpu_millis", "value": "4000"}],
}
RESTART = {"kind": "Restart"}


def decide(*lines, args=(), exit_code=0):
    """The events, and the result itself."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    result = CliRunner().invoke(main, ["decide", *args], input=text.encode())
    assert result.exit_code == exit_code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()], result


def kinds(events):
    return [event["kind"] for event in events]


def test_facts_become_events_as_on_a_real_log():
    events, _ = decide(WORKER, ACTION)
    assert kinds(events) == [
        "LeaderElected",
        "Configured",
        "WorkerAdmitted",
        "RequirementDefined",
        "OperationQueued",
        "OperationDispatched",
    ]
    assert [event["seq"] for event in events] == list(range(1, 7))
    assert [event["cause_offset"] for event in events] == [0, 0, 1, 2, 2, 2]
    assert events[1]["config"]["kind"] == "simple"
    assert (events[5]["endpoint"], events[5]["dispatch_id"], events[5]["operation_id"]) == ("w1", 6, 2)


def test_a_first_line_that_configures_is_the_configuration():
    first = {"at_us": 5, "kind": "Configured", "instance": "ci", "config": {"kind": "simple", "max_job_retries": 7}}
    events, _ = decide(first, ACTION)
    assert kinds(events)[:2] == ["LeaderElected", "Configured"]
    assert events[1]["config"]["max_job_retries"] == 7
    assert (events[-1]["kind"], events[-1]["reason"]) == ("FactRejected", "unknown_instance")


def test_ticks_come_every_half_second_between_lines():
    events, _ = decide(WORKER, {**ACTION, "at_us": 2_000_000}, args=["--until-us", "3000000"])
    assert [event["at_us"] for event in events if event["kind"] == "Ticked"] == [
        1_500_000,
        2_000_000,
        2_500_000,
        3_000_000,
    ]
    queued = next(place for place, event in enumerate(events) if event["kind"] == "OperationQueued")
    assert kinds(events[queued:]).count("Ticked") == 3  # what is due at the time of a line comes after it


def test_until_runs_timers_after_the_last_line():
    events, _ = decide(WORKER, ACTION, args=["--until-us", "11000000", "--hide", "Ticked"])
    assert kinds(events)[-2:] == ["OperationRequeued", "WorkerDisconnected"]
    assert events[-1]["at_us"] == 11_000_000


def test_without_a_ticker_a_gap_is_an_outage():
    events, _ = decide(WORKER, {**ACTION, "at_us": 100_000_000}, args=["--no-ticker"])
    assert "Ticked" not in kinds(events)
    silent = next(event for event in events if event["kind"] == "LogSilent")
    assert silent["gap_us"] == 99_000_000
    assert kinds(events)[-1] == "OperationDispatched"


def test_a_restart_rebuilds_the_state_and_elects():
    finished = {"at_us": 1_200_000, "kind": "ActionFinished", "endpoint": "w1", "connection_id": 1, "dispatch_id": 6}
    events, _ = decide(WORKER, ACTION, RESTART, finished)
    assert kinds(events)[-3:] == ["LeaderElected", "RecoveryCompleted", "OperationFinished"]
    assert events[-3]["leader_epoch"] == 2
    assert events[-1]["operation_id"] == 2


def test_a_restart_has_a_time_where_it_says_one():
    events, _ = decide(WORKER, {**RESTART, "at_us": 2_100_000})
    assert kinds(events)[-3:] == ["Ticked", "Ticked", "LeaderElected"]


def test_a_restart_as_the_first_line_restarts_a_configured_shard():
    events, _ = decide(RESTART)
    assert kinds(events) == ["LeaderElected", "Configured", "LeaderElected"]


def test_a_line_without_a_time_happens_with_the_line_before():
    events, _ = decide(WORKER, {name: value for name, value in ACTION.items() if name != "at_us"})
    assert events[-1]["at_us"] == 1_000_000


@pytest.mark.parametrize(
    ("line", "reason", "field"),
    [
        ("nonsense", "undecodable", ""),
        ("[1, 2]", "undecodable", ""),
        ({**ACTION, "prioritty": 3}, "invalid_field", "prioritty"),
        ({**ACTION, "kind": "ActionQeued"}, "unknown_kind", "kind"),
        ({"at_us": 1_000_000, "kind": "Restart", "hard": True}, "unknown_kind", "kind"),
    ],
)
def test_a_bad_line_is_a_rejected_fact_and_the_next_is_decided(line, reason, field):
    events, _ = decide(WORKER, line, ACTION)
    rejected = next(event for event in events if event["kind"] == "FactRejected")
    assert (rejected["reason"], rejected["field"]) == (reason, field)
    assert kinds(events)[-1] == "OperationDispatched"


def test_strict_stops_at_the_first_refusal_and_names_the_line():
    events, result = decide(WORKER, "", {**ACTION, "prioritty": 3}, ACTION, args=["--strict"], exit_code=1)
    assert kinds(events)[-1] == "FactRejected"
    assert "line 3: ActionQueued is refused: field 'prioritty'" in result.stderr
    assert "did you mean 'priority'?" in result.stderr


def test_strict_says_nothing_of_what_is_ignored():
    events, _ = decide(ACTION, ACTION, args=["--strict"])
    assert kinds(events)[-1] == "FactIgnored"


def test_times_that_turn_back_stop_with_line_and_both_values():
    events, result = decide(WORKER, {**ACTION, "at_us": 999_999}, exit_code=1)
    assert kinds(events)[-1] == "WorkerAdmitted"
    assert "line 2" in result.stderr
    assert "999999" in result.stderr
    assert "1000000" in result.stderr


@pytest.mark.parametrize("at_us", ["soon", 1.5, True, -1, 2**63, None])
def test_a_time_that_is_none_stops_with_its_line(at_us):
    _, result = decide(WORKER, {**ACTION, "at_us": at_us}, exit_code=1)
    assert "line 2: at_us" in result.stderr


def test_a_jump_too_far_for_the_ticker_is_refused_with_the_numbers():
    _, result = decide(WORKER, {**ACTION, "at_us": 1_800_000_000_000_000}, exit_code=1)
    assert "line 2" in result.stderr
    assert "the limit is 200000" in result.stderr
    events, _ = decide(WORKER, {**ACTION, "at_us": 1_800_000_000_000_000}, args=["--no-ticker"])
    assert kinds(events)[-1] == "OperationDispatched"


def test_until_a_time_that_has_passed_is_refused():
    _, result = decide(WORKER, args=["--until-us", "5"], exit_code=1)
    assert "--until-us" in result.stderr


def test_hidden_kinds_happen_and_are_not_printed():
    events, _ = decide(WORKER, ACTION, args=["--hide", "Ticked,RequirementDefined", "--hide", "Configured"])
    assert kinds(events) == ["LeaderElected", "WorkerAdmitted", "OperationQueued", "OperationDispatched"]
    assert events[-1]["seq"] == 6
    quiet, _ = decide(WORKER, args=["--quiet-ticks", "--until-us", "5000000"])
    assert "Ticked" not in kinds(quiet)


def test_a_kind_that_cannot_be_hidden_is_a_usage_error_with_a_suggestion():
    _, result = decide(args=["--hide", "Tickd"], exit_code=2)
    assert "did you mean Ticked?" in result.stderr


def test_a_file_is_read_as_well_as_standard_input(tmp_path):
    path = tmp_path / "facts.jsonl"
    path.write_text(json.dumps(ACTION) + "\n")
    result = CliRunner().invoke(main, ["decide", str(path)])
    assert result.exit_code == 0
    assert json.loads(result.stdout.splitlines()[-1])["client_operation_id"] == "a"


def test_a_file_that_is_not_there_is_a_usage_error():
    assert CliRunner().invoke(main, ["decide", "no-such-file.jsonl"]).exit_code == 2


def test_nothing_in_is_nothing_out():
    events, _ = decide()
    assert events == []


def test_the_summary_says_what_became_of_each_operation_on_standard_error():
    second = {**ACTION, "client_operation_id": "b", "requirements": [{"name": "cpu_millis", "value": "8000"}]}
    _, result = decide(WORKER, ACTION, second, args=["--summary"])
    assert "1 executing, 1 queued" in result.stderr
    assert "main/op-2" in result.stderr
    assert "w1" in result.stderr
    assert "main/op-2" not in result.stdout


def test_the_summary_counts_what_was_forgotten():
    cancel = {"at_us": 1_000_000, "kind": "CancelRequested", "client_operation_id": "a"}
    _, result = decide(ACTION, cancel, args=["--summary", "--until-us", "70000000"])
    assert "operations: 1 forgotten" in result.stderr


def test_the_same_lines_give_the_same_bytes():
    assert decide(WORKER, ACTION, RESTART)[1].stdout == decide(WORKER, ACTION, RESTART)[1].stdout


# -- who holds what an action needs ---------------------------------------------------------------------------------------------

BLOB = "64" * 32 + "/5000"


def preferring(from_bytes):
    config = {"kind": "simple", "locality": {"prefer_from_bytes": from_bytes}}
    return {"at_us": 1_000_000, "kind": "Configured", "instance": "main", "config": config}


def with_inputs(name, *, cpu="1000"):
    needs = [{"name": "cpu_millis", "value": cpu}]
    return {
        "kind": "ActionQueued", "client_operation_id": name, "requirements": needs, "argv": ["true"], "inputs": [BLOB]
    }  # fmt: skip


W1, W2 = {**WORKER, "at_us": 1_000_000}, {**WORKER, "endpoint": "w2", "connection_id": 2}
W2_HOLDS = {
    "kind": "BlobsAvailable", "endpoint": "w2", "connection_id": 2, "report": 1, "full": True, "last": True, "added": [BLOB]
}  # fmt: skip


def dispatched(*lines):
    """(endpoint, holders, saved bytes) of each dispatch."""
    events, _ = decide(*lines)
    return [
        (event["endpoint"], event["holders"], event["saved_bytes"])
        for event in events
        if event["kind"] == "OperationDispatched"
    ]


HELD = [{"endpoint": "w2", "bytes": 5000}]


def test_an_action_goes_where_its_inputs_are_also_after_a_restart():
    lines = [preferring(5000), W1, W2, W2_HOLDS, with_inputs("a"), RESTART, with_inputs("b")]
    assert dispatched(*lines) == [("w2", HELD, 5000)] * 2


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([preferring(5001), W1, W2, W2_HOLDS, with_inputs("a")], ("w1", HELD, 0)),
        ([preferring(None), W1, W2, W2_HOLDS, with_inputs("a")], ("w1", [], 0)),
        (
            [preferring(1), W1, W2, W2_HOLDS, {"kind": "WorkerDrained", "endpoint": "w2"}, with_inputs("a")],
            ("w1", HELD, 0),
        ),
        (
            [preferring(1), W1, W2, W2_HOLDS, {"kind": "WorkerGone", "endpoint": "w2"}, with_inputs("a")],
            ("w1", [], 0),
        ),
        (
            [preferring(1), W1, W2, W2_HOLDS, {**W2, "connection_id": 3, "boot_epoch": 2}, with_inputs("a")],
            ("w1", [], 0),
        ),
    ],
    ids=["below the threshold", "without the option", "draining", "gone", "another boot epoch"],
)
def test_otherwise_the_strategy_decides(lines, expected):
    assert dispatched(*lines) == [expected]


def test_a_full_holder_is_not_waited_for():
    lines = [preferring(1), W1, W2, W2_HOLDS, with_inputs("fills", cpu="8000"), with_inputs("a")]
    assert dispatched(*lines) == [("w2", HELD, 5000), ("w1", HELD, 0)]
