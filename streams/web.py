"""The views: what the state table answers over HTTP, on loopback, as JSON. Used by the command line and the console.

    GET /healthz                          200 when the table is complete, else 503 with the reason and how far it is
    GET /v1/status                        positions, leaders, lag and counts of every shard; the process
    GET /v1/queue                         ?instance=&limit=                      what waits, in dispatch order
    GET /v1/operations                    ?stage=&instance=&client_id=&mnemonic=&after=&limit=
    GET /v1/operations/ID                 ?instance=     by client_operation_id, INSTANCE/op-N, op-N or N; with command and output
    GET /v1/workers                       ?instance=     the fleet and its ledger
    GET /v1/instances                     ?instance=     configuration and counts
    GET /v1/holds                         ?instance=     who is held for whom, at most one per instance
    GET /v1/explain/operation/ID          ?instance=     why it is where it is: what it lacks, where, who is ahead, who is held
    GET /v1/explain/hold                  ?name=&instance=    the hold by its operation, worker or instance, or why there is none
    GET /v1/story/...                     what happened to an operation, hold or worker: `streams/story_views.py`
    GET /locality/...                     what endpoints hold: `streams/locality_views.py`
    GET /v1/rows                          ?shard=&after=&limit=&snapshot=        raw rows as hex, page by page, all of one moment

All but `/healthz`, `/v1/status`, `/v1/rows` and `/locality` take `at=SEQ` or `at=TIME` (ISO 8601; UTC where it has no offset) and then
answer as of that event, or of the last one at or before that time, from the log. A seq is of one shard: where there are several,
`instance` or `shard` says which. Such an answer has `as_of`: shard, seq and at_us of each that it is from.

Every answer carries `shards` (shard, seq, age_ms of each that answered), and `seq` and `age_ms`: the highest of these. `age_ms` is the
wall clock minus the scheduler's now: an answer of a log that nobody decides on grows old. Lists end with `more`: true when `limit` cut
them. An error is `{"error": code, "message": ..., "remedy": ...}` with status 400, 404 or 503.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from aiohttp import web

from projections import answers, fleet, keys
from projections.explain import explain_hold, explain_operation
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, OperationRow
from streams.answering import Answer, Refused, View, WaitingView, answering, hex_of, limit_of, number_of, text_of
from streams.locality_views import LocalityViews
from streams.moments import BadMoment, Moment, parse_moment
from streams.read_side import Reading, ReadSide, age_ms, not_ready, stamp_of
from streams.story_views import StoryViews
from streams.time_travel import Past

COUNTS: Final = ("queued", "executing", "finished", "workers", "dispatches")
"""What the status of a shard counts; null until it is complete."""

TableView = Callable[[web.Request, list[Table]], Answer]
"""A view of rows: of those of now, or of a moment."""

SNAPSHOTS_KEPT: Final = 4
SNAPSHOT_US: Final = 120_000_000
MOST_PAGE_BYTES: Final = 4 << 20  # of rows in one answer: some rows list thousands of blobs
"""A snapshot nobody has asked a page of for this long is let go: it keeps old rows on the disk."""


class Views:
    """The views of one read side. `clock_us` is the wall clock, microseconds since 1970; `past` answers what has `at`."""

    def __init__(self, read_side: ReadSide, *, clock_us: Callable[[], int], past: Past | None = None) -> None:
        self._read_side = read_side
        self._past = past
        self._clock_us = clock_us
        self._snapshots: dict[str, tuple[Reading, int]] = {}
        self._numbers = itertools.count(1)

    def add_to(self, application: web.Application) -> None:
        """Serve the views from an aiohttp application."""
        always: dict[str, View] = {"/healthz": self._health, "/v1/status": self._status}
        of_a_moment: dict[str, TableView] = {
            "/v1/queue": self._queue,
            "/v1/operations": self._operations,
            "/v1/operations/{name:.+}": self._operation,
            "/v1/workers": self._workers,
            "/v1/instances": self._instances,
            "/v1/holds": self._holds,
            "/v1/explain/operation/{name:.+}": self._explain_operation,
            "/v1/explain/hold": self._explain_hold,
        }
        for path, view in always.items():
            application.router.add_get(path, answering(view))
        for path, tabled in of_a_moment.items():
            application.router.add_get(path, answering(self._when_complete(self._at(tabled))))
        application.router.add_get("/v1/rows", answering(self._when_complete(self._rows)))
        StoryViews(self._read_side, self._past).add_to(application)
        LocalityViews(self._read_side, clock_us=self._clock_us).add_to(application)

    def _when_complete(self, view: WaitingView) -> WaitingView:
        """The view behind the gate: half a queue is a wrong answer."""

        def answer(request: web.Request) -> Answer | Awaitable[Answer]:
            if not self._read_side.gate.is_open:
                raise not_ready(self._read_side)
            return view(request)

        return answer

    def _at(self, view: TableView) -> WaitingView:
        """The view of the present, or of the moment that `at` names."""

        def answer(request: web.Request) -> Answer | Awaitable[Answer]:
            tables = self._present()
            asked = text_of(request, "at")
            if asked is None:
                return view(request, tables)
            if self._past is None:
                raise Refused(501, "no-past", "this read side keeps no past", "Only `headway state-table run` does")
            try:
                moment = parse_moment(asked)
            except BadMoment as error:
                raise Refused(400, error.code, error.message, error.remedy) from error
            shards = [table.number for table in self._of_seq(request, tables, moment)]
            return self._past.answered(shards, moment, lambda then: view(request, then))

        return answer

    def _of_seq(self, request: web.Request, tables: list[Table], moment: Moment) -> list[Table]:
        """The shards that a moment is of. Raises Refused where a seq could be of several."""
        shard = text_of(request, "shard")
        if shard is not None:
            tables = [table for table in tables if table.number == number_of(request, "shard", 0)]
        elif len(tables) > 1 and moment.at_us is None:
            tables = self._of_instance(tables, text_of(request, "instance"))
        if len(tables) == 1 or (tables and moment.at_us is not None):
            return tables
        known = ", ".join(map(str, self._read_side.shards()))
        message = f"at={moment.seq} is of one shard; shards here: {known}"
        raise Refused(400, "bad-request", message, "Say which: shard=N or instance=NAME; or give a time")

    # -- one view each ------------------------------------------------------------------------------------------------------

    def _health(self, request: web.Request) -> Answer:
        if self._read_side.not_ready():
            raise not_ready(self._read_side)
        return {"ready": True, "since_us": self._read_side.began_us(), **self._stamp(self._present())}

    def _status(self, request: web.Request) -> Answer:
        described = self._read_side.describe_shards()
        states = []
        for shard, reading in sorted(described.items()):
            table = Table(self._read_side.rows, shard)
            state = answers.state(table)
            if not reading["caught_up"]:
                state |= dict.fromkeys(COUNTS)
            states.append({**state, "age_ms": age_ms(table, self._clock_us()), **reading})
        why = self._read_side.not_ready()
        return {
            "ready": not why,
            "not_ready": why or None,
            "since_us": self._read_side.began_us(),
            "progress": [progress.as_dict() for progress in self._read_side.progress()],
            "seq": max((state["seq"] for state in states), default=0),
            "age_ms": max((state["age_ms"] for state in states), default=0),
            "shards": states,
            "process": self._read_side.describe(),
        }

    def _queue(self, request: web.Request, tables: list[Table]) -> Answer:
        instance, limit = text_of(request, "instance"), limit_of(request)
        tables = self._of_instance(tables, instance)
        return self._listed("operations", tables, (answers.queue(table, instance) for table in tables), limit)

    def _operations(self, request: web.Request, tables: list[Table]) -> Answer:
        instance, limit, stage = text_of(request, "instance"), limit_of(request), text_of(request, "stage")
        if stage is not None and stage not in answers.STAGES.values():
            rule = f"stage is one of {', '.join(answers.STAGES.values())}"
            raise Refused(400, "bad-request", f"stage={stage!r} is refused: {rule}", "Correct the parameter")
        after = number_of(request, "after", -1)
        wanted = {name: text_of(request, name) for name in ("client_id", "mnemonic")}
        tables = self._of_instance(tables, instance)
        if after >= 0 and (stage is not None or len(tables) > 1):
            # Ids grow within a shard, and only the list of all stages is in their order.
            message = "after goes with the operations of one instance and all stages"
            raise Refused(400, "bad-request", message, "Give instance, and leave stage out")
        found = (
            (
                operation
                for operation in answers.operations(table, stage=stage, instance=instance, after=after)
                if all(value is None or operation[name] == value for name, value in wanted.items())
            )
            for table in tables
        )
        return self._listed("operations", tables, found, limit)

    def _operation(self, request: web.Request, tables: list[Table]) -> Answer:
        tables = self._of_instance(tables, text_of(request, "instance"))
        table, row = self._found(request, tables)
        return {"operation": answers.operation_in_full(table, row), **self._stamp(tables)}

    def _workers(self, request: web.Request, tables: list[Table]) -> Answer:
        instance = text_of(request, "instance")
        tables = self._of_instance(tables, instance)
        found = [worker for table in tables for worker in fleet.workers(table, instance)]
        return {"workers": found, "more": False, **self._stamp(tables)}

    def _instances(self, request: web.Request, tables: list[Table]) -> Answer:
        instance = text_of(request, "instance")
        tables = self._of_instance(tables, instance)
        found = [row for table in tables for row in answers.instances(table, instance)]
        return {"instances": found, "more": False, **self._stamp(tables)}

    def _holds(self, request: web.Request, tables: list[Table]) -> Answer:
        instance = text_of(request, "instance")
        tables = self._of_instance(tables, instance)
        found = [hold for table in tables for hold in answers.holds(table, instance)]
        return {"holds": found, "more": False, **self._stamp(tables)}

    def _explain_operation(self, request: web.Request, tables: list[Table]) -> Answer:
        tables = self._of_instance(tables, text_of(request, "instance"))
        table, row = self._found(request, tables)
        return {**explain_operation(table, row), **self._stamp([table])}

    def _explain_hold(self, request: web.Request, tables: list[Table]) -> Answer:
        name, instance = text_of(request, "name"), text_of(request, "instance")
        tables = self._of_instance(tables, instance)
        table, row, asked = _holder(tables, name, instance)
        return {**explain_hold(table, row, asked), **self._stamp([table])}

    def _rows(self, request: web.Request) -> Answer:
        shard, limit = number_of(request, "shard", 0), limit_of(request)
        if shard not in self._read_side.shards():
            known = ", ".join(map(str, self._read_side.shards())) or "none"
            raise Refused(
                404, "not-found", f"shard {shard} is not answered for here (shards: {known})", "Ask its own process"
            )
        name = text_of(request, "snapshot")
        reading = self._snapshot(name) if name else self._read_side.snapshot()
        name = name or str(next(self._numbers))
        self._snapshots[name] = (reading, self._clock_us())
        self._let_go()
        prefix = keys.shard_prefix(shard)
        after = hex_of(request, "after")
        start = after + b"\x00" if after else prefix
        page, more = _page(reading.scan(start, keys.after_prefix(prefix)), limit)
        if not more:
            del self._snapshots[name]
        rows = [[key.hex(), value.hex()] for key, value in page]
        seq = Table(_Fixed(reading), shard).shard.seq
        return {"shard": shard, "seq": seq, "rows": rows, "more": more, "snapshot": name if more else None}

    # -- what they share ----------------------------------------------------------------------------------------------------

    def _found(self, request: web.Request, tables: list[Table]) -> tuple[Table, OperationRow]:
        name, instance = request.match_info["name"], text_of(request, "instance")
        for table in tables:
            row = answers.lookup(table, name, instance)
            if row is not None:
                return table, row
        raise Refused(
            404,
            "not-found",
            f"operation {name!r} is not in the state table",
            "It may be forgotten (retain_completed_for_s after its end); `headway events tail` still has its events",
        )

    def _present(self) -> list[Table]:
        """The rows of every shard as they are now. Raises Refused."""
        shards = self._read_side.shards()
        if not shards:
            raise not_ready(self._read_side)
        # Their own tables: what a view reads is not to fill the caches of the fold, nor to be changed under it.
        return [Table(self._read_side.rows, shard) for shard in shards]

    def _of_instance(self, tables: list[Table], instance: str | None) -> list[Table]:
        """Those that hold an instance; all without one. Raises Refused."""
        if instance is None:
            return tables
        holding = [table for table in tables if any(fleet.instance_rows(table, instance))]
        if not holding:
            if self._read_side.progress():  # a shard that has just come here may know it
                raise not_ready(self._read_side)
            known = sorted(row.name for table in tables for row in fleet.instance_rows(table))
            raise Refused(
                404,
                "unknown-instance",
                f"unknown instance {instance!r}; known instances: {', '.join(known) or 'none'}",
                "Use a known one, or configure it with `headway topics apply --instance NAME`",
            )
        return holding

    def _listed(self, name: str, tables: list[Table], found: Iterable[Iterable[Answer]], limit: int) -> Answer:
        rows = list(itertools.islice(itertools.chain.from_iterable(found), limit + 1))
        return {name: rows[:limit], "more": len(rows) > limit, **self._stamp(tables)}

    def _stamp(self, tables: Sequence[Table]) -> Answer:
        return stamp_of(tables, self._clock_us())

    def _snapshot(self, name: str) -> Reading:
        kept = self._snapshots.get(name)
        if kept is None:
            raise Refused(404, "not-found", f"snapshot {name!r} is gone", "Begin again with the first page")
        return kept[0]

    def _let_go(self) -> None:
        before_us = self._clock_us() - SNAPSHOT_US
        for name in [name for name, (_, asked_at_us) in self._snapshots.items() if asked_at_us < before_us]:
            del self._snapshots[name]
        while len(self._snapshots) > SNAPSHOTS_KEPT:
            del self._snapshots[min(self._snapshots, key=lambda name: self._snapshots[name][1])]


def _holder(
    tables: list[Table], name: str | None, instance: str | None
) -> tuple[Table, InstanceRow, OperationRow | None]:
    """Whose hold is asked for: the instance, and the operation where `name` is one; else it names a held worker or an instance."""
    known = [(table, row) for table in tables for row in fleet.instance_rows(table, instance)]
    if name is None:
        if len(known) == 1:
            return *known[0], None
        message = f"there are {len(known)} instances: {', '.join(row.name for _, row in known) or 'none'}"
        raise Refused(400, "bad-request", message, "Say which: instance=NAME")
    for table in tables:
        operation = answers.lookup(table, name, instance)
        if operation is not None:
            return table, next(fleet.instance_rows(table, operation.instance)), operation
    for table, row in known:
        if row.name == name or (row.HasField("hold") and row.hold.endpoint == name):
            return table, row, None
    held = [
        f"{row.hold.endpoint} for {row.name}/op-{row.hold.operation_id}" for _, row in known if row.HasField("hold")
    ]
    raise Refused(
        404,
        "not-found",
        f"{name!r} is no operation in the state table, no held worker and no instance; held: {', '.join(held) or 'nobody'}",
        "`headway hold list` shows every hold",
    )


def _page(found: Iterator[tuple[bytes, bytes]], limit: int) -> tuple[list[tuple[bytes, bytes]], bool]:
    """The first rows: at most `limit`, and no more once they have MOST_PAGE_BYTES; and whether there are more."""
    page: list[tuple[bytes, bytes]] = []
    size = 0
    for row in found:
        if len(page) == limit or size >= MOST_PAGE_BYTES:
            return page, True
        page.append(row)
        size += len(row[1])
    return page, False


class _Fixed:
    """Rows that cannot be written: a snapshot behind the `Rows` protocol."""

    def __init__(self, reading: Reading) -> None:
        self.get, self.scan = reading.get, reading.scan

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Rows.get_many`."""
        return [self.get(key) for key in keys]

    def write(self, changes: object) -> None:
        """Never."""
        raise TypeError("a snapshot cannot be written")
