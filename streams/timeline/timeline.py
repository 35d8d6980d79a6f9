"""`Timeline`: what was, of one shard, from an index on a disk that is brought up to the end of the log when it is opened.

    directory/
      lock, damaged, rows/     as every store has them (`streams/store.py`)

It is bound to the identity of a log: a store of another log, of another format, or whose last event the log has with another chain is
dropped and made again; `rebuilt` says why. Damage in the log ends it there: `damage` says where, and everything before is answered.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from events.codec import chain_of, decode_event, envelope_of
from events.errors import HeadwayError
from events.events import OperationDispatched
from projections import keys
from projections.keys import number
from projections.position import take
from projections.story.history import Overtaking, RunTold, Told
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import WorkerRow
from streams.errors import LogUnavailable, OffsetPastEnd, OffsetTrimmed
from streams.log import Follower, Log, Partition
from streams.moments import Moment, NoSuchMoment
from streams.recovery import DamagedLog, without_collection
from streams.store import FORMAT, Store, StoreLocked
from streams.timeline import layout
from streams.timeline.building import BOUNDARY_EVENTS, EPOCH_BYTES, Builder
from streams.timeline.rows_then import RowsThen
from streams.topics import EVENTS
from streams.uncommitted import UncommittedRows

TIMELINE_FORMAT: Final = 1
"""Raised whenever the layout or what is told of an event changes."""

BATCH_RECORDS: Final = 5_000
SLICE_RECORDS: Final = 500
PATIENCE_S: Final = 30.0
LOCK_POLL_S: Final = 0.1

Result = TypeVar("Result")

Progress = Callable[[int], None]
"""Called with the number of events indexed since the last call."""


class Timeline:
    """Answers about the past of one shard; implements `projections.story.history.History`. Use `Timeline.open`.

    Everything but `open` and `update` is synchronous and reads the disk only, so a thread may do it; one at a time.
    """

    def __init__(self, log: Log, shard: int, store: Store, builder: Builder, executor: Executor | None) -> None:
        self.shard = shard
        self.damage: DamagedLog | None = None
        self.rebuilt = next(iter(store.dropped), "")
        self._log = log
        self._store = store
        self._partition: Partition = (EVENTS, shard)
        self._builder = builder
        self._executor = executor
        self._boundaries: list[tuple[int, int, int]] = []  # (seq, at_us, epoch)
        self._table: Table | None = None
        self._table_from = 0
        self._then: RowsThen | None = None  # what it reads

    @classmethod
    async def open(
        cls,
        log: Log,
        shard: int,
        directory: Path,
        *,
        progress: Progress = lambda count: None,
        wait_s: float = 0.0,
        log_state: str = "",
        executor: Executor | None = None,
        boundary_events: int = BOUNDARY_EVENTS,
        epoch_bytes: int = EPOCH_BYTES,
    ) -> Timeline:
        """The timeline in `directory`, brought up to what is the end of the log now.

        Args:
            progress: told as it is built: some 40,000 events a second.
            wait_s: how long it is waited for another process that has it open.
            executor: a thread that folds, so that the event loop goes on meanwhile; None: it is done here, and faster.
            boundary_events, epoch_bytes: see `Builder`; the answers do not depend on them.
            log_state: what else the log is known by, beside the ids of cluster and topic: of a log in files, what tells that they changed.
                With it the chain at the last event is not looked up in the log.
        Raises:
            StoreLocked: another process has it open and did not close it in time.
            LogUnavailable: the log does not answer, or stopped bringing records before its end.
            NoSuchTopic, NoSuchPartition: there is no such shard.
        """
        cluster_id, topic_id = await log.cluster_id(), await log.topic_id(EVENTS)
        follower = await log.follow({(EVENTS, shard): None})
        timeline: Timeline | None = None
        try:
            why = ""
            while timeline is None:
                store = await _opened(directory, cluster_id, topic_id + log_state, wait_s)
                builder = Builder(store, shard, boundary_events=boundary_events, epoch_bytes=epoch_bytes)
                timeline = cls(log, shard, store, builder, executor)
                if not (why or log_state) and not await timeline._follows(follower):
                    why = "other_log"
                    (directory / "damaged").write_text("the log has another event where this timeline ends\n")
                    timeline.close()
                    timeline = None
            timeline.rebuilt = why or timeline.rebuilt
            await timeline._read(follower, progress)
        except BaseException:
            if timeline is not None:
                timeline.close()
            raise
        finally:
            await follower.close()
        return timeline

    async def update(self, progress: Progress = lambda count: None) -> None:
        """Go on to what is the end of the log now. Raises LogUnavailable."""
        follower = await self._log.follow({self._partition: None})
        try:
            await self._read(follower, progress)
        finally:
            await follower.close()

    def close(self) -> None:
        """Free the directory. May be called twice."""
        if self._then is not None:
            self._then.close()
        self._builder.close()
        self._store.close()

    # -- moments --------------------------------------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        """The last event; 0 when there is none."""
        return self._builder.position.seq

    def seq_at(self, at_us: int) -> int:
        """The last event at or before an instant of the scheduler's time; 0 when there is none."""
        boundaries = self._known_boundaries()
        index = bisect_right(boundaries, at_us, key=lambda boundary: boundary[1])
        seq = boundaries[index - 1][0] if index else 0
        for _, record in self._records(seq + 1, boundaries[index][0] if index < len(boundaries) else seq):
            envelope = envelope_of(record)
            if envelope.at_us > at_us:
                break
            seq = envelope.seq
        return seq

    def seq_of(self, moment: Moment, *, first: bool = False) -> int:
        """The event that a moment stands for, with `first` as the beginning of a range; 0 for a time before the first event.

        Raises NoSuchMoment: the log does not reach that far.
        """
        if moment.at_us is None:
            seq = moment.seq or 0
        elif first:
            seq = self.seq_at(moment.at_us - 1) + 1
        else:
            return self.seq_at(moment.at_us)
        self._check(seq, str(moment))
        return seq

    def table_at(self, seq: int) -> Table:
        """The rows as of event `seq`; 0: of a log without events. Good until the next call: it may be the same table, gone on.

        Raises NoSuchMoment.
        """
        if seq:
            self._check(seq, f"seq {seq}")
        boundary, epoch = self._boundary_at(seq)
        table = self._table
        if table is None or self._table_from != boundary or table.shard.seq > seq:
            if self._then is not None:
                self._then.close()
            self._then = RowsThen(self._store, epoch, boundary)
            table = self._table = Table(UncommittedRows(self._then), self.shard)
            self._table_from = boundary
        offset = table.shard.next_offset
        left_out = [layout.number_in(key) for key, _ in self._span(layout.LEFT_OUT, offset, offset + (1 << 40))]
        for at_offset, record in self._records(table.shard.seq + 1, seq):
            take(table, at_offset, record)
        table.shard.stale_events += sum(offset <= each < table.shard.next_offset for each in left_out)
        table.flush()
        return table

    # -- events by subject ----------------------------------------------------------------------------------------------------

    def events_between(self, from_seq: int, to_seq: int) -> list[Told]:
        """The events from `from_seq` to `to_seq`, both included, those that are there."""
        return [Told(offset, decode_event(record)) for offset, record in self._records(from_seq, to_seq)]

    def events_of_operation(self, operation_id: int) -> list[Told]:
        """See `History.events_of_operation`."""
        return self._told(layout.OF_OPERATION + number(operation_id))

    def overtakings_of(self, operation_id: int) -> list[Overtaking]:
        """See `History.overtakings_of`."""
        return [
            Overtaking(event.seq, offset, event.at_us, event.operation_id, event.endpoint, backfilled=event.backfilled)
            for offset, event in self._told(layout.OVERTAKING + number(operation_id))
            if isinstance(event, OperationDispatched)
        ]

    def events_of_worker(self, instance: str, endpoint: str) -> list[Told]:
        """See `History.events_of_worker`."""
        return self._told(layout.OF_WORKER + layout.worker(instance, endpoint))

    def events_of_instance(self, instance: str, from_seq: int, to_seq: int) -> list[Told]:
        """See `History.events_of_instance`."""
        return self._told_at(
            sorted(
                layout.number_in(key)
                for name in {instance, ""}
                for key, _ in self._span(layout.OF_INSTANCE + layout.name(name), from_seq, to_seq + 1)
            )
        )

    def runs_of_worker(self, instance: str, endpoint: str, from_us: int, to_us: int) -> list[RunTold]:
        """See `History.runs_of_worker`."""
        where = layout.worker(instance, endpoint)
        last = self.seq_at(to_us)
        boundary, epoch = self._boundary_at(self.seq_at(from_us))
        # What began before the boundary and still ran at it, and what began since: the runs of years before are not walked over.
        then = RowsThen(self._store, epoch, boundary)
        stored = then.get(keys.shard_prefix(self.shard) + keys.of_worker(instance, endpoint))
        then.close()
        running = [] if stored is None else [run.dispatch_id for run in WorkerRow.FromString(stored).running]
        began = [layout.number_in(key) for key, _ in self._span(layout.RUN + where, boundary + 1, last + 1)]
        dispatches = sorted(each for each in {*running, *began} if each <= last)
        asked = self._store.get_many([layout.at(layout.RUN, where, dispatch_id) for dispatch_id in dispatches])
        ends = self._store.get_many([layout.at(layout.RUN_END, where, dispatch_id) for dispatch_id in dispatches])
        runs = [
            _run(told, requirement_id, end)
            for told, requirement_id, end in zip(self._told_at(dispatches), asked, ends, strict=True)
        ]
        return [run for run in runs if run.until_us is None or run.until_us >= from_us]

    def operations_named(self, name: str, instance: str | None = None) -> list[int]:
        """See `History.operations_named`."""
        prefix = layout.NAMED + layout.name(name) + (b"" if instance is None else layout.name(instance))
        return sorted({layout.number_in(key) for key, _ in self._store.scan(prefix, keys.after_prefix(prefix))})

    def holds(self, instance: str) -> list[Told]:
        """The events of an instance's holds: made, moved, released, no candidate."""
        found = self.events_of_instance(instance, 1, self.last_seq)
        return [told for told in found if type(told.event).__name__.startswith("Hold")]

    # -- reading the index ----------------------------------------------------------------------------------------------------

    def _records(self, from_seq: int, to_seq: int) -> Iterator[tuple[int, bytes]]:
        """(offset, record) of the events from `from_seq` to `to_seq`."""
        for _, value in self._span(layout.RECORD, from_seq, to_seq + 1):
            yield int.from_bytes(value[:8], "big"), value[8:]

    def _span(self, prefix: bytes, first: int, end: int) -> Iterator[tuple[bytes, bytes]]:
        """The entries behind `prefix` from number `first` to before `end`."""
        if first < end:
            yield from self._store.scan(prefix + number(first), prefix + number(end))

    def _told(self, prefix: bytes) -> list[Told]:
        """The events that stand under `prefix`."""
        return self._told_at([layout.number_in(key) for key, _ in self._span(prefix, 0, self.last_seq + 1)])

    def _told_at(self, seqs: Sequence[int]) -> list[Told]:
        found = self._store.get_many([layout.RECORD + number(seq) for seq in seqs])
        return [Told(int.from_bytes(value[:8], "big"), decode_event(value[8:])) for value in found if value is not None]

    def _known_boundaries(self) -> list[tuple[int, int, int]]:
        if not self._boundaries or self._boundaries[-1][0] != self.last_seq:
            begun = self._boundaries[-1][0] + 1 if self._boundaries else 0
            for key, value in self._span(layout.BOUNDARY, begun, self.last_seq + 1):
                self._boundaries.append((layout.number_in(key), *layout.BOUNDARY_VALUE.unpack(value)))
        return self._boundaries

    def _boundary_at(self, seq: int) -> tuple[int, int]:
        """The last boundary at or before an event, and its epoch; (0, 0) before the first one."""
        boundaries = self._known_boundaries()
        index = bisect_right(boundaries, seq, key=lambda boundary: boundary[0])
        return (boundaries[index - 1][0], boundaries[index - 1][2]) if index else (0, 0)

    def _check(self, seq: int, asked: str) -> None:
        if seq > self.last_seq:
            raise NoSuchMoment(self.shard, asked, self.last_seq, str(self.damage or ""))

    # -- building it ----------------------------------------------------------------------------------------------------------

    async def _follows(self, follower: Follower) -> bool:
        """Whether the log has the last event of this timeline where it stood, with its chain; also where it is trimmed up to there."""
        position = self._builder.position
        if not position.seq:
            return True
        if await follower.end_offset(self._partition) <= position.last_offset:
            return False
        follower.seek(self._partition, position.last_offset)
        heard_s = time.monotonic()
        try:
            while not (records := (await follower.read(max_records=1)).get(self._partition)):
                self._check_heard(heard_s)
        except OffsetTrimmed:
            return True
        except OffsetPastEnd:
            return False
        try:
            return records[0].offset == position.last_offset and chain_of(records[0].value) == self._builder.chain
        except HeadwayError:
            return False

    async def _read(self, follower: Follower, progress: Progress) -> None:
        self.damage = None
        partition, builder = self._partition, self._builder
        end = await follower.end_offset(partition)
        begin = await follower.beginning_offset(partition)
        follower.seek(partition, max(begin, builder.table.shard.next_offset))
        heard_s = time.monotonic()
        try:
            with nullcontext() if self._executor else without_collection():
                while await follower.position(partition) < end:
                    records = (await follower.read(max_records=BATCH_RECORDS, timeout_ms=200)).get(partition)
                    if not records:
                        self._check_heard(heard_s)
                        continue
                    for index in range(0, len(records), SLICE_RECORDS):
                        progress(await self._run(partial(builder.take, records[index : index + SLICE_RECORDS])))
                    heard_s = time.monotonic()
                await self._run(builder.finish)
        except DamagedLog as damage:
            self.damage = damage

    async def _run(self, work: Callable[[], Result]) -> Result:
        """Do a bit of work in the executor, if there is one; it has ended when this does, also when this is cancelled."""
        if self._executor is None:
            await asyncio.sleep(0)
            return work()
        working = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait({working})
            raise

    def _check_heard(self, heard_s: float) -> None:
        if time.monotonic() - heard_s > PATIENCE_S:
            raise LogUnavailable(
                f"reading {self._partition[0]}[{self._partition[1]}] after event {self.last_seq}",
                address=f"offset {self._builder.table.shard.next_offset}",
                waited_ms=round(PATIENCE_S * 1000),
            )


def _run(told: Told, requirement_id: bytes | None, end: bytes | None) -> RunTold:
    event = told.event
    assert isinstance(event, OperationDispatched)
    run = RunTold(event.seq, told.offset, event.operation_id, int.from_bytes(requirement_id or b"", "big"), event.at_us)
    if end is None:
        return run
    until_us, until_seq = layout.RUN_END_VALUE.unpack_from(end)
    return replace(run, until_us=until_us, until_seq=until_seq, ended=end[layout.RUN_END_VALUE.size :].decode())


async def _opened(directory: Path, cluster_id: str, topic_id: str, wait_s: float) -> Store:
    until_s = time.monotonic() + wait_s
    while True:
        try:
            return Store.open(
                directory,
                cluster_id=cluster_id,
                topic_id=topic_id,
                row_format=FORMAT * 1000 + TIMELINE_FORMAT,
                compressed=True,
            )
        except StoreLocked:
            if time.monotonic() >= until_s:
                raise
            await asyncio.sleep(LOCK_POLL_S)
