"""A shard's history as flat tables, for analysts: operations, dispatches, workers, holds, configurations, refusals, events.

A fold that keeps only what is not over yet: a row is given out once nothing more can come to it, so a history of any length goes through.
Columns are declared with what they mean; whoever writes files takes them from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from events import events as e
from events.jsonform import event_to_json
from events.payloads import requirements_of
from events.values import Properties
from projections.ending import exit_code_of

Kind = Literal["int", "text", "bool", "time", "pairs"]
"""`time` is microseconds since 1970 in UTC; `pairs` are names and values in order of names."""

Row = dict[str, Any]
Emit = Callable[[str, Row], None]
"""Takes the name of a table and a finished row of it; a column that is not in the row is null."""


class Column(NamedTuple):
    """One column: its name, what it holds and what that means."""

    name: str
    kind: Kind
    meaning: str


_SHARD = Column("shard", "int", "the partition of the event log")
_INSTANCE = Column("instance", "text", "scheduling domain")
_SIZES = (
    Column("cpu_millis", "int", "thousandths of cores; null where none are named"),
    Column("memory_kib", "int", "KiB of memory; null where none is named"),
)

TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "operations": (
        _SHARD,
        _INSTANCE,
        Column("operation_id", "int", "offset of the fact that created it"),
        Column("client_operation_id", "text", "the producer's name for it"),
        Column("client_id", "text", "who asked for it"),
        Column("invocation_id", "text", "the client's run it belongs to"),
        Column("target_id", "text", "what is built or tested"),
        Column("mnemonic", "text", "kind of action"),
        Column("priority", "int", "higher goes first; the last one it had"),
        *_SIZES,
        Column("requirements", "pairs", "everything it asks of a worker, after modifiers and escalations"),
        Column("cacheable", "bool", "whether its result may be reused"),
        Column("expected_duration_us", "int", "as its producer said; null: not said"),
        Column("queued_seq", "int", "seq of OperationQueued"),
        Column("queued_at", "time", "when it was queued, after clamping"),
        Column("first_dispatched_at", "time", "null: never"),
        Column("last_dispatched_at", "time", "null: never"),
        Column("finished_seq", "int", "seq of OperationFinished; null: it had not finished"),
        Column("finished_at", "time", "null: it had not finished"),
        Column("outcome", "text", "how it ended"),
        Column("exit_code", "int", "of a completed run; -N: killed by signal N; null: it has none"),
        Column("message", "text", "what was said of its end"),
        Column("endpoint", "text", "worker of its last dispatch"),
        Column("dispatches", "int", "runs that were begun"),
        Column("requeues", "int", "times it went back to the queue"),
        Column("overtaken", "int", "dispatches that named it as the first they went past"),
        Column("held_for", "int", "holds made for it"),
        Column("clients_joined", "int", "further clients that wait for the same run"),
        Column("forwarded_to", "text", "scheduler upstream that got it"),
        Column(
            "waiting_us", "int", "time it was not dispatched, all waits together; up to its end or its last dispatch"
        ),
        Column("dispatched_us", "int", "time it was dispatched, all runs together; runs that had not ended left out"),
        Column("usage_wall_us", "int", "of the last run, as measured; null: not measured"),
        Column("usage_cpu_us", "int", "as above"),
        Column("usage_peak_memory_kib", "int", "as above"),
    ),
    "dispatches": (
        _SHARD,
        _INSTANCE,
        Column("operation_id", "int", "whose run it is"),
        Column("dispatch_id", "int", "seq of OperationDispatched"),
        Column("endpoint", "text", "worker"),
        Column("connection_id", "text", "of the worker's connection; 64 bits without sign, so in text"),
        Column("dispatched_at", "time", "when it was placed"),
        Column("accepted_at", "time", "when the worker took it; null: it did not say so"),
        Column("ended_seq", "int", "seq of the event that ended it; null: it had not ended"),
        Column("ended_at", "time", "null: it had not ended"),
        Column("end", "text", "finished or requeued"),
        Column("reason", "text", "outcome of the operation, or cause of the requeue"),
        Column("wait_us", "int", "what the operation had waited, since it was queued or requeued last"),
        Column("dispatched_us", "int", "from placed to ended"),
        Column("backfilled", "bool", "placed beside a hold"),
        Column("overtook", "int", "first waiting operation it went past; null: none"),
        Column("saved_bytes", "int", "bytes of its inputs that its worker held"),
    ),
    "workers": (
        _SHARD,
        _INSTANCE,
        Column("endpoint", "text", "its name"),
        Column("boot_epoch", "text", "of its process; 64 bits without sign, so in text"),
        Column("connection_id", "text", "of this connection; as above"),
        *_SIZES,
        Column("properties", "pairs", "everything it declared"),
        Column("max_inflight", "int", "dispatches it takes at once; 0: no limit"),
        Column("build", "text", "its build"),
        Column("admitted_seq", "int", "seq of WorkerAdmitted"),
        Column("admitted_at", "time", "when it connected"),
        Column("ended_at", "time", "null: it was connected"),
        Column("reason", "text", "why it ended; replaced: the endpoint connected again"),
        Column("dispatches", "int", "what was placed on it in this connection"),
    ),
    "holds": (
        _SHARD,
        _INSTANCE,
        Column("operation_id", "int", "for whom"),
        Column("made_seq", "int", "seq of HoldMade"),
        Column("made_at", "time", "when"),
        Column("endpoint", "text", "worker that was held first"),
        Column("last_endpoint", "text", "worker that was held last"),
        Column("moves", "int", "times another worker was held instead"),
        Column("waited_us", "int", "what the operation had waited"),
        Column("overtaken_by", "int", "operation that went past; null: none"),
        Column("candidates", "int", "workers that could have been held"),
        Column("released_seq", "int", "seq of HoldReleased; null: it stood"),
        Column("released_at", "time", "null: it stood"),
        Column("reason", "text", "why it ended"),
        Column("held_us", "int", "how long it stood"),
    ),
    "configurations": (
        _SHARD,
        _INSTANCE,
        Column("seq", "int", "of Configured"),
        Column("at", "time", "from when on it is in force"),
        Column("config_json", "text", "the configuration"),
    ),
    "refusals": (
        _SHARD,
        _INSTANCE,
        Column("seq", "int", "of FactRejected or FactIgnored"),
        Column("at", "time", "when"),
        Column("kind", "text", "rejected or ignored"),
        Column("fact_kind", "text", "what was refused"),
        Column("fact_offset", "int", "where it stood"),
        Column("reason", "text", "why"),
        Column("key", "text", "client operation id or endpoint"),
    ),
    "events": (
        _SHARD,
        Column("seq", "int", "its number"),
        Column("at", "time", "the scheduler's now"),
        Column("fact_offset", "int", "of the fact that caused it"),
        Column("kind", "text", "its name"),
        Column("operation_id", "int", "null: it is of none"),
        Column("endpoint", "text", "null: it is of none"),
        Column("body_json", "text", "its fields, as `headway events tail -o json` prints them"),
    ),
}
"""Every table with its columns, in order."""


class Tabulation:
    """The tables of one shard. `take` every event in order from the first, then `finish`."""

    def __init__(self, shard: int, emit: Emit) -> None:
        self._shard = shard
        self._given = emit
        self._requirements: dict[int, Properties] = {}
        self._operations: dict[int, Row] = {}
        self._waiting_since_us: dict[int, int] = {}
        self._runs: dict[int, Row] = {}  # by dispatch_id
        self._workers: dict[tuple[str, str], Row] = {}
        self._holds: dict[str, Row] = {}

    def take(self, event: e.Event) -> None:
        """Fold one event."""
        self._note(event)
        match event:
            case e.RequirementDefined():
                self._requirements[event.requirement_id] = requirements_of(event.requirements)
            case e.OperationQueued():
                self._queue(event)
            case e.OperationReprioritised():
                self._operation(event.operation_id)["priority"] = event.priority
            case e.OperationJoined():
                self._operation(event.operation_id)["clients_joined"] += 1
            case e.OperationForwarded():
                self._operation(event.operation_id)["forwarded_to"] = event.upstream
            case e.OperationDispatched():
                self._dispatch(event)
            case e.OperationAccepted():
                self._runs[event.dispatch_id]["accepted_at"] = event.at_us
            case e.OperationRequeued():
                self._requeue(event)
            case e.OperationFinished():
                self._finish(event)
            case e.WorkerAdmitted():
                self._admit(event)
            case e.WorkerDisconnected():
                self._disconnect((event.instance, event.endpoint), event.at_us, _named(event.reason))
            case e.HoldMade():
                self._hold(event)
            case e.HoldMoved():
                hold = self._holds[event.instance]
                hold |= {"last_endpoint": event.to_endpoint, "moves": hold["moves"] + 1}
            case e.HoldReleased():
                self._release(event)
            case e.Configured():
                self._emit(
                    "configurations",
                    {
                        "instance": event.instance,
                        "seq": event.seq,
                        "at": event.at_us,
                        "config_json": event.config_json,
                    },
                )
            case e.FactRejected() | e.FactIgnored():
                self._refuse(event)

    def finish(self) -> None:
        """Give out what was not over at the end of the log, in the order in which it began."""
        for row in self._operations.values():
            self._emit("operations", row)
        for table, rows in (("dispatches", self._runs), ("workers", self._workers), ("holds", self._holds)):
            for row in rows.values():
                self._emit(table, row)
        self._operations, self._runs, self._workers, self._holds = {}, {}, {}, {}

    # -- one concern each -----------------------------------------------------------------------------------------------------

    def _note(self, event: e.Event) -> None:
        said = event_to_json(event)
        body = {name: value for name, value in said.items() if name not in ("seq", "at_us", "cause_offset", "kind")}
        self._emit(
            "events",
            {
                "seq": event.seq,
                "at": event.at_us,
                "fact_offset": event.cause_offset,
                "kind": type(event).__name__,
                "operation_id": getattr(event, "operation_id", None),
                "endpoint": getattr(event, "endpoint", None) or None,
                "body_json": json.dumps(body, separators=(",", ":")),
            },
        )

    def _queue(self, event: e.OperationQueued) -> None:
        self._waiting_since_us[event.operation_id] = event.queued_at_us or event.at_us
        self._operations[event.operation_id] = {
            "instance": event.instance,
            "operation_id": event.operation_id,
            "client_operation_id": event.client_operation_id,
            "client_id": event.client_id or None,
            "invocation_id": event.invocation_id or None,
            "target_id": event.target_id or None,
            "mnemonic": event.mnemonic or None,
            "priority": event.priority,
            **self._asked(event.requirement_id),
            "cacheable": event.cacheable,
            "expected_duration_us": event.expected_duration_us or None,
            "queued_seq": event.seq,
            "queued_at": event.queued_at_us or event.at_us,
            **dict.fromkeys(_COUNTS, 0),
        }

    def _asked(self, requirement_id: int) -> Row:
        return _sizes("requirements", self._requirements.get(requirement_id, ()))

    def _dispatch(self, event: e.OperationDispatched) -> None:
        operation = self._operation(event.operation_id)
        waited_us = event.at_us - self._waiting_since_us.pop(event.operation_id, event.at_us)
        operation.setdefault("first_dispatched_at", event.at_us)
        operation |= {
            "last_dispatched_at": event.at_us,
            "endpoint": event.endpoint,
            "dispatches": operation["dispatches"] + 1,
            "waiting_us": operation["waiting_us"] + waited_us,
        }
        if event.overtook is not None and event.overtook in self._operations:
            self._operations[event.overtook]["overtaken"] += 1
        worker = self._workers.get((operation["instance"], event.endpoint))
        if worker is not None:
            worker["dispatches"] += 1
        self._runs[event.dispatch_id] = {
            "instance": operation["instance"],
            "operation_id": event.operation_id,
            "dispatch_id": event.dispatch_id,
            "endpoint": event.endpoint,
            "connection_id": str(event.connection_id),
            "dispatched_at": event.at_us,
            "wait_us": waited_us,
            "backfilled": event.backfilled,
            "overtook": event.overtook,
            "saved_bytes": event.saved_bytes,
        }

    def _end_run(self, event: e.OperationRequeued | e.OperationFinished, end: str, reason: str | None) -> None:
        run = self._runs.pop(event.dispatch_id, None)
        if run is None:
            return  # it was not dispatched
        took_us = event.at_us - run["dispatched_at"]
        run |= {
            "ended_seq": event.seq,
            "ended_at": event.at_us,
            "end": end,
            "reason": reason,
            "dispatched_us": took_us,
        }
        self._operation(event.operation_id)["dispatched_us"] += took_us
        self._emit("dispatches", run)

    def _requeue(self, event: e.OperationRequeued) -> None:
        self._end_run(event, "requeued", _named(event.cause))
        operation = self._operation(event.operation_id)
        operation["requeues"] += 1
        if event.requirement_id:
            operation |= self._asked(event.requirement_id)
        self._waiting_since_us[event.operation_id] = event.at_us

    def _finish(self, event: e.OperationFinished) -> None:
        self._end_run(event, "finished", _named(event.outcome))
        operation = self._operation(event.operation_id)
        since_us = self._waiting_since_us.pop(event.operation_id, event.at_us)
        usage = event.usage
        operation |= {
            "finished_seq": event.seq,
            "finished_at": event.at_us,
            "outcome": _named(event.outcome),
            "exit_code": exit_code_of(event.outcome, event.exit_code),
            "message": event.message or None,
            "waiting_us": operation["waiting_us"] + event.at_us - since_us,
            "usage_wall_us": usage.wall_us or None,
            "usage_cpu_us": usage.cpu_us or None,
            "usage_peak_memory_kib": usage.peak_memory_kib or None,
        }
        self._emit("operations", self._operations.pop(event.operation_id))

    def _admit(self, event: e.WorkerAdmitted) -> None:
        at = (event.instance, event.endpoint)
        self._disconnect(at, event.at_us, "replaced")
        self._workers[at] = {
            "instance": event.instance,
            "endpoint": event.endpoint,
            "boot_epoch": str(event.boot_epoch),
            "connection_id": str(event.connection_id),
            **_sizes("properties", event.properties),
            "max_inflight": event.max_inflight,
            "build": event.build or None,
            "admitted_seq": event.seq,
            "admitted_at": event.at_us,
            "dispatches": 0,
        }

    def _disconnect(self, at: tuple[str, str], at_us: int, reason: str | None) -> None:
        worker = self._workers.pop(at, None)
        if worker is not None:
            self._emit("workers", worker | {"ended_at": at_us, "reason": reason})

    def _hold(self, event: e.HoldMade) -> None:
        self._operation(event.operation_id)["held_for"] += 1
        self._holds[event.instance] = {
            "instance": event.instance,
            "operation_id": event.operation_id,
            "made_seq": event.seq,
            "made_at": event.at_us,
            "endpoint": event.endpoint,
            "last_endpoint": event.endpoint,
            "moves": 0,
            "waited_us": event.waited_us,
            "overtaken_by": event.overtaken_by,
            "candidates": len(event.candidates) + event.more_candidates,
        }

    def _release(self, event: e.HoldReleased) -> None:
        ended = {
            "released_seq": event.seq,
            "released_at": event.at_us,
            "reason": _named(event.reason),
            "held_us": event.held_us,
        }
        self._emit("holds", self._holds.pop(event.instance) | ended)

    def _refuse(self, event: e.FactRejected | e.FactIgnored) -> None:
        refused = {
            "instance": event.instance or None,
            "seq": event.seq,
            "at": event.at_us,
            "kind": "rejected" if isinstance(event, e.FactRejected) else "ignored",
            "fact_kind": event.fact_kind,
            "fact_offset": event.cause_offset,
            "reason": _named(event.reason),
            "key": event.key or None,
        }
        self._emit("refusals", refused)

    def _operation(self, operation_id: int) -> Row:
        return self._operations[operation_id]

    def _emit(self, table: str, row: Row) -> None:
        self._given(table, {"shard": self._shard, **row})


_COUNTS = (
    "dispatches",
    "requeues",
    "overtaken",
    "held_for",
    "clients_joined",
    "waiting_us",
    "dispatched_us",
)


def _named(reason: Any) -> str | None:
    """A reason by its name in lower case; None where there is none."""
    return reason.name.lower() if reason else None


def _sizes(name: str, properties: Properties) -> Row:
    """Properties under `name`, and the two amounts of them that everybody asks about."""
    found = dict(properties)
    return {
        name: list(properties),
        **{
            amount: int(found[amount]) if _is_whole(found.get(amount)) else None
            for amount in ("cpu_millis", "memory_kib")
        },
    }


def _is_whole(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdigit() and len(text) < 19
