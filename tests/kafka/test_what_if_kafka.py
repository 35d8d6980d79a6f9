"""`headway what-if` over what a real decider and real workers left on a broker: times are those of processes and a network."""

from __future__ import annotations

import json

import pytest

SMALL = 26


def actions() -> str:
    """Small ones of changing lengths, all at once; behind the fourth a large one that needs a whole worker."""
    facts = []
    for number in range(SMALL):
        facts.append({"client_operation_id": f"small-{number}", "cpu": 1000, "us": 400_000 + 170_000 * (number % 5)})
        if number == 3:
            facts.append({"client_operation_id": "large", "cpu": 2000, "us": 600_000})
    return "".join(
        json.dumps(
            {
                "kind": "ActionQueued",
                "instance": "main",
                "client_operation_id": fact["client_operation_id"],
                "requirements": [{"name": "cpu_millis", "value": str(fact["cpu"])}],
                "expected_duration_us": fact["us"],
            }
        )
        + "\n"
        for fact in facts
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_what_a_cluster_did_is_reproduced_within_the_error_and_without_the_hold_the_large_one_waits_longer(deployment):
    d = deployment
    d.run("topics", "apply", "--instance", "main")
    d.start("decider", "run", "--claim")
    config = '{"kind":"simple","hold":{"kind":"shortfall","after_s":1}}'
    d.run("config", "set", "-", stdin=config)
    d.start(*("worker", "run", "--name", "w", "--cores", "2", "--memory-kib", "65536", "--simulate", "--count", "2"))
    admitted = ("events", "tail", "--no-follow", "--kind", "WorkerAdmitted", "-o", "json")
    d.until("two workers", lambda: len(d.run(*admitted).splitlines()) == 2)
    d.run("publish", "-", stdin=actions())
    finished = ("events", "tail", "--no-follow", "--kind", "OperationFinished", "-o", "json")
    d.until("every action to finish", lambda: len(d.run(*finished).splitlines()) == SMALL + 1)

    found = d.json("what-if", "--set", "hold=off", "--operation", "large")
    recorded, unchanged, _, off = found["policies"]
    assert recorded["waits"]["operations"] == SMALL + 1
    assert recorded["holds"]["ended"] == {"placed": 1}
    # Append times are whole milliseconds, so what happened within one may come out in another order.
    assert found["each"]["operations"] == SMALL + 1
    assert found["each"]["mean_us"] <= recorded["waits"]["mean_us"] / 10
    assert (
        abs(unchanged["waits"]["mean_us"] - recorded["waits"]["mean_us"]) == found["error"]["off"]["waits"]["mean_us"]
    )
    assert found["error"]["off"]["waits"]["mean_us"] <= found["error"]["most"]["waits"]["mean_us"]
    assert off["holds"]["made"] == 0
    assert off["first_divergence"]["recorded"]["kind"] == "HoldMade"
    large = found["operation"]
    assert large["changed_us"] == [off["large"]["max_us"]]
    assert large["changed_us"][0] > large["recorded_us"] > 1_000_000
    text = d.run("what-if", "--set", "hold=off", "--operation", "large")
    assert text.splitlines()[1].startswith("  with hold=off: ")
