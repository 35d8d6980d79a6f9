"""A decision that was forged, with a chain that says nothing of it, is found where it stands, by the rule that is meant to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.verify.forging import (
    History,
    audit,
    doubled,
    first,
    forged,
    holds,
    left_out,
    parsed,
    rule_of,
    told,
    turned_to,
    walked,
)

SEEDS = range(40)

Pick = Callable[[Any], bool]
Forge = Callable[[Any], None]


def histories() -> Iterator[History]:
    yield holds()
    for seed in SEEDS:
        yield walked(seed)


def put(field: str, value: Callable[[Any], Any]) -> Forge:
    """Another value in a field, made of the one that stands there."""

    def forge(payload: Any) -> None:
        setattr(payload, field, value(getattr(payload, field)))

    return forge


def raised(field: str) -> Forge:
    return put(field, lambda value: value + 1)


def drop(field: str) -> Forge:
    return lambda payload: payload.ClearField(field)


def first_of(field: str, name: str, value: int) -> Forge:
    """Another number in the first of a list of messages."""
    return lambda payload: setattr(getattr(payload, field)[0], name, value)


def turned(field: str) -> Forge:
    """A list the other way round."""

    def forge(payload: Any) -> None:
        items = list(getattr(payload, field))
        payload.ClearField(field)
        getattr(payload, field).extend(reversed(items))

    return forge


def any_one(payload: Any) -> bool:
    return True


FORGERIES: list[tuple[str, str, Pick, Forge]] = [
    ("silence", "log_silent", any_one, raised("gap_us")),
    ("recovered", "recovery_completed", any_one, raised("unconfirmed")),
    ("ignored", "fact_ignored", lambda p: p.reason == 5, put("reason", lambda _: 4)),
    ("ignored", "fact_ignored", lambda p: p.dispatch_id > 0, raised("dispatch_id")),
    ("rejected", "fact_rejected", lambda p: p.reason == 4, put("reason", lambda _: 2)),
    ("rejected", "fact_rejected", lambda p: p.reason == 5, put("field", lambda _: "requirements.memory_kib")),
    ("configured", "configured", any_one, put("config_json", lambda text: text.replace('"worker_timeout_s":', '"worker_timeout_s":1'))),
    ("requirements", "requirement_defined", any_one, raised("requirement_id")),
    ("admitted", "operation_queued", any_one, raised("priority")),
    ("admitted", "operation_queued", lambda p: p.client_id != "", put("client_id", lambda _: "eve")),
    ("admitted", "operation_queued", lambda p: p.clamped_us != 0, put("clamped_us", lambda _: 0)),
    ("ordered", "operation_queued", lambda p: p.HasField("order"), lambda p: setattr(p.order, "time_us", p.order.time_us + 1)),
    ("joined", "operation_joined", any_one, put("attached", lambda value: not value)),
    ("clients", "client_left", lambda p: p.reason == 2, raised("silent_us")),
    ("answers", "cache_answered", any_one, put("message", lambda _: "forged")),
    ("cancelled", "operation_finished", lambda p: p.outcome == 5 and not p.dispatch_id, put("exit_code", lambda _: 1)),
    ("cancelled", "operation_finished", lambda p: p.outcome == 5, lambda p: setattr(p.usage, "peak_memory_kib", 1)),
    ("forgotten", "operations_forgotten", any_one, put("through_seq", lambda seq: seq - 1)),
    ("current", "operation_accepted", any_one, raised("dispatch_id")),
    ("ended", "operation_finished", lambda p: p.outcome == 1, raised("exit_code")),
    ("ended", "operation_finished", lambda p: p.outcome == 1, put("outcome", lambda _: 2)),
    ("budgets", "operation_requeued", lambda p: p.cause == 1, raised("job_failures")),
    ("budgets", "operation_requeued", lambda p: p.cause == 5, raised("worker_losses")),
    ("budgets", "operation_finished", lambda p: p.outcome == 3, put("job_failures", lambda _: 0)),
    ("killed", "kill_requested", lambda p: p.cause == 1, put("cause", lambda _: 4)),
    ("settled", "dispatch_settled", lambda p: p.result == 1, put("result", lambda _: 2)),
    ("connected", "worker_admitted", lambda p: len(p.kept) > 0, drop("kept")),
    ("connected", "worker_admitted", any_one, put("max_inflight", lambda _: 9)),
    ("heard", "worker_reported", lambda p: p.HasField("free_memory_kib"), raised("free_memory_kib")),
    ("left", "worker_disconnected", lambda p: p.reason in (1, 3), put("silent_us", lambda _: 5)),
    ("timers", "worker_disconnected", lambda p: p.reason == 2, raised("silent_us")),
    ("timers", "endpoint_swept", any_one, raised("waited_us")),
    ("overtook", "operation_dispatched", lambda p: p.HasField("overtook"), drop("overtook")),
    ("overtook", "operation_dispatched", lambda p: p.HasField("overtook"), raised("overtook")),
    ("held_room", "operation_dispatched", lambda p: p.backfilled, put("backfilled", lambda _: False)),
    ("hold_made", "hold_made", any_one, raised("waited_us")),
    ("hold_made", "hold_made", lambda p: p.HasField("overtaken_by"), raised("overtaken_by")),
    ("hold_made", "hold_made", any_one, raised("requirement_id")),
    ("hold_choice", "hold_made", lambda p: len(p.candidates) > 1, lambda p: setattr(p, "endpoint", p.candidates[1].endpoint)),
    ("hold_choice", "hold_made", lambda p: len(p.candidates) > 1, turned("candidates")),
    ("hold_choice", "hold_made", any_one, first_of("candidates", "shortfall_milli", 7777)),
    ("hold_choice", "hold_made", lambda p: len(p.excluded) > 0, first_of("excluded", "workers", 99)),
    ("hold_choice", "hold_made", any_one, raised("more_candidates")),
    ("hold_moved", "hold_moved", lambda p: p.cause == 1, put("cause", lambda _: 3)),
    ("hold_choice", "hold_moved", lambda p: len(p.candidates) > 1, lambda p: setattr(p, "to_endpoint", p.candidates[1].endpoint)),
    ("hold_released", "hold_released", lambda p: p.reason == 1, put("reason", lambda _: 2)),
    ("hold_released", "hold_released", lambda p: p.reason == 6, put("reason", lambda _: 5)),
    ("hold_released", "hold_released", any_one, raised("held_us")),
    ("hold_none", "hold_no_candidate", any_one, raised("waited_us")),
    ("idle_cap", "worker_idle_capped", any_one, raised("idle_free_kib")),
    ("verdicts", "demand_unsatisfiable", lambda p: len(p.properties) > 0, lambda p: p.properties.append("zzz")),
    ("reports", "blobs_available", any_one, raised("mirror_pending")),
    ("confirmed", "endpoint_confirmed", any_one, raised("boot_epoch")),
    ("wiped", "locality_wiped", any_one, put("cause", lambda cause: cause % 3 + 1)),
    ("flaps", "worker_flapping", any_one, raised("changes")),
    ("stable", "blobs_stable", any_one, put("last", lambda value: not value)),
    ("stable", "stable_chunks_dropped", any_one, raised("chunks")),
    ("drained", "worker_drained", any_one, put("endpoint", lambda _: "w9")),
]  # fmt: skip


def of_rules(*rules: str) -> pytest.MarkDecorator:
    """The forgeries that these rules are to find."""
    chosen = [forgery for forgery in FORGERIES if forgery[0] in rules]
    ids = [f"{number}-{rule}-{kind}" for number, (rule, kind, *_) in enumerate(chosen)]
    return pytest.mark.parametrize(("rule", "kind", "where", "forge"), chosen, ids=ids)


def is_found(rule: str, kind: str, where: Pick, forge: Forge) -> None:
    """The forgery is found where it stands, and by its rule."""
    history, at = first(kind, where, histories())
    found = audit(forged(history, at, lambda messages, at: forge(getattr(messages[at], kind))))
    assert found.damage is None, "the chain of a forgery is whole"
    assert found.findings, f"nothing was found of the forged {kind}"
    assert (rule_of(found.findings[0]), found.findings[0].seq) == (rule, at + 1), told(found)[:3]


OF_HOLDS = ("hold_made", "hold_choice", "hold_moved", "hold_released", "hold_none", "held_room", "idle_cap")
OF_WORKERS = ("connected", "heard", "left", "drained", "killed", "settled", "timers", "silence", "verdicts")
OF_RUNS = ("current", "ended", "budgets", "overtook", "cancelled", "forgotten")
OF_ENTRIES = (
    "ignored",
    "rejected",
    "configured",
    "requirements",
    "admitted",
    "ordered",
    "joined",
    "clients",
    "answers",
)
OF_ENDPOINTS = ("reports", "confirmed", "wiped", "flaps", "stable", "recovered")


@of_rules(*OF_HOLDS)
def test_what_is_forged_of_a_hold_is_found(rule, kind, where, forge):
    is_found(rule, kind, where, forge)


@of_rules(*OF_WORKERS)
def test_what_is_forged_of_a_worker_is_found(rule, kind, where, forge):
    is_found(rule, kind, where, forge)


@of_rules(*OF_RUNS)
def test_what_is_forged_of_a_run_is_found(rule, kind, where, forge):
    is_found(rule, kind, where, forge)


@of_rules(*OF_ENTRIES)
def test_what_is_forged_of_an_entry_is_found(rule, kind, where, forge):
    is_found(rule, kind, where, forge)


@of_rules(*OF_ENDPOINTS)
def test_what_is_forged_of_an_endpoint_is_found(rule, kind, where, forge):
    is_found(rule, kind, where, forge)


def test_every_forgery_is_tried():
    tried = {*OF_HOLDS, *OF_WORKERS, *OF_RUNS, *OF_ENTRIES, *OF_ENDPOINTS}
    assert {rule for rule, *_ in FORGERIES} == tried


def dispatches(history: History) -> list[tuple[int, Any]]:
    return [
        (at, message.operation_dispatched)
        for at, message in enumerate(parsed(history))
        if message.WhichOneof("kind") == "operation_dispatched"
    ]


def test_a_dispatch_to_another_worker_than_the_strategys_is_found():
    history = holds()
    (at, _), (_, second) = dispatches(history)[:2]
    found = audit(forged(history, at, turned_to(second.endpoint, second.connection_id)))
    assert (rule_of(found.findings[0]), found.findings[0].seq) == ("strategy", at + 1), told(found)[:3]


@pytest.mark.parametrize("facts", [True, False])
def test_a_dispatch_out_of_order_is_found_without_facts_too(facts):
    """The operation that comes next is dispatched first."""
    for history in histories():
        pairs = zip(dispatches(history), dispatches(history)[1:], strict=False)
        for (at, one), (after, other) in pairs:
            if after == at + 1 and one.operation_id != other.operation_id:

                def swapped(messages: list[Any], at: int) -> None:
                    one, other = messages[at].operation_dispatched, messages[at + 1].operation_dispatched
                    one.operation_id, other.operation_id = other.operation_id, one.operation_id

                found = audit(forged(history, at, swapped), facts=facts)
                assert found.findings[0].seq == at + 1
                assert rule_of(found.findings[0]) in ("order", "capacity", "properties", "veto"), told(found)[:3]
                if rule_of(found.findings[0]) == "order":
                    return
    raise AssertionError("no two operations were dispatched by one fact")


def test_an_operation_that_runs_is_not_dispatched_again():
    history = holds()
    (_, running), (at, _) = dispatches(history)[:2]
    found = audit(
        forged(
            history,
            at,
            lambda messages, at: setattr(messages[at].operation_dispatched, "operation_id", running.operation_id),
        )
    )
    assert (rule_of(found.findings[0]), found.findings[0].seq) == ("queued", at + 1), told(found)[:3]


def full_worker(history: History) -> tuple[int, str, int]:
    """A dispatch that overtook, and a worker that had no room for it then: that of the dispatch before."""
    for (_, before), (at, p) in zip(dispatches(history), dispatches(history)[1:], strict=False):
        if p.HasField("overtook") and before.endpoint != p.endpoint:
            return at, before.endpoint, before.connection_id
    raise AssertionError("nothing overtook")


def test_a_dispatch_to_a_worker_without_room_is_found():
    history = holds()
    at, endpoint, connection_id = full_worker(history)
    found = audit(forged(history, at, turned_to(endpoint, connection_id)))
    assert found.findings[0].seq == at + 1
    assert rule_of(found.findings[0]) in ("capacity", "held_room"), told(found)[:3]


@pytest.mark.parametrize("shift", [1, -1])
def test_a_fact_at_another_time_is_found(shift):
    history = holds()
    at = next(at for at, message in enumerate(parsed(history)) if at > 500 and message.WhichOneof("kind") == "ticked")

    def forge(messages: list[Any], at: int) -> None:
        messages[at].at_us += shift

    found = audit(forged(history, at, forge))
    assert (rule_of(found.findings[0]), found.findings[0].seq) == ("time", at + 1), told(found)[:3]


def test_an_election_with_an_old_epoch_is_found():
    history = walked(1)
    at = [at for at, message in enumerate(parsed(history)) if message.WhichOneof("kind") == "leader_elected"][2]

    def forge(messages: list[Any], at: int) -> None:
        messages[at].leader_epoch -= 1

    found = audit(forged(history, at, forge))
    assert (rule_of(found.findings[0]), found.findings[0].seq) == ("leaders", at + 1), told(found)[:3]


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("operation_dispatched", "fixpoint"),
        ("hold_made", "hold_made"),
        ("worker_disconnected", "timers"),
        ("demand_unsatisfiable", "verdicts"),
    ],
)
def test_a_decision_that_was_left_out_is_found_where_it_is_due(kind, rule):
    history, at = first(kind, lambda p: kind != "worker_disconnected" or p.reason == 2, histories())
    found = audit(forged(history, at, left_out))
    assert (rule_of(found.findings[0]), found.findings[0].seq) in {(rule, at + 1), (rule, at)}, told(found)[:3]


def test_a_fact_without_events_is_found():
    history = walked(3)
    messages = parsed(history)
    at = next(at for at, message in enumerate(messages) if at > 100 and message.WhichOneof("kind") == "fact_ignored")
    alone = messages[at - 1].cause_offset != messages[at].cause_offset != messages[at + 1].cause_offset
    assert alone, "the walk's fact has one event"
    found = audit(forged(history, at, left_out))
    assert rule_of(found.findings[0]) == "answered", told(found)[:3]
    assert found.findings[0].cause_offset == messages[at].cause_offset


def test_a_decision_nobody_asked_for_is_found():
    history = holds()
    messages = parsed(history)
    at = next(at for at, message in enumerate(messages) if at > 500 and message.WhichOneof("kind") == "ticked")
    found = audit(forged(history, at, doubled))
    assert (rule_of(found.findings[0]), found.findings[0].seq) == ("surplus", at + 2), told(found)[:3]
