"""Rows that are changed and not written: seen through, kept apart, written in one step."""

import random

import pytest

from projections.rows import MemoryRows
from streams.uncommitted import UncommittedRows


class Counted(MemoryRows):
    """Rows that count their writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, changes):
        self.writes += 1
        super().write(changes)


def filled(**rows: bytes) -> Counted:
    base = Counted()
    base.write({name.encode(): value for name, value in rows.items()})
    base.writes = 0
    return base


def test_changes_are_seen_through_and_stay_out_of_the_rows_below() -> None:
    base = filled(a=b"1", b=b"2", d=b"4")
    rows = UncommittedRows(base)
    rows.write({b"b": None, b"c": b"3", b"d": b"5"})
    assert [rows.get(key) for key in (b"a", b"b", b"c", b"d", b"e")] == [b"1", None, b"3", b"5", None]
    assert rows.get_many([b"d", b"a", b"b"]) == [b"5", b"1", None]
    assert list(rows.scan(b"", b"")) == [(b"a", b"1"), (b"c", b"3"), (b"d", b"5")]
    assert base.by_key == {b"a": b"1", b"b": b"2", b"d": b"4"}
    assert base.writes == 0


def test_a_commit_writes_all_of_them_in_one_step_and_in_order() -> None:
    base = filled(a=b"1", b=b"2")
    rows = UncommittedRows(base)
    rows.write({b"c": b"3"})
    rows.write({b"a": None})
    rows.commit()
    assert (base.by_key, base.writes) == ({b"b": b"2", b"c": b"3"}, 1)
    assert len(rows) == 0
    rows.commit()
    assert base.writes == 1, "nothing has changed since"


def test_a_discard_leaves_what_was_committed() -> None:
    base = filled(a=b"1")
    rows = UncommittedRows(base)
    rows.write({b"a": b"2", b"b": b"3"})
    rows.discard()
    assert list(rows.scan(b"", b"")) == [(b"a", b"1")]
    rows.commit()
    assert base.writes == 0


@pytest.mark.parametrize("seed", range(20))
def test_random_changes_read_as_if_they_were_written(seed: int) -> None:
    rng = random.Random(seed)
    base, plain = Counted(), MemoryRows()
    rows = UncommittedRows(base)
    for _ in range(200):
        changes = {
            b"%03d" % rng.randrange(40): rng.choice((None, b"%d" % rng.randrange(9))) for _ in range(rng.randrange(6))
        }
        rows.write(changes)
        plain.write(changes)
        if rng.random() < 0.1:
            rows.commit()
            assert base.by_key == plain.by_key
        start, end = sorted(b"%03d" % rng.randrange(41) for _ in range(2))
        end = rng.choice((end, b""))
        assert list(rows.scan(start, end)) == list(plain.scan(start, end)), f"seed {seed}"
        keys = [b"%03d" % rng.randrange(41) for _ in range(4)]
        assert rows.get_many(keys) == plain.get_many(keys) == [rows.get(key) for key in keys], f"seed {seed}"
