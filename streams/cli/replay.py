"""`headway replay`: folds the event log, all of it or a range; with `--check` holds the state table against it, row by row; with `--at`
gives the state at a moment."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from projections import keys
from projections.rows import MemoryRows
from projections.shard_state import ShardState
from projections.table import Table
from proto.gen.headway.v1 import rows_pb2
from streams.cli.main import CHECK_FAILED
from streams.cli.moments import MOMENT
from streams.cli.output import Column, emit, note, output_option, progress
from streams.cli.replay_range import print_range, replay_range
from streams.cli.source import check_foldable, file_option, opened, shards_in
from streams.cli.state_then import Narrowed, print_state, state_then
from streams.errors import NoSuchPartition, NoSuchTopic
from streams.log import Log
from streams.moments import Moment
from streams.place import place_of
from streams.replay import AnotherLog, Replayed, another_log, compare, replay
from streams.settings import Settings, load_settings
from streams.snapshots.checking import CheckpointHeld, checkpoints_held
from streams.store import Store
from streams.topics import EVENTS
from streams.views import Views, ViewsUnreachable

PAGE = 5_000
ANOTHER_LOG_REMEDY = (
    "Name the cluster and topic prefix that the table was folded from (HEADWAY_BOOTSTRAP_SERVERS, HEADWAY_TOPIC_PREFIX), or its "
    "own table (HEADWAY_VIEWS_URL, --data-dir); `headway state-table run` drops a table of another log and folds its own"
)

MESSAGES: dict[bytes, type[Any]] = {
    keys.SHARD: rows_pb2.ShardRow,
    keys.COUNTER: rows_pb2.CounterRow,
    keys.INSTANCE: rows_pb2.InstanceRow,
    keys.OPERATION: rows_pb2.OperationRow,
    keys.WORKER: rows_pb2.WorkerRow,
}


@click.command("replay")
@click.option("--shard", "shards", multiple=True, type=click.IntRange(min=0), help="Only this one [default: all].")
@click.option("--check", is_flag=True, help="Compare with the state table, row by row, at the position it stands at.")
@click.option(
    "--checkpoints",
    is_flag=True,
    help="Fold what deciders hold, too, and compare it at every checkpoint that the log records.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The table's directory, read when its process does not answer [default: that of `state-table run`].",
)
@click.option("--from", "begin", type=MOMENT, help="Only from this event, or the first one at or after this time, on.")
@click.option("--to", "end", type=MOMENT, help="Only up to this event, or the last one at or before this time.")
@click.option("--at", type=MOMENT, help="The state as of this event, or of the last one at or before this time.")
@click.option("--instance", metavar="NAME", help="With --at: only of this instance.")
@click.option("--operation", metavar="OPERATION", help="With --at: only this operation, in full.")
@click.option("--worker", metavar="ENDPOINT", help="With --at: only this worker.")
@click.option("--queue", is_flag=True, help="With --at: only what waited.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="With --at: rows of each list; JSON has all.",
)
@file_option
@output_option
def command(
    shards: tuple[int, ...],
    check: bool,
    checkpoints: bool,
    data_dir: Path | None,
    begin: Moment | None,
    end: Moment | None,
    at: Moment | None,
    instance: str | None,
    operation: str | None,
    worker: str | None,
    queue: bool,
    limit: int,
    file: Path | None,
    output: str,
) -> None:
    """Fold the event log of each shard from its beginning, from the log alone.

    Says how many events there are, how fast they were folded, whether `seq` has gaps and whether the chain of digests is whole. Exit
    code 3 when the log is damaged, when with --check the table differs from the replay, or when with --checkpoints a state differs from the
    one that two followers agreed on.

    With --from and --to it does so for a range, and says which events it holds and what stood at its two ends. With --at it gives the
    queue, the fleet and the holds of a moment. Both go through an index of the log in HEADWAY_HOME, made at the first time. A moment is
    the seq of an event or a time as ISO 8601 writes it, in UTC where it has no offset; the seq of an event is of one shard: give --shard
    where there are several.
    """
    narrowed = Narrowed(instance, operation, worker, queue)
    if checkpoints and (at is not None or begin is not None or end is not None):
        raise click.UsageError("--checkpoints compares the whole log, which goes with neither --at, --from nor --to")
    if at is not None and (begin is not None or end is not None or check):
        raise click.UsageError("--at names one moment; it goes with neither --from, --to nor --check")
    if at is None and narrowed != Narrowed():
        raise click.UsageError("--instance, --operation, --worker and --queue narrow the state of a moment: give --at")
    if (begin is not None or end is not None) and check:
        raise click.UsageError("--check compares the whole table, which goes with neither --from nor --to")
    if file is not None and check:
        raise click.UsageError(
            "--check compares the log with the table that was folded from it; an export (--file) has none"
        )
    if at is not None:
        asyncio.run(_at(shards, at, narrowed, limit, file, output))
    elif begin is not None or end is not None:
        asyncio.run(_range(shards, begin, end, file, output))
    else:
        asyncio.run(_replay(shards, check, checkpoints, data_dir, file, output))


async def _at(
    shards: tuple[int, ...], at: Moment, narrowed: Narrowed, limit: int, file: Path | None, output: str
) -> None:
    settings = load_settings()
    async with opened(settings, file, client_id="headway-replay") as log:
        wanted = await _of_moments(log, shards, at)
        found = [await state_then(settings, log, shard, at, narrowed) for shard in wanted]
    if output == "json":
        emit({"shards": found}, output)
        return
    for answer in found:
        print_state(answer, limit)


async def _range(
    shards: tuple[int, ...], begin: Moment | None, end: Moment | None, file: Path | None, output: str
) -> None:
    settings = load_settings()
    async with opened(settings, file, client_id="headway-replay") as log:
        wanted = await _of_moments(log, shards, begin, end)
        found = [await replay_range(settings, log, shard, begin, end) for shard in wanted]
    if output == "json":
        emit({"shards": found}, output)
    else:
        for report in found:
            print_range(report)
    if any(report["damage"] for report in found):
        sys.exit(CHECK_FAILED)


async def _of_moments(log: Log, shards: tuple[int, ...], *moments: Moment | None) -> tuple[int, ...]:
    """The shards that moments are of. Raises a usage error where a seq is given and there are several."""
    wanted = shards or await shards_in(log)
    if len(wanted) > 1 and any(moment is not None and moment.seq is not None for moment in moments):
        raise click.UsageError(
            f"a seq is of one shard, and there are {len(wanted)}: say which with --shard, or give a time"
        )
    return wanted


async def _replay(
    shards: tuple[int, ...], check: bool, checkpoints: bool, data_dir: Path | None, file: Path | None, output: str
) -> None:
    settings = load_settings()
    reports: list[dict[str, Any]] = []
    async with opened(settings, file, client_id="headway-replay") as log:
        wanted = shards or await shards_in(log)
        for shard in wanted:
            check_foldable(log, shard)
            rows = _table_rows(settings, data_dir, shard) if check else None
            until = None if rows is None else _position(rows, shard).next_offset
            replayed = await _with_progress(log, shard, until)
            report = _report(replayed)
            if rows is not None:
                report |= await _checked(log, replayed, rows)
            if checkpoints:
                end = replayed.end_offset if replayed.damage is None else replayed.damage.offset
                report["checkpoints"] = [_checkpoint(held) for held in await checkpoints_held(log, shard, end)]
            reports.append(report)
    _print(reports, check, output)
    if any(report["damage"] or not report.get("equal", True) or _differing(report) for report in reports):
        sys.exit(CHECK_FAILED)


def _checkpoint(held: CheckpointHeld) -> dict[str, Any]:
    return {
        "seq": held.seq,
        "state_digest": held.recorded.hex(),
        "replayed": None if held.found is None else held.found.hex(),
        "standing": "another format" if held.found is None else "differs" if held.differs else "matches",
    }


def _differing(report: Mapping[str, Any]) -> bool:
    return any(held["standing"] == "differs" for held in report.get("checkpoints", ()))


async def _checked(log: Log, replayed: Replayed, rows: Mapping[bytes, bytes]) -> dict[str, Any]:
    """What a report says of the table with these rows."""
    table = _position(rows, replayed.shard)
    other = await another_log(log, table, replayed.table.shard)
    if other is not None:
        # Every row would differ, and none of the differences says anything.
        return {
            "table_seq": table.seq,
            "another_log": _other_shown(other),
            "rows": None,
            "differing": None,
            "equal": False,
            "differences": [],
        }
    held = replayed.table.rows
    assert isinstance(held, MemoryRows)
    # A table that nothing was folded into yet has no rows at all; the replay of nothing has its position.
    comparison = compare(held.by_key if table.seq or replayed.seq else {}, rows)
    return {
        "table_seq": table.seq,
        "another_log": None,
        "rows": comparison.rows,
        "differing": comparison.differing,
        "equal": comparison.equal,
        "differences": [_difference(*difference) for difference in comparison.first],
    }


def _other_shown(other: AnotherLog) -> dict[str, str]:
    return {"what": other.what, "table": other.in_table, "log": other.in_log, "message": str(other)}


async def _with_progress(log: Log, shard: int, until: int | None) -> Replayed:
    topics = await log.describe_topics()
    if EVENTS not in topics:
        raise NoSuchTopic(EVENTS, topics)
    if shard >= topics[EVENTS].partitions:
        raise NoSuchPartition((EVENTS, shard), topics[EVENTS].partitions)
    follower = await log.follow({(EVENTS, shard): None})
    try:
        end = await follower.end_offset((EVENTS, shard)) if until is None else until
    finally:
        await follower.close()
    with progress(f"replaying shard {shard}", end) as advance:
        return await replay(log, shard, until_offset=until, progress=advance)


def _table_rows(settings: Settings, data_dir: Path | None, shard: int) -> dict[bytes, bytes]:
    """Every row of the table: from its process, else from its directory."""
    views = Views(settings.views_address, timeout_s=60.0)
    rows: dict[bytes, bytes] = {}
    after = snapshot = None
    try:
        while True:
            page = views.get("/v1/rows", shard=shard, after=after, snapshot=snapshot, limit=PAGE)
            rows.update((bytes.fromhex(key), bytes.fromhex(value)) for key, value in page["rows"])
            if not page["more"]:
                return rows
            after, snapshot = page["rows"][-1][0], page["snapshot"]
    except ViewsUnreachable:
        directory = place_of(settings, data_dir).data_dir
        store = Store.read_only(directory)
    note(f"the read side does not answer at {settings.views_address}; reading its table in {directory}")
    try:
        prefix = keys.shard_prefix(shard)
        return dict(store.scan(prefix, keys.after_prefix(prefix)))
    finally:
        store.close()


def _position(rows: Mapping[bytes, bytes], shard: int) -> ShardState:
    held = MemoryRows()
    held.write(rows)
    return Table(held, shard).shard


def _report(replayed: Replayed) -> dict[str, Any]:
    row = replayed.table.shard
    damage = replayed.damage
    return {
        "shard": replayed.shard,
        "seq": replayed.seq,
        "events": replayed.events,
        "gaps": replayed.gaps,
        "chain_ok": damage is None,
        "chain": row.chain.hex(),
        "damage": None
        if damage is None
        else {"offset": damage.offset, "after_seq": damage.seq, "code": damage.code, "message": str(damage)},
        "leader_epochs": [{"leader_epoch": epoch, "from_seq": seq} for epoch, seq in replayed.leaders],
        "stale_events": row.stale_events,
        "first_offset": replayed.first_offset,
        "end_offset": replayed.end_offset,
        "seconds": round(replayed.seconds, 3),
        "events_per_s": replayed.events_per_s,
    }


def _difference(key: bytes, in_replay: bytes | None, in_table: bytes | None) -> dict[str, Any]:
    return {
        "key": key.hex(),
        "row": keys.readable(key),
        "replay": _row_shown(key, in_replay),
        "table": _row_shown(key, in_table),
    }


def _row_shown(key: bytes, value: bytes | None) -> str | None:
    if value is None:
        return None
    message = MESSAGES.get(key[4:5])
    if message is None:
        return value.hex()
    return " ".join(str(message.FromString(value)).split())


def _print(reports: list[dict[str, Any]], check: bool, output: str) -> None:
    if output == "json":
        answer: dict[str, Any] = {"shards": reports}
        if check:
            answer["table_equals_replay"] = all(report["equal"] and not report["damage"] for report in reports)
        emit(answer, output)
        return
    columns: list[Column | str] = [
        Column("shard", align="right"),
        Column("seq", align="right"),
        Column("events", align="right"),
        Column("events_per_s", "events/s", "right"),
        Column("gaps", align="right"),
        Column("chain_ok", "chain whole"),
        Column("leader_epochs", "leaders", "right", lambda epochs: str(len(epochs))),
    ]
    if check:
        columns += [Column("rows", align="right"), Column("differing", align="right"), Column("equal", "table equal")]
    emit(reports, output, columns)
    for report in reports:
        for held in report.get("checkpoints", ()):
            replayed = f", replayed is {held['replayed']}" if held["standing"] == "differs" else ""
            said = f"{held['standing']} ({held['state_digest']}{replayed})"
            click.echo(f"shard {report['shard']}: checkpoint at event {held['seq']}: {said}")
        if report["damage"]:
            note(f"shard {report['shard']}: {report['damage']['message']}")
        if report.get("another_log"):
            note(f"shard {report['shard']}: {report['another_log']['message']}\n  {ANOTHER_LOG_REMEDY}")
        for difference in report.get("differences", ()):
            note(f"{difference['row']}\n  replay: {difference['replay']}\n  table:  {difference['table']}")
