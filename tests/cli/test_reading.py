"""The commands that read: queue, worker, operation, instance and config, against the real views."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from events.codec import canonical_requirements, command_bytes
from events.facts import (
    ActionFinished,
    ActionQueued,
    DispatchAccepted,
    InstancePaused,
    WorkerConnected,
    WorkerDrained,
)
from streams.cli.main import main


def queued(name: str, cpu: int = 1000, **fields: object) -> ActionQueued:
    return ActionQueued("main", name, canonical_requirements([("cpu_millis", str(cpu))]), **fields)


def connected(name: str, cpu: int = 4000, **properties: str) -> WorkerConnected:
    pairs = tuple(sorted({"cpu_millis": str(cpu), "memory_kib": "1024", **properties}.items()))
    return WorkerConnected("main", name, 1, 7, pairs)


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_queue_is_listed_in_dispatch_order_with_position_and_age(read_side):
    side = read_side([queued("low"), queued("high", priority=5), queued("late")])
    head, *rows, footer = lines(side.run("queue", "list").stdout)
    assert head[:2] == ["#", "OPERATION"]
    assert [(row[0], row[2], row[3]) for row in rows] == [("1", "high", "5"), ("2", "low", "0"), ("3", "late", "0")]
    assert " ".join(footer).startswith("3 operations waiting; shard 0 seq ")
    assert " ".join(footer).endswith(", 250.0ms old")


def test_a_limit_says_that_there_is_more(read_side):
    side = read_side([queued("a"), queued("b")])
    assert "1 operation waiting, more than are shown;" in side.run("queue", "list", "--limit", "1").stdout
    answer = side.json("queue", "list", "--limit", "1")
    assert (len(answer["operations"]), answer["more"]) == (1, True)


def test_workers_are_listed_with_what_they_have_left(read_side):
    side = read_side([connected("w1", pool="a"), connected("w2"), WorkerDrained("main", "w2"), queued("x", cpu=1500)])
    _, first, second, footer = side.run("worker", "list").stdout.splitlines()
    assert "cpu_millis 2500/4000" in first
    assert "pool=a" in first
    assert second.split()[:4] == ["w2", "main", "draining", "0"]
    assert footer.startswith("2 workers; ")


def test_workers_are_chosen_by_property(read_side):
    side = read_side([connected("w1", pool="a"), connected("w2", pool="b")])
    assert [row["endpoint"] for row in side.json("worker", "list", "--property", "pool=b")["workers"]] == ["w2"]
    assert "'pool' is not NAME=VALUE" in side.run("worker", "list", "--property", "pool", code=2).stderr


def test_a_drain_by_property_names_the_workers_it_would_drain(read_side):
    side = read_side([connected("w1", pool="a"), connected("w2", pool="b"), connected("w3", pool="a")])
    result = side.run("worker", "drain", "--property", "pool=a", "--dry-run")
    assert result.stdout.split() == ["TARGET", "w1", "w3"]
    assert "would be drained: 2 workers" in result.stderr
    missing = side.run("worker", "drain", "--property", "pool=z", "--dry-run", code=4)
    assert "none of the 3 workers of instance 'main' declares pool=z" in missing.stderr


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (0, "instance 'main' has no workers, so none declares pool=z"),
        (1, "the only worker of instance 'main' does not declare pool=z"),
        (2, "none of the 2 workers of instance 'main' declares pool=z"),
    ],
)
def test_that_no_worker_declares_a_property_is_said_of_as_many_as_there_are(read_side, workers, said):
    side = read_side([connected(f"w{number}", pool="a") for number in range(workers)])
    assert said in side.run("worker", "drain", "--property", "pool=z", "--dry-run", code=4).stderr


@pytest.mark.parametrize("arguments", [[], ["w1", "--property", "pool=a"]])
def test_a_drain_names_workers_in_one_way(arguments):
    result = CliRunner().invoke(main, ["worker", "drain", *arguments])
    assert result.exit_code == 2
    assert "one of the two" in result.stderr


def finished_story(read_side):
    """`run` executes, `done` has ended with exit code 3, `wait` waits; dispatch ids are the seq of the dispatch events."""
    run, done = 6, 8  # elected, configured, admitted, requirement, queued, dispatched, queued, dispatched
    return read_side(
        [
            connected("w1", cpu=2000),
            queued("run", cpu=0, client_id="alice", command=command_bytes(["make", "all"], env=[("A", "b")])),
            queued("done", cpu=0, client_id="bob", mnemonic="Test"),
            DispatchAccepted("main", "w1", 7, run),
            ActionFinished("main", "w1", 7, done, exit_code=3, stdout_tail=b"one\ntwo\n", stderr_tail=b"oops\n"),
            queued("wait", cpu=9000, client_id="alice", mnemonic="Link"),
        ]
    )


def test_operations_are_listed_with_what_came_of_them(read_side):
    side = finished_story(read_side)
    rows = {row[1]: " ".join(row) for row in lines(side.run("operation", "list").stdout)[1:4]}
    assert "executing" in rows["run"]
    assert rows["run"].endswith("accepted")
    assert rows["done"].endswith("completed, exit 3")
    assert "queued" in rows["wait"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--stage", "queued"], ["wait"]),
        (["--client", "alice"], ["run", "wait"]),
        (["--mnemonic", "Test"], ["done"]),
        (["--client", "alice", "--stage", "executing"], ["run"]),
        (["--client", "nobody"], []),
    ],
)
def test_operations_are_filtered(read_side, options, names):
    found = finished_story(read_side).json("operation", "list", *options)["operations"]
    assert [row["client_operation_id"] for row in found] == names


@pytest.mark.parametrize("name", ["run", "main/op-2", "op-2", "2"])
def test_an_operation_is_found_by_each_of_its_names(read_side, name):
    shown = finished_story(read_side).run("operation", "show", name).stdout
    assert "main/op-2" in shown
    assert "make all" in shown
    assert "A=b" in shown


def test_the_output_of_an_operation_is_printed_as_it_was_captured(read_side):
    result = finished_story(read_side).run("operation", "show", "done", "--output")
    assert (result.stdout, result.stderr) == ("one\ntwo\n", "oops\n")
    assert (
        "no output yet: it is executing" in finished_story(read_side).run("operation", "show", "run", "--output").stderr
    )


def test_an_unknown_operation_is_exit_code_4(read_side):
    result = read_side([]).run("operation", "show", "nope", code=4)
    assert "error [not-found]: operation 'nope' is not in the state table" in result.stderr


def test_a_bulk_cancel_says_which_operations_it_would_cancel(read_side):
    side = finished_story(read_side)
    result = side.run("operation", "cancel", "--client", "alice", "--dry-run")
    assert result.stdout.split() == ["TARGET", "main/op-2", "main/op-6"]
    assert "would be cancelled: 2 operations" in result.stderr
    assert side.run("operation", "cancel", "--all", "--dry-run").stdout.split()[1:] == ["main/op-2", "main/op-6"]
    queued_only = side.run("operation", "reprioritise", "--priority", "3", "--client", "alice", "--dry-run")
    assert queued_only.stdout.split()[1:] == ["main/op-6"]


@pytest.mark.parametrize("arguments", [[], ["a", "--client", "x"], ["a", "--all"]])
def test_operations_are_named_in_one_way(arguments):
    result = CliRunner().invoke(main, ["operation", "cancel", *arguments])
    assert result.exit_code == 2
    assert "one of the two" in result.stderr


def test_an_operation_of_another_instance_is_not_cancelled_by_accident():
    result = CliRunner().invoke(main, ["operation", "cancel", "other/op-3"])
    assert result.exit_code == 2
    assert "say --instance other" in result.stderr


def test_a_bulk_command_names_the_instances_there_are(read_side):
    result = read_side([]).run("operation", "cancel", "--all", "--instance", "nope", code=4)
    assert "unknown instance 'nope'; known instances: main" in result.stderr


def test_instances_are_listed_with_their_counts(read_side):
    side = read_side([connected("w1"), queued("a"), queued("b", cpu=9000), InstancePaused("main")])
    _, row, _ = lines(side.run("instance", "list").stdout)
    assert row[:7] == ["main", "0", "yes", "1", "1", "0", "1"]


def test_a_configuration_is_shown_under_the_names_it_is_set_with(read_side):
    side = read_side([])
    assert ["worker_timeout_s", "10"] in lines(side.run("config", "show").stdout)
    assert side.json("config", "show")["kind"] == "simple"
    assert "unknown instance" in side.run("config", "show", "--instance", "nope", code=4).stderr


def test_without_a_read_side_a_command_says_how_to_start_it():
    result = CliRunner(env={"HEADWAY_WEB_PORT": "1", "HEADWAY_VIEWS_URL": ""}).invoke(main, ["queue", "list"])
    assert result.exit_code == 1
    assert "the read side at http://127.0.0.1:1 does not answer: Connection refused" in result.stderr
    assert "headway state-table run" in result.stderr
