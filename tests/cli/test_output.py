"""Tables, JSON and watching."""

from __future__ import annotations

import io
import json

import pytest

from streams.cli.output import Column, duration, emit, percentile, plain_table, printable, rich_table, show, size


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0us"), (999, "999us"), (1_500, "1.5ms"), (2_345_678, "2.35s"), (59_990_000, "59.99s"), (60_000_000, "1m00s"),
        (3_599_000_000, "59m59s"), (3_600_000_000, "1h00m"), (172_800_000_000, "2d00h"), (-1_500, "-1.5ms"), (None, ""),
    ],
)  # fmt: skip
def test_durations_read_well(us, text):
    assert duration(us) == text


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (None, "")]
)
def test_sizes_read_well(amount, text):
    assert size(amount) == text


def test_a_plain_table_is_aligned_one_row_a_line_and_never_cut():
    rows = [{"name": "a", "n": 1}, {"name": "b" * 300, "n": 22, "other": "x\ny"}]
    text = plain_table(rows, [Column("name"), Column("n", align="right"), Column("other")], "the end")
    first, second, third, last = text.splitlines()
    assert first.index(" N") + 1 == second.index("1") == 303
    assert third.endswith("22  x y")
    assert last == "the end"


def test_json_is_the_whole_value_and_no_footer():
    out = io.StringIO()
    emit([{"a": None}], "json", ["b"], footer="no", file=out)
    assert json.loads(out.getvalue()) == [{"a": None}]


def test_a_single_mapping_becomes_fields_and_values():
    out = io.StringIO()
    emit({"free_kib": 3, "ready": True, "none": None, "list": [1, 2]}, "table", file=out)
    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["FIELD", "VALUE"], ["free", "kib", "3"], ["ready", "yes"], ["none"], ["list", "1,", "2"],
    ]  # fmt: skip


@pytest.mark.parametrize("fmt", ["table", "json"])
def test_watching_shows_every_answer_until_interrupted(capsys, fmt):
    answers = iter([{"rows": [{"n": 1}]}, {"rows": [{"n": 2}]}])

    def ask():
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    show(ask, fmt, lambda answer: answer["rows"], ["n"], watch=0.001)
    printed = capsys.readouterr().out.splitlines()
    if fmt == "json":
        assert [json.loads(line)["rows"][0]["n"] for line in printed] == [1, 2]
    else:
        assert [line.strip() for line in printed] == ["N", "1", "N", "2"]


def test_an_error_ends_watching(capsys):
    answers = iter([{"rows": []}])
    with pytest.raises(RuntimeError, match="gone"):
        show(lambda: next(answers, None) or _gone(), "table", lambda answer: answer["rows"], ["n"], watch=0.001)


def _gone():
    raise RuntimeError("gone")


def test_percentiles_are_values_that_occurred():
    assert [percentile([1, 2, 3, 4], share) for share in (0.0, 0.5, 0.51, 0.95, 1.0)] == [1, 2, 3, 4, 4]
    assert percentile([], 0.5) == 0


def test_names_that_would_steer_a_terminal_are_shown_and_do_nothing():
    """They are in the log for anyone who may publish: a screen cleared, a title set, text that runs the other way."""
    row = {"name": "a\x1b[2J\x00\x07\r\u202eb \u00e4\u4e2d"}
    table = plain_table([row], [Column("name")])
    assert table.splitlines()[1] == "a\\x1b[2J\\x00\\x07\\r\\u202eb ä中"
    (cell,) = rich_table([row], [Column("name")]).columns[0].cells
    assert str(cell) == table.splitlines()[1]
    assert printable("two\nlines") == "two\nlines"
