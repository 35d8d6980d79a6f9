"""The gate in front of the fold: what does not follow never reaches the rows."""

from __future__ import annotations

import pytest

from events.codec import encode_event
from events.errors import ChainBroken, SequenceBroken, UnknownEvent
from events.events import LeaderElected, Ticked, WorkerDrained
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import MissingRow, Table
from tests.projections.histories import History, records


@pytest.fixture
def table() -> Table:
    return Table(MemoryRows(), 3)


def taken(table: Table, log: list[tuple[int, bytes]]) -> list[Taken]:
    return [take(table, offset, value) for offset, value in log]


def dump(table: Table) -> dict[bytes, bytes]:
    table.flush()
    assert isinstance(table.rows, MemoryRows)
    return dict(table.rows.by_key)


def test_what_was_folded_is_known_when_it_comes_again(table: Table) -> None:
    log = records(History(1).run(50))
    assert set(taken(table, log)) == {Taken.FOLDED}
    before = dump(table)
    assert set(taken(table, log)) == {Taken.KNOWN}
    assert dump(table) == before


def test_a_gap_changes_nothing(table: Table) -> None:
    log = records(History(1).run(50))
    taken(table, log[:20])
    before = dump(table)
    assert set(taken(table, log[21:])) == {Taken.GAP}
    assert dump(table) == before
    assert set(taken(table, log[20:])) == {Taken.FOLDED}


def test_a_changed_record_breaks_the_chain(table: Table) -> None:
    log = records(History(1).run(50))
    taken(table, log[:20])
    offset, value = log[20]
    before = dump(table)
    with pytest.raises(ChainBroken):
        take(table, offset, value[:-1] + bytes([value[-1] ^ 1]))
    assert dump(table) == before


def test_a_seq_that_stands_twice_is_refused(table: Table) -> None:
    log = records(History(1).run(50))
    taken(table, log[:20])
    with pytest.raises(SequenceBroken, match="stands again"):
        take(table, log[20][0], log[19][1])


def test_a_record_of_a_replaced_leader_is_left_out_and_counted(table: Table) -> None:
    history = History(1).run(10)
    history.elect()
    log = records(history)
    taken(table, log)
    seq, chain = table.shard.seq, table.shard.chain
    behind = log[-1][0] + 1
    stale, _ = encode_event(Ticked(seq + 1, 5, 5), 1, b"\x01" * 16)
    assert take(table, behind, stale) is Taken.STALE
    assert (table.shard.seq, table.shard.chain, table.shard.stale_events) == (seq, chain, 1)
    assert table.shard.next_offset == behind + 1
    history.run(10)
    assert set(taken(table, records(history, first_offset=behind + 1))) == {Taken.FOLDED}


def test_leader_epochs_only_rise(table: Table) -> None:
    value, chain = encode_event(LeaderElected(1, 0, 0, 2), 2, bytes(16))
    take(table, 0, value)
    again, _ = encode_event(LeaderElected(2, 0, 0, 2), 2, chain)
    with pytest.raises(SequenceBroken, match="only rise"):
        take(table, 1, again)


def test_what_is_no_event_is_refused(table: Table) -> None:
    with pytest.raises((UnknownEvent, ChainBroken)):
        take(table, 0, b"\xffgarbage")


def test_an_event_about_a_row_that_is_not_there_is_refused_and_named(table: Table) -> None:
    value, _ = encode_event(WorkerDrained(1, 0, 0, "main", "w1"), 0, bytes(16))
    with pytest.raises(MissingRow, match="shard 3 worker main/w1"):
        take(table, 0, value)
