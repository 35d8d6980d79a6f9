"""Imports an export: a new generation of its log in a cluster whose topics are empty.

The events come as they are, so `seq` and chain go on where the export ends. Fact offsets go on as well, since operations are named by
them and the state says up to which one it has decided: the new facts topic begins behind the last decided fact, its place made by
ticks that are trimmed at once. Facts that were exported and not decided are published again, at those offsets. Then a `LeaderElected`
with the ids of this cluster is written: it is what lets deciders open the log, and they refuse it before.

The steps of one shard, and what a process that dies right after each leaves behind. Importing again goes on from there:

1. topics made: an empty log;
2. events written, 2,000 to a transaction: a log that names another cluster, which every decider refuses (HW-205);
3. place made for the facts, and trimmed; facts that were not decided published: as after 2;
4. `LeaderElected` with this cluster's ids written: the shard is whole and may be decided on.

Last, behind all shards, the shard map: no client publishes to an instance that is not in it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from events.codec import decode_event, encode_event
from events.decide import elect
from events.errors import HeadwayError
from events.events import LeaderElected
from streams.export.errors import NotEmpty
from streams.export.export_log import ExportLog
from streams.export.exporting import Progress
from streams.leadership import transactional_id
from streams.log import Log, Outgoing, Partition, Record, bounds, records_between
from streams.recovery import Fold, without_collection
from streams.shard_map import write_shard_map
from streams.ticker import TICK
from streams.topics import EVENTS, FACTS, topic_table
from streams.transaction import CLOSE_AT_BYTES

BATCH_RECORDS: Final = 2_000
TICKS_AT_ONCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one shard: `written` events of `events`, `facts` published again, `seq` that of the new `LeaderElected`.

    `before` says that the shard was whole before, and nothing was written.
    """

    shard: int
    events: int
    written: int
    facts: int
    seq: int
    next_fact_offset: int
    before: bool


@dataclass(slots=True)
class _Plan:
    """A shard of the export, folded and held against what the cluster has of it."""

    fold: Fold
    present: int  # event records of the export that the cluster has
    whole: int  # seq of this generation's LeaderElected where that is there as well, else 0
    undecided: list[Outgoing] = field(default_factory=list)  # facts, ticks left out
    published: int = 0  # of those, how many the cluster has

    @property
    def next_fact(self) -> int:
        """The offset that the first fact of the new generation gets at the earliest."""
        return self.fold.shard.position + 1


async def import_log(
    export: ExportLog, log: Log, *, build: str = "", progress: Progress = lambda count: None
) -> list[Imported]:
    """Import every shard of an export; called again after it was interrupted, it goes on.

    Everything is read, checked and folded before the first record is written.

    Args:
        build: what the new generation's LeaderElected says of the build.
        progress: told of the event records written.
    Raises:
        DamagedExport: a segment is not what the manifest says.
        DamagedLog: the exported events do not follow on each other.
        BeginsLater: they do not begin with the first.
        NotEmpty: the cluster has events or facts that are none of this export.
        TopicConflict: its topics have more partitions than the export has shards.
        OutcomeUnknown, Fenced, LogUnavailable: as the log says; import again.
    """
    for shard in export.shards:
        export.check_foldable(shard)
    await log.ensure_topics(topic_table(export.manifest.topics[EVENTS].partitions))
    with without_collection():
        plans = [await _plan(export, log, shard) for shard in export.shards]
    imported = [await _import_shard(export, log, plan, build, progress) for plan in plans]
    await write_shard_map(
        log, {instance: shard for instance, shard in export.manifest.shards.items() if shard in export.shards}
    )
    return imported


async def _plan(export: ExportLog, log: Log, shard: int) -> _Plan:
    at: Partition = (EVENTS, shard)
    fold = Fold(shard)
    first, end = await bounds(log, at)
    if first:
        raise NotEmpty(at, f"its records begin at offset {first}, so some were trimmed")
    held = 0
    async with aclosing(_one_by_one(records_between(log, at, first, end))) as present:
        async for batch in _all_of(export, at):
            fold.apply(batch)
            for record in batch:
                found = await anext(present, None)
                if found is None:
                    break
                if found.value != record.value:
                    raise NotEmpty(at, f"its record at offset {found.offset} is none of the export")
                held += 1
        further = await anext(present, None)
    whole = 0 if further is None else await _seq_of_election(log, at, further)
    plan = _Plan(fold, held, whole)
    if not whole:
        await _plan_facts(export, log, plan)
    return plan


async def _seq_of_election(log: Log, at: Partition, record: Record) -> int:
    """The seq of the LeaderElected that made this log the cluster's own. Raises NotEmpty where the record is another one."""
    try:
        event = decode_event(record.value)
    except HeadwayError as error:
        raise NotEmpty(at, f"its record at offset {record.offset} is no event ({error})") from error
    own = (await log.cluster_id(), await log.topic_id(EVENTS))
    if not isinstance(event, LeaderElected) or (event.cluster_id, event.events_topic_id) != own:
        raise NotEmpty(at, f"it has event {event.seq} at offset {record.offset}, which is none of the export")
    return event.seq


async def _plan_facts(export: ExportLog, log: Log, plan: _Plan) -> None:
    """Which facts are to be published, and that the topic has nothing but ticks and the first of these."""
    at: Partition = (FACTS, plan.fold.number)
    async for batch in _all_of(export, at):
        plan.undecided += [
            Outgoing(record.value, record.key, record.headers)
            for record in batch
            if record.offset >= plan.next_fact and record.value != TICK
        ]
    async with aclosing(_one_by_one(records_between(log, at, *await bounds(log, at)))) as present:
        async for record in present:
            if record.value == TICK:
                continue
            due = plan.undecided[plan.published] if plan.published < len(plan.undecided) else None
            if due != Outgoing(record.value, record.key, record.headers):
                raise NotEmpty(at, f"it has a fact at offset {record.offset} that is none of the export")
            plan.published += 1


async def _import_shard(export: ExportLog, log: Log, plan: _Plan, build: str, progress: Progress) -> Imported:
    fold, shard = plan.fold, plan.fold.number
    events = fold.events + fold.stale
    if plan.whole:
        return Imported(shard, events, 0, 0, plan.whole, plan.next_fact, before=True)
    at: Partition = (EVENTS, shard)
    writer = await log.open(transactional_id(shard))
    try:
        passed = 0
        async for batch in _all_of(export, at):
            due = batch[max(0, plan.present - passed) :]
            passed += len(batch)
            for part in _transactions(due):
                await writer.append({at: part})
                progress(len(part))
        await _make_place(log, shard, plan.next_fact)
        await log.publish((FACTS, shard), plan.undecided[plan.published :])
        elected = elect(
            fold.shard,
            leader_epoch=fold.shard.leader_epoch + 1,
            cluster_id=await log.cluster_id(),
            facts_topic_id=await log.topic_id(FACTS),
            events_topic_id=await log.topic_id(EVENTS),
            build=build,
            facts_end=(await bounds(log, (FACTS, shard)))[1],
        )
        (event,) = elected
        await writer.append({at: [Outgoing(encode_event(event, fold.shard.leader_epoch, fold.chain)[0])]})
    finally:
        await writer.close()
    facts = len(plan.undecided) - plan.published
    return Imported(shard, events, events - plan.present, facts, event.seq, plan.next_fact, before=False)


def _transactions(records: Iterable[Record]) -> Iterable[list[Outgoing]]:
    """Records in order, as many to a transaction as a decider would write."""
    part: list[Outgoing] = []
    size = 0
    for record in records:
        part.append(Outgoing(record.value, record.key, record.headers))
        size += len(record.value)
        if len(part) == BATCH_RECORDS or size >= CLOSE_AT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


async def _make_place(log: Log, shard: int, next_fact: int) -> None:
    """Let the next fact get an offset from `next_fact` on, and nothing before it be read."""
    at: Partition = (FACTS, shard)
    first, end = await bounds(log, at)
    while end < next_fact:
        await log.publish(at, [Outgoing(TICK)] * min(TICKS_AT_ONCE, next_fact - end))
        first, end = await bounds(log, at)
    if first < next_fact:
        await log.trim(at, next_fact)


async def _all_of(export: ExportLog, at: Partition) -> AsyncGenerator[list[Record], None]:
    async with aclosing(records_between(export, at, *await bounds(export, at))) as batches:
        async for batch in batches:
            yield batch


async def _one_by_one(batches: AsyncGenerator[list[Record], None]) -> AsyncGenerator[Record, None]:
    async with aclosing(batches):
        async for batch in batches:
            for record in batch:
                yield record
