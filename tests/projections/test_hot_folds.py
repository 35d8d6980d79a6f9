"""The folds straight from messages against the plain ones: the same rows, byte for byte, whatever stands between the hot events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements, chain_of, command_bytes, decode_event, encode_event
from events.config import SimpleScheduler, canonical_config
from events.errors import ChainBroken
from events.values import Holding, Usage
from projections import table as tables
from projections.folding.hot import HotFolds
from projections.position import BatchTaker, Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from streams.catch_up import take_records
from streams.recovery import DamagedLog
from tests.projections.histories import History, records

HOT = {"operation_queued", "operation_dispatched", "operation_accepted", "operation_finished"}


class Record(NamedTuple):
    offset: int
    value: bytes


def plain(log: Sequence[Record], rows: MemoryRows) -> dict[bytes, bytes]:
    """The rows after these records too, each folded by itself."""
    table = Table(rows, 0)
    for record in log:
        assert take(table, *record) is Taken.FOLDED
        table.flush()
    return rows.by_key


def held_together(log: Sequence[Record], rng: random.Random, *, kept_rows: int = 1 << 20) -> None:
    """Fold in batches of random sizes, and compare with the plain folds after each."""
    rows, expected = MemoryRows(), MemoryRows()
    table = Table(rows, 0, kept_rows=kept_rows)
    begin = 0
    while begin < len(log):
        batch = log[begin : begin + rng.choice((1, 2, 7, 40, 400))]
        assert take_records(table, batch).folded == len(batch)
        begin += len(batch)
        assert rows.by_key == plain(batch, expected), f"after event {table.shard.seq}"


def smooth(seed: int, cycles: int) -> History:
    """A farm on which nearly everything goes well, so that the hot folds follow each other for long."""
    rng = random.Random(seed)
    history = History(seed, configure=False)
    history.decide(f.Configured("main", canonical_config(SimpleScheduler(kind="simple"))))
    for number in range(4):
        properties = (("cpu_millis", "4000"),)
        history.decide(f.WorkerConnected("main", f"w{number}", 1, number + 1, properties))
    placed: list[e.OperationDispatched] = []
    running: list[e.OperationDispatched] = []
    ended = 0
    asked = canonical_requirements({"cpu_millis": "1000"}.items())
    for number in range(cycles):
        command = command_bytes(("make", str(number)), ()) if number % 3 else b""
        fact = f.ActionQueued(
            "main", f"c{number}", asked, rng.choice((0, 0, 5)), command=command, mnemonic="M" * (number % 2)
        )
        history.decide(fact)
        placed += [event for event in history.events[ended:] if isinstance(event, e.OperationDispatched)]
        ended = len(history.events)
        while placed and rng.random() < 0.8:
            run = placed.pop(rng.randrange(len(placed)))
            history.decide(f.DispatchAccepted("main", run.endpoint, run.connection_id, run.dispatch_id))
            running.append(run)
        while len(running) > rng.randrange(14):
            run = running.pop(rng.randrange(len(running)))
            result = {"exit_code": number % 2, "stdout_tail": b"said" * (number % 2), "usage": Usage(number % 3, 0, 7)}
            history.decide(f.ActionFinished("main", run.endpoint, run.connection_id, run.dispatch_id, **result))
        if number % 7 == 0:
            worker = rng.randrange(4)
            history.decide(f.WorkerReported("main", f"w{worker}", worker + 1, free_memory_kib=rng.choice((None, 5))))
        if number % 11 == 0:
            history.decide(f.CancelRequested("main", None, f"c{rng.randrange(number + 1)}"))
        if number % 50 == 49:
            worker = rng.randrange(4)  # it comes again and keeps what it ran
            kept = tuple(run.dispatch_id for run in placed + running if run.endpoint == f"w{worker}")
            properties = (("cpu_millis", "4000"),)
            history.decide(f.WorkerConnected("main", f"w{worker}", 1, worker + 1, properties, running=kept))
    return history


@pytest.mark.parametrize("seed", range(12))
def test_both_leave_the_same_rows_of_any_history(seed: int) -> None:
    """Declines, losses, kills, holds, fair shares, reconnects, outages and other leaders between the hot events."""
    log = [Record(*record) for record in records(History(seed).run(600))]
    rng = random.Random(f"hot {seed}")
    held_together(log, rng)
    held_together(log, rng, kept_rows=3)  # rows are let go after every batch


@pytest.mark.parametrize("seed", range(4))
def test_both_leave_the_same_rows_where_nearly_everything_goes_well(seed: int) -> None:
    log = [Record(*record) for record in records(smooth(seed, 300))]
    rng = random.Random(f"smooth {seed}")
    held_together(log, rng)
    held_together(log, rng, kept_rows=3)


def test_what_goes_well_is_folded_by_the_hot_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the comparison above would hold the plain folds against themselves."""
    offered, done = Counter[str](), Counter[str]()
    made = HotFolds.__init__

    def counting(self: HotFolds, table: Table) -> None:
        made(self, table)
        for name, fold in self.folds.items():

            def counted(message, name=name, fold=fold):
                offered[name] += 1
                folded = fold(message)
                done[name] += folded
                return folded

            self.folds[name] = counted

    monkeypatch.setattr(HotFolds, "__init__", counting)
    log = [Record(*record) for record in records(smooth(1, 300))]
    held_together(log, random.Random(1))
    assert set(offered) == HOT
    for name in HOT:
        assert done[name] > 100
        assert done[name] > 0.8 * offered[name], name


def test_a_record_that_does_not_follow_changes_nothing() -> None:
    log = [Record(*record) for record in records(smooth(2, 60))]
    rows = MemoryRows()
    table = Table(rows, 0)
    take_records(table, log[:100])
    before = dict(rows.by_key)
    taker = BatchTaker(table)
    assert taker.take(log, 101, 120) == (0, Taken.GAP)
    assert taker.take(log, 0, 1) == (0, Taken.KNOWN)
    taker.settle()
    table.flush()
    assert rows.by_key == before
    assert take_records(table, log).known == 100


def test_a_changed_record_is_refused_where_it_stands() -> None:
    log = [Record(*record) for record in records(smooth(2, 60))]
    rows = MemoryRows()
    table = Table(rows, 0)
    at = next(index for index in range(100, len(log)) if b"make" in log[index].value)
    changed = Record(log[at].offset, log[at].value.replace(b"make", b"fake"))
    with pytest.raises(DamagedLog) as stopped:
        take_records(table, [*log[:at], changed])
    assert isinstance(stopped.value.because, ChainBroken)
    assert stopped.value.offset == changed.offset
    assert rows.by_key == plain(log[:at], MemoryRows()), "what stands before it is written, and nothing of it is"


def test_a_dispatch_that_names_holders_goes_the_plain_way() -> None:
    log = [Record(*record) for record in records(smooth(5, 20))]
    at = 8
    event = decode_event(log[at].value)
    assert isinstance(event, e.OperationDispatched)
    held = replace(event, holders=(Holding("w1", 5), Holding("w2", 3)), saved_bytes=5)
    value, _ = encode_event(held, 1, chain_of(log[at - 1].value))
    log = [*log[:at], Record(log[at].offset, value)]
    held_together(log, random.Random(1))


def test_rows_of_bytes_and_of_finished_operations_are_let_go_once_written() -> None:
    log = [Record(*record) for record in records(smooth(3, 300))]
    table = Table(MemoryRows(), 0)
    take_records(table, log)
    assert not any(isinstance(row, bytes) for row in table.cached.values())
    assert len(table.cached) < 60


def test_messages_are_let_go_after_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is changed for ever would keep the memory of every run that it ever had."""
    monkeypatch.setattr(tables, "RENEWED_AFTER", 2)
    log = [Record(*record) for record in records(smooth(4, 300))]
    table = Table(MemoryRows(), 0, kept_rows=100)
    emptied = 0
    for begin in range(0, len(log), 50):
        take_records(table, log[begin : begin + 50])
        emptied += not table.cached and not table.beside
    assert emptied >= 3
