"""What the demonstration asks for and of whom."""

from __future__ import annotations

from pathlib import Path

from events.codec import command_of, decode_fact, encode_fact, requirements_of
from events.config import SimpleScheduler, canonical_config, parse_config
from streams.demo.workload import CONFIG, REAL_WORKER, schedule, worker_arguments
from streams.traces import TraceNode, TraceTask, compress, load_openb

SLICE = Path(__file__).parents[1] / "fixtures" / "openb"


def test_the_slice_becomes_at_least_500_valid_facts_in_order():
    tasks, _ = load_openb(SLICE / "pods.csv", SLICE / "nodes.csv")
    due = schedule(compress(tasks, 30_000_000), instance="main", commands=24)
    assert len(due) == 724 >= 500
    assert [item.at_us for item in due] == sorted(item.at_us for item in due)
    assert due[-1].at_us <= 30_000_000
    assert len({item.fact.client_operation_id for item in due}) == len(due)
    assert all(decode_fact(encode_fact(item.fact)) == item.fact for item in due)


def test_only_commands_ask_for_the_real_worker_and_only_they_have_something_to_run():
    due = schedule([TraceTask("t", 0, 5_000_000, 100, 200)], instance="main", commands=1)
    by_name = {item.fact.client_operation_id: item.fact for item in due}
    assert dict(requirements_of(by_name["t"].requirements)) == {"cpu_millis": "100", "memory_kib": "200"}
    assert by_name["t"].expected_duration_us == 5_000_000
    assert command_of(by_name["t"].command).argv == ()
    assert ("runner", "process") in requirements_of(by_name["command-0"].requirements)
    assert command_of(by_name["command-0"].command).argv[0] == "sh"


def test_machines_of_a_kind_share_a_process():
    nodes = [TraceNode("a", 1500, 10), TraceNode("b", 1500, 10), TraceNode("g", 1000, 10, 2000, "T4")]
    arguments = worker_arguments(nodes)
    assert list(arguments) == ["a", "g", REAL_WORKER]
    assert arguments["a"][-2:] == ["--count", "2"]
    assert arguments["a"][arguments["a"].index("--cores") + 1] == "1.5"
    assert "gpu_milli=2000" in arguments["g"]
    assert "gpu_model=T4" in arguments["g"]
    assert "--simulate" not in arguments[REAL_WORKER]


def test_the_configuration_is_a_valid_one():
    assert parse_config(canonical_config(CONFIG)) == CONFIG
    assert isinstance(CONFIG, SimpleScheduler)
    assert CONFIG.pools() == ("cpu_millis", "gpu_milli", "memory_kib")
