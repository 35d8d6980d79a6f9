"""`headway status` over the real views, with a broker and log ends made up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from events.codec import canonical_requirements
from events.facts import ActionFinished, ActionQueued, CancelRequested, Configured, StateDigested, WorkerConnected
from events.reasons import DigestRole
from streams.cli import status


def queued(name: str, cpu: int = 1000) -> ActionQueued:
    return ActionQueued("main", name, canonical_requirements([("cpu_millis", str(cpu))]))


@pytest.fixture
def broker(monkeypatch):
    async def ends(settings):
        return {0: (99, 99)}

    found = SimpleNamespace(kind="cluster", version="4.1", bootstrap_servers="b:1")
    monkeypatch.setattr(status, "running_broker", lambda settings: found)
    monkeypatch.setattr(status, "_ends", ends)


WORKER = WorkerConnected("main", "w1", 1, 7, (("cpu_millis", "2000"), ("memory_kib", "1024")))


def test_holds_and_what_can_never_run_are_said_below(broker, read_side):
    side = read_side(
        [
            Configured("main", '{"kind":"simple","hold":{"kind":"shortfall","after_s":0}}'),
            WORKER,
            queued("a"),
            queued("b"),
            queued("big", cpu=2000),
            queued("late"),
            ActionFinished("main", "w1", 7, 7),
            queued("huge", cpu=9000),
        ]
    )
    said = side.run("status").stdout.splitlines()
    assert any(line.startswith("hold: w1 is held for main/op-") and "(big)" in line for line in said)
    assert "1 kind of action waiting that no connected worker could ever run; `headway queue list` notes them" in said
    answer = side.json("status")
    assert (answer["holds"][0]["endpoint"], answer["unsatisfiable"]) == ("w1", 1)


def test_of_a_longer_queue_the_kinds_that_can_never_run_are_at_least_so_many(broker, read_side, monkeypatch):
    monkeypatch.setattr(status, "LOOKED_AT", 1)
    side = read_side([WORKER, queued("huge", cpu=9000), queued("huger", cpu=9500)])
    assert "at least 1 kind of action waiting that no connected worker could ever run" in side.run("status").stdout
    assert side.json("status")["unsatisfiable_complete"] is False


def test_a_kind_that_can_never_run_is_not_counted_when_none_of_it_waits_any_more(broker, read_side):
    ended = [queued("huge", cpu=9000), CancelRequested("main", None, "huge")]
    side = read_side([WORKER, queued("a"), queued("b"), queued("c"), *ended])
    assert side.json("instance", "list")["instances"][0]["unsatisfiable"] != []
    assert side.json("status")["unsatisfiable"] == 0
    assert "could ever run" not in side.run("status").stdout
    waiting = [queued("more", cpu=9000), queued("as-much", cpu=9000), queued("most", cpu=9500)]
    side = read_side([WORKER, queued("a"), *ended, *waiting])
    assert "2 kinds of action waiting that no connected worker could ever run" in side.run("status").stdout


def test_without_either_nothing_is_said(broker, read_side):
    side = read_side([WORKER, queued("a"), queued("b"), queued("c")])
    assert "hold" not in side.run("status").stdout
    assert side.json("status")["shards"][0]["queued"] == 1


def test_a_verified_state_is_shown_and_two_folds_that_differ_are_an_alarm_until_a_later_one_is_verified(
    broker, read_side
):
    def reports(seq: int, *digests: bytes) -> list[StateDigested]:
        roles = [DigestRole.WRITTEN, DigestRole.VERIFIED]
        said = zip(digests, roles, strict=True)
        return [StateDigested(seq, digest, 1, 1, f"one/{role.name.lower()}", role) for digest, role in said]

    agreed, later = reports(3, b"a" * 16, b"a" * 16), reports(5, b"c" * 16, b"c" * 16)
    differing = reports(4, b"a" * 16, b"b" * 16)
    side = read_side([WORKER, queued("a"), *agreed])
    assert side.json("status")["shards"][0]["checkpoint"]["seq"] == 3
    assert "ALARM" not in side.run("status").stdout
    said = read_side([WORKER, queued("a"), queued("b"), *agreed, *differing]).run("status").stdout
    assert "ALARM: shard 0: two folds differ in the state after event 4 (one/verified against one/written)" in said
    assert "ALARM" not in read_side([WORKER, queued("a"), queued("b"), *differing, *later]).run("status").stdout
