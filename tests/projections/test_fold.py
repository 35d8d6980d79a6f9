"""The fold against the core's own state: after any history both must say the same of every live row."""

from __future__ import annotations

from typing import Any

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.decide import reject_undecidable
from events.events import EVENT_KINDS
from events.indexing import has_something, is_unconfirmed
from events.reasons import RequeueCause
from events.state import Instance, Operation, Shard, Stage, Worker
from events.values import Holding
from projections import answers, explain, fleet, keys, locality
from projections.fold import FOLDS
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, ShareRow
from tests.projections.histories import History, records


def folded(history: History, *, flush_every: int = 1, rows: MemoryRows | None = None) -> Table:
    table = Table(rows or MemoryRows(), 0)
    for number, (offset, value) in enumerate(records(history)):
        assert take(table, offset, value) is Taken.FOLDED
        if number % flush_every == 0:
            table.flush()
    table.flush()
    return table


def of_core(operation: Operation) -> dict[str, Any]:
    dispatch = operation.dispatch
    return {
        "operation_id": operation.operation_id,
        "instance": operation.instance,
        "client_operation_id": operation.client_operation_id,
        "stage": Stage(operation.stage).name.lower(),
        "priority": operation.priority,
        "queued_at_us": operation.queued_at_us,
        "queued_since_us": operation.queued_since_us,
        "job_failures": operation.job_failures,
        "worker_losses": operation.worker_losses,
        "free_requeues": operation.free_requeues,
        "escalations": operation.escalations,
        "attached": operation.attached,
        "order": operation.order
        and {
            "priority": operation.order.priority,
            "time_us": operation.order.time_us,
            "share_of": operation.order.share_of or None,
            "cost_us": operation.order.cost_us or None,
        },
        "clients": [
            {
                "client_operation_id": client.client_operation_id,
                "client_id": client.client_id or None,
                "attached": client.attached,
                "last_heard_us": client.last_heard_us,
                "left": client.left.name.lower() if client.left else None,
            }
            for client in (operation.clients or {}).values()
        ],
        "requirement_ids": (operation.requirement_id, operation.asked_requirement_id),
        "hold_expired_at_us": operation.hold_expired_at_us,
        "outcome": operation.outcome.name.lower() if operation.outcome else None,
        "dispatch": (
            dispatch.dispatch_id,
            dispatch.worker.endpoint,
            dispatch.connection_id,
            dispatch.dispatched_at_us,
            dispatch.accepted,
        )
        if dispatch
        else None,
    }


def of_table(table: Table, answer: dict[str, Any]) -> dict[str, Any]:
    row = answers.find(table, answer["operation_id"])
    assert row is not None
    said = {name: answer[name] for name in of_core(_ANY) if name in answer}
    said["requirement_ids"] = (row.requirement_id, row.asked_requirement_id)
    said["hold_expired_at_us"] = row.hold_expired_at_us
    running = (answer["dispatch_id"], answer["endpoint"], row.dispatch.connection_id, answer["dispatched_at_us"])
    said["dispatch"] = (*running, answer["accepted"]) if answer["stage"] == "executing" else None
    return said


_ANY = Operation(0, "", "", 0, 0, 0, 0, 0, None)  # type: ignore[arg-type]


def _one_worker() -> Shard:
    instance = Instance("i", workers={"w": Worker("i", "w", 0, 0, (), 0, "", 0, 0, 0, [0, 0], [0, 0])})
    return Shard(instances={"i": instance})


def fleet_of_core(shard: Shard) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (worker.instance, worker.endpoint): {
            "boot_epoch": worker.boot_epoch,
            "connection_id": worker.connection_id,
            "properties": [{"name": name, "value": value} for name, value in worker.properties],
            "max_inflight": worker.max_inflight,
            "last_seen_us": worker.last_seen_us,
            "recency": worker.recency,
            "draining": worker.draining,
            "paused": worker.paused,
            "accepts": worker.accepts(),
            "free_memory_kib": worker.free_memory_kib,
            "admits_when_idle": worker.admits_when_idle,
            "lent_kib": None
            if instance.config.live_memory_veto is None or worker.free_memory_kib is None
            else worker.lent_kib,
            "idle_free_kib": worker.idle_free_kib,
            "idle_declined_kib": worker.idle_declined_kib,
            "resume_at_kib": worker.resume_at_kib or None,
            "unaccepted": worker.unaccepted,
            "reserved_for": f"{instance.name}/op-{instance.hold.operation.operation_id}"
            if instance.hold is not None and instance.hold.worker is worker
            else None,
            "remaining": {
                pool: left
                for pool, left, total in zip(instance.pools, worker.remaining, worker.totals, strict=True)
                if total >= 0
            },
            "running": [
                (
                    run.dispatch_id,
                    run.operation_id,
                    run.accepted,
                    run.revoked,
                    run.kill_requested_at_us or None,
                    run.heard_at_us,
                )
                for run in worker.running.values()
            ],
        }
        for instance in shard.instances.values()
        for worker in instance.workers.values()
    }


COMPARED = tuple(fleet_of_core(_one_worker())["i", "w"])


def fleet_of_table(table: Table) -> dict[tuple[str, str], dict[str, Any]]:
    said = {}
    for worker in fleet.workers(table):
        names = ("dispatch_id", "operation_id", "accepted", "revoked", "kill_requested_at_us", "heard_at_us")
        worker["running"] = [tuple(run[name] for name in names) for run in worker["running"]]
        key = (worker["instance"], worker["endpoint"])
        said[key] = {name: worker.get(name) for name in COMPARED}
    return said


def waits_of_core(instance: Instance) -> dict[str, Any]:
    """What an instance holds besides operations and workers."""
    hold = instance.hold
    return {
        "hold": hold
        and (hold.operation.operation_id, hold.worker.endpoint, hold.requirement_id, hold.made_at_us, hold.free_at_us),
        "no_candidate_for": instance.no_candidate_for,
        "unsatisfiable": {
            requirement_id: (shortage.since_us, shortage.no_workers)
            for requirement_id, shortage in instance.unsatisfiable.items()
        },
        "shares": (instance.shares.virtual_us, instance.shares.tags),
        "hints": len(instance.hints),
        "paused": instance.paused,
    }


def waits_of_table(table: Table, name: str) -> dict[str, Any]:
    row = table.row(table.key(keys.INSTANCE, name.encode()), InstanceRow)
    prefix = table.key(keys.SHARE, keys.named(name))
    hold = row.hold
    return {
        "hold": (hold.operation_id, hold.endpoint, hold.requirement_id, hold.made_at_us, hold.free_at_us)
        if row.HasField("hold")
        else None,
        "no_candidate_for": row.no_candidate_for if row.HasField("no_candidate_for") else None,
        "unsatisfiable": {
            shortage.requirement_id: (shortage.since_us, shortage.no_workers) for shortage in row.unsatisfiable
        },
        "shares": (
            row.virtual_us,
            {key[len(prefix) :].decode(): ShareRow.FromString(value).tag_us for key, value in table.scan(prefix)},
        ),
        "hints": row.hints,
        "paused": row.paused,
    }


def endpoints_of_core(shard: Shard) -> dict[tuple[str, str], dict[str, Any]]:
    """What the core knows of endpoints; of a report only while its connection stands."""
    return {
        (instance.name, endpoint.endpoint): {
            "boot_epoch": endpoint.boot_epoch,
            "connection_id": endpoint.connection_id,
            "confirmed": not (has_something(endpoint) and is_unconfirmed(shard, endpoint)),
            "unacknowledged": len(endpoint.unacknowledged or ()),
            "report": endpoint.connection_id
            and (endpoint.report.number, endpoint.report.next_chunk, endpoint.report.full, endpoint.report.open),
        }
        for instance in shard.instances.values()
        for endpoint in instance.endpoints.values()
    }


def endpoints_of_table(table: Table) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (view.instance, view.endpoint): {
            "boot_epoch": view.boot_epoch,
            "connection_id": view.connection_id,
            "confirmed": view.confirmed,
            "unacknowledged": view.unacknowledged,
            "report": view.connection_id and (view.report, view.report_chunks, view.report_full, view.report_open),
        }
        for view in locality.endpoints(table.rows, table.number)
    }


@pytest.mark.parametrize("seed", range(12))
def test_after_any_history_the_table_says_what_the_core_holds(seed: int) -> None:
    history = History(seed)
    rows = MemoryRows()
    table = Table(rows, 0)
    offset = 0
    for _ in range(40):
        history.run(20)
        for value in history.values():
            assert take(table, offset, value) is Taken.FOLDED, f"seed {seed}, offset {offset}"
            offset += 1
        table.flush()
        shard, fresh = history.shard, Table(rows, 0)
        live = {operation.operation_id: of_core(operation) for operation in shard.operations.values()}
        assert {o["operation_id"]: of_table(fresh, o) for o in answers.operations(fresh)} == live, f"seed {seed}"
        assert fleet_of_table(fresh) == fleet_of_core(shard), f"seed {seed}"
        assert endpoints_of_table(fresh) == endpoints_of_core(shard), f"seed {seed}"
        for instance in shard.instances.values():
            assert waits_of_table(fresh, instance.name) == waits_of_core(instance), f"seed {seed}"
            waiting = [o for o in dict.fromkeys(instance.by_client.values()) if o.stage is Stage.QUEUED]
            assert [o["operation_id"] for o in answers.queue(fresh, instance.name)] == [
                operation.operation_id for operation in sorted(waiting, key=lambda operation: operation.sort_key)
            ]
            for client, operation in instance.by_client.items():
                found = answers.lookup(fresh, client, instance.name)
                assert found is not None
                assert found.operation_id == operation.operation_id
        state = answers.state(fresh)
        assert state["ignored"] == {r.name.lower(): n for r, n in shard.ignored.items()}
        assert state["rejected"] == {r.name.lower(): n for r, n in shard.rejected.items()}
        assert (state["seq"], state["now_us"], state["facts_position"]) == (shard.seq, shard.now_us, shard.position)
        assert state["leader_epoch"] == shard.leader_epoch
        assert state["recovering"] == (shard.recovers_at is not None)
        assert state["elected_seq"] == shard.elected_seq
        for said in answers.instances(fresh):
            stages = [o.stage for o in shard.operations.values() if o.instance == said["name"]]
            assert {stage: said[stage.name.lower()] for stage in Stage} == {s: stages.count(s) for s in Stage}
            assert said["workers"] == len(shard.instances[said["name"]].workers)


@pytest.mark.parametrize("seed", range(4))
def test_rows_do_not_depend_on_how_events_are_batched(seed: int) -> None:
    one = folded(History(seed).run(400), flush_every=1).rows
    many = folded(History(seed).run(400), flush_every=97).rows
    forgetful = MemoryRows()
    table = Table(forgetful, 0, kept_rows=0)  # every row is read back from its bytes
    for offset, value in records(History(seed).run(400)):
        take(table, offset, value)
        table.flush()
    assert isinstance(one, MemoryRows)
    assert isinstance(many, MemoryRows)
    assert one.by_key == many.by_key == forgetful.by_key


def test_a_history_holds_every_kind_of_event() -> None:
    seen = {type(event).__name__ for seed in range(12) for event in History(seed).run(800).events}
    # Parked keys are the loop's own, and no random walk drains a held worker that then refuses: they have their tests below.
    assert set(EVENT_KINDS) - seen <= {"KeyParked", "KeyReleased", "WorkerIdleCapped"}


def test_every_kind_of_event_has_its_fold() -> None:
    assert set(FOLDS) == set(EVENT_KINDS.values())


def test_a_held_worker_that_refuses_when_drained_is_capped_in_both_folds() -> None:
    history = History(1, configure=False)
    history.decide(
        f.Configured(
            "main", '{"kind":"simple","live_memory_veto":"memory_kib","hold":{"kind":"shortfall","after_s":0}}'
        )
    )
    history.decide(f.WorkerConnected("main", "w", 1, 1, (("cpu_millis", "2000"), ("memory_kib", "100"))))
    small = canonical_requirements([("cpu_millis", "1000"), ("memory_kib", "10")])
    large = canonical_requirements([("cpu_millis", "2000"), ("memory_kib", "60")])
    history.decide(f.ActionQueued("main", "first", small))
    history.decide(f.WorkerReported("main", "w", 1, 55))
    history.decide(f.ActionQueued("main", "large", large))
    history.decide(f.ActionQueued("main", "second", small))
    assert [type(event).__name__ for event in history.events if "Hold" in type(event).__name__] == ["HoldMade"]
    (reserved,) = fleet.workers(folded(history))
    assert reserved["reserved_for"] == "main/op-4"
    for event in [event for event in history.events if isinstance(event, e.OperationDispatched)]:
        history.decide(f.ActionFinished("main", "w", 1, event.dispatch_id))
    history_again = History(1, configure=False)
    history_again._take(history.events[1:])
    table = folded(history_again)
    assert "WorkerIdleCapped" in {type(event).__name__ for event in history.events}
    assert fleet_of_table(table) == fleet_of_core(history.shard)
    assert fleet.workers(table)[0]["idle_free_kib"] == 55
    assert "reserved_for" not in fleet.workers(table)[0]
    assert answers.holds(table) == []
    assert answers.instances(table)[0]["hold_ends"]["unfit"]["count"] == 1


def test_a_dispatch_says_who_held_its_inputs_and_what_that_saved() -> None:
    history = History(1, configure=False)
    history.decide(f.Configured("main", '{"kind":"simple"}'))
    history.decide(f.WorkerConnected("main", "w", 1, 1, (("cpu_millis", "2000"),), blobs_url="http://w:81"))
    history.decide(f.ActionQueued("main", "one", canonical_requirements([("cpu_millis", "1000")])))
    (dispatched,) = [event for event in history.events if isinstance(event, e.OperationDispatched)]
    dispatched.holders, dispatched.saved_bytes = (Holding("w", 70), Holding("v", 5)), 70
    table = folded(history)
    (operation,) = answers.operations(table)
    said = [{"endpoint": "w", "bytes": 70}, {"endpoint": "v", "bytes": 5}]
    assert (operation["holders"], operation["saved_bytes"]) == (said, 70)
    row = answers.lookup(table, "one", "main")
    assert row is not None
    explained = explain.explain_operation(table, row)
    assert (explained["runs"]["holders"], explained["runs"]["saved_bytes"]) == (said, 70)
    assert fleet.workers(table)[0]["blobs_url"] == "http://w:81"


def test_parked_keys_stand_in_the_table_until_they_are_released() -> None:
    history = History(1)
    shard, fact = history.shard, f.Tick()
    history._take(reject_undecidable(shard, fact, offset=50, append_us=shard.now_us, key="k1", error="boom"))
    table = folded(history)
    assert answers.state(table)["parked_keys"] == ["k1"]
    history.decide(f.KeyReleased("k1"))
    for offset, value in records(history, first_offset=1000):
        take(table, offset, value)
    table.flush()
    assert answers.state(table)["parked_keys"] == []


def test_forgotten_operations_leave_nothing_behind() -> None:
    history = History(3).run(600)
    history.world.now_us += 3_600_000_000
    for name in ("main", "night"):
        for operation in list(history.shard.instances[name].by_client.values()):
            history.decide(f.CancelRequested(name, operation.operation_id))
    history.world.now_us += 3_600_000_000
    history.decide(f.Tick())
    table = folded(history)
    letters = {key[4:5] for key, _ in table.scan(table.key(b""))}
    assert keys.OPERATION not in letters
    assert not letters & {keys.CLIENT, keys.FINISHED, keys.QUEUED}


def test_requeues_are_counted_by_cause_for_ever() -> None:
    history = History(2).run(800)
    counted: dict[tuple[str, str], int] = {}
    for event in history.events:
        if isinstance(event, e.OperationRequeued):
            name = history.world.instance_of[event.operation_id]
            cause = RequeueCause(event.cause).name.lower()
            counted[name, cause] = counted.get((name, cause), 0) + 1
    table = folded(history)
    said = {(i["name"], cause): n for i in answers.instances(table) for cause, n in i["requeues"].items()}
    assert counted
    assert said == counted
