"""An exported directory as a log: it reads as the log did, says where it is damaged, and never takes half an export for a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import Closed, NoSuchPartition, NoSuchTopic, OffsetPastEnd, OffsetTrimmed
from streams.event_tail import tail
from streams.export import (
    BeginsLater,
    DamagedExport,
    ExportBusy,
    ExportLog,
    ExportWriter,
    NotAnExport,
    NotExported,
    ReadOnlyLog,
    UnlikeExport,
    read_manifest,
)
from streams.log import Log, Outgoing, Record
from streams.memory_log import MemoryLog
from streams.replay import replay
from streams.shard_map import read_shard_map
from streams.topics import EVENTS, FACTS, topic_table
from tests.contract.reading import read_all, read_some, read_to_end
from tests.projections.histories import History
from tests.streams.exported import log_of, write_directory

E0, E1, F0 = (EVENTS, 0), (EVENTS, 1), (FACTS, 0)


async def exported(tmp_path: Path, facts: int = 300) -> tuple[MemoryLog, ExportLog]:
    log = await log_of(History(7).run(facts))
    await write_directory(log, tmp_path, {E0: log.records(E0)})
    return log, ExportLog(tmp_path)


async def seqs(log: Log, from_seq: int = 1) -> list[int]:
    return [tailed.event.seq async for tailed in tail(log, 0, from_seq=from_seq)]


async def test_it_reads_as_the_log_it_was_exported_from(tmp_path):
    log, export = await exported(tmp_path)
    assert len(export.manifest.segments) > 3
    assert await read_all(export, E0) == await read_all(log, E0)
    follower, original = await export.follow({E0: None}), await log.follow({E0: None})
    assert await follower.end_offset(E0) == await original.end_offset(E0)
    await read_to_end(follower, E0)
    assert await follower.position(E0) == await follower.end_offset(E0)
    assert (await export.cluster_id(), await export.topic_id(EVENTS)) == ("recorded", await log.topic_id(EVENTS))
    assert await export.describe_topics() == await log.describe_topics()
    assert (await read_shard_map(export)).shards == {"main": 0}


async def test_a_replay_of_it_has_the_rows_of_a_replay_of_the_log(tmp_path):
    log, export = await exported(tmp_path)
    of_log, of_files = await replay(log, 0), await replay(export, 0)
    assert (of_files.damage, of_files.gaps) == (None, 0)
    assert of_files.seq == of_log.seq > 100
    assert of_files.table.shard == of_log.table.shard


async def test_events_are_tailed_from_any_seq(tmp_path):
    log, export = await exported(tmp_path)
    last = (await seqs(log))[-1]
    for from_seq in (1, 2, last // 2, last, last + 1):
        assert await seqs(export, from_seq) == list(range(from_seq, last + 1))


async def test_keys_headers_times_and_empty_values_are_kept(tmp_path):
    records = [
        Record(3, 1_000, b"k", b"", (("a", b"1"), ("a", b""), ("ä", b"2"))),
        Record(4, 2_000, None, b"v"),
        Record(9, 3_000, b"", b"\x00" * 300),
    ]
    log = MemoryLog()
    await log.ensure_topics(topic_table(1))
    await write_directory(log, tmp_path, {F0: records}, spans={F0: (2, 12)})
    assert await read_all(ExportLog(tmp_path), F0) == records


async def test_a_read_takes_no_more_than_asked_and_a_seek_goes_anywhere(tmp_path):
    log, export = await exported(tmp_path)
    records = log.records(E0)
    follower = await export.follow({E0: None})
    assert (await follower.read(max_records=7))[E0] == records[:7]
    assert await follower.position(E0) == records[6].offset + 1
    follower.seek(E0, records[-3].offset)
    assert await read_some(follower, E0, 3) == records[-3:]
    follower.pause(E0)
    follower.seek(E0, 0)
    assert await follower.read(timeout_ms=1) == {}
    follower.resume(E0)
    assert (await follower.read(max_records=1))[E0] == records[:1]


async def test_positions_outside_and_partitions_that_are_not_there_are_errors_with_numbers(tmp_path):
    log = await log_of(History(7).run(100), shards=3)
    records = log.records(E0)
    await write_directory(log, tmp_path, {E0: records[20:]})
    export = ExportLog(tmp_path)
    follower = await export.follow({E0: 3})
    with pytest.raises(OffsetTrimmed) as trimmed:
        await follower.read()
    assert (trimmed.value.asked, trimmed.value.first) == (3, records[20].offset)
    follower.seek(E0, 1 << 40)
    with pytest.raises(OffsetPastEnd):
        await follower.read()
    with pytest.raises(NotExported, match="shards here: 0"):
        await export.follow({E1: None})
    with pytest.raises(NoSuchPartition):
        await export.follow({(EVENTS, 3): None})
    with pytest.raises(NoSuchTopic):
        await export.follow({("nonsense", 0): None})


async def test_nothing_can_be_written_to_it(tmp_path):
    _, export = await exported(tmp_path)
    for attempt in (
        export.open("decider"),
        export.publish(F0, [Outgoing(b"x")]),
        export.trim(E0, 1),
        export.ensure_topics(topic_table(1)),
    ):
        with pytest.raises(ReadOnlyLog, match="only read"):
            await attempt
    await export.close()
    with pytest.raises(Closed):
        await export.follow({E0: None})


@pytest.mark.parametrize("where", ["its first byte", "its middle", "its end"])
async def test_a_changed_byte_is_found_when_the_segment_is_read_and_not_before(tmp_path, where):
    log, export = await exported(tmp_path)
    segment = export.manifest.segments[2]
    path = tmp_path / segment.file
    data = bytearray(path.read_bytes())
    data[{"its first byte": 0, "its middle": len(data) // 2, "its end": len(data) - 1}[where]] ^= 1
    path.write_bytes(data)
    follower = await export.follow({E0: None})
    assert (await follower.read(max_records=5))[E0] == log.records(E0)[:5]
    with pytest.raises(DamagedExport) as caught:
        await read_to_end(follower, E0)
    error = caught.value
    assert (error.file, error.seqs) == (path, (segment.first_seq, segment.last_seq))
    for part in (path.name, f"events {segment.first_seq} to {segment.last_seq}", "SHA-256"):
        assert part in str(error)


async def test_a_segment_that_is_gone_is_damage(tmp_path):
    _, export = await exported(tmp_path)
    (tmp_path / export.manifest.segments[1].file).unlink()
    with pytest.raises(DamagedExport, match="cannot be read"):
        await read_all(export, E0)


async def test_damage_can_be_read_on_past_and_is_noted_once(tmp_path):
    log, _ = await exported(tmp_path)
    export = ExportLog(tmp_path, read_damaged=True)
    gone, changed = export.manifest.segments[1], export.manifest.segments[3]
    (tmp_path / gone.file).unlink()
    # Bytes that a frame may have behind it change the digest and nothing of what is read.
    (tmp_path / changed.file).write_bytes((tmp_path / changed.file).read_bytes() + b"\x00")
    for _ in range(2):
        read = await read_all(export, E0)
        assert read == [one for one in log.records(E0) if not gone.first_offset <= one.offset <= gone.last_offset]
    assert [error.file.name for error in export.damage] == [Path(gone.file).name, Path(changed.file).name]


async def test_what_a_broken_frame_still_gives_is_read_so_that_the_chain_says_where_it_broke(tmp_path):
    log = await log_of(History(7).run(600))
    await write_directory(log, tmp_path, {E0: log.records(E0)}, segment_bytes=1 << 20)
    export = ExportLog(tmp_path, read_damaged=True)
    (segment,) = export.manifest.segments
    path = tmp_path / segment.file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1  # in the middle of literals: the frame decodes, and its checksum differs
    path.write_bytes(data)
    found = await replay(export, 0)
    assert found.damage is not None
    assert 1 < found.damage.seq < segment.last_seq
    assert found.events == found.damage.seq
    assert [error.seqs for error in export.damage] == [(1, segment.last_seq)]


async def test_an_export_that_was_not_finished_is_none_and_the_next_one_takes_its_files_away(tmp_path):
    log = await log_of(History(7).run(300))
    records = log.records(E0)
    writer = ExportWriter(tmp_path, cluster_id="recorded", topics={}, shards={}, segment_bytes=2_000)
    writer.add(E0, records)
    writer.close()
    left = sorted(tmp_path.glob("*/*.zst"))
    assert left, "nothing was written before the end, so nothing can be left over"
    with pytest.raises(NotAnExport, match=r"manifest\.json"):
        ExportLog(tmp_path)
    await write_directory(log, tmp_path, {E0: records[5:]})
    assert not left[0].exists()
    assert await read_all(ExportLog(tmp_path), E0) == records[5:]


async def test_an_export_that_dies_while_it_is_continued_stays_what_it_was(tmp_path):
    log = await log_of(History(7).run(300))
    records = log.records(E0)
    half = len(records) // 2
    topics = {name: (state.topic_id, state.partitions) for name, state in (await log.describe_topics()).items()}
    await write_directory(log, tmp_path, {E0: records[:half]}, spans={E0: (0, records[half].offset)})
    writer = ExportWriter(tmp_path, cluster_id="recorded", topics=topics, shards={}, segment_bytes=2_000)
    writer.add(E0, records[half:])
    with pytest.raises(ExportBusy):
        await write_directory(log, tmp_path, {})
    writer.close()
    assert await read_all(ExportLog(tmp_path), E0) == records[:half]
    await write_directory(
        log, tmp_path, {E0: records[half:]}, spans={E0: (records[half].offset, records[-1].offset + 2)}
    )
    export = ExportLog(tmp_path)
    assert await read_all(export, E0) == records
    chains = [(one.chain_before, one.chain_after) for one in export.manifest.segments]
    assert chains[0][0] == "00" * 16
    assert [before for before, _ in chains[1:]] == [after for _, after in chains[:-1]]
    joined = [(one.first_seq, one.last_seq) for one in export.manifest.segments]
    assert [first for first, _ in joined[1:]] == [last + 1 for _, last in joined[:-1]]


async def test_another_log_and_a_hole_in_events_are_refused(tmp_path):
    log = await log_of(History(7).run(100))
    records = log.records(E0)
    await write_directory(log, tmp_path, {E0: records[:10]})
    before = read_manifest(tmp_path)
    with pytest.raises(UnlikeExport, match="ends at offset"):
        await write_directory(log, tmp_path, {E0: records[20:]})
    other = MemoryLog(cluster_id="another")
    await other.ensure_topics(topic_table(1))
    with pytest.raises(UnlikeExport, match="'another'"):
        await write_directory(other, tmp_path, {E0: []})
    assert read_manifest(tmp_path) == before


async def test_a_directory_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("three years")
    log = await log_of(History(7).run(10))
    with pytest.raises(UnlikeExport, match=r"thesis\.txt"):
        await write_directory(log, tmp_path, {E0: log.records(E0)})


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "Invalid JSON"), ('{"format": "headway-export/9"}', "format"), ("{}", "cluster_id")],
)
def test_a_manifest_that_cannot_be_read_says_why(tmp_path, text, said):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(NotAnExport, match=said):
        read_manifest(tmp_path)


async def test_a_fold_does_not_start_behind_the_first_event(tmp_path):
    log = await log_of(History(7).run(100))
    await write_directory(log, tmp_path, {E0: log.records(E0)[30:]})
    export = ExportLog(tmp_path)
    with pytest.raises(BeginsLater, match="begin at event 31"):
        export.check_foldable(0)
    assert (await seqs(export))[0] == 31
