"""The reader of the Standard Workload Format: which columns count, what is no job, and what is said of a wrong line."""

import gzip
from pathlib import Path

import pytest

from streams.simulate.swf import SwfJob, load_swf
from streams.traces import UnreadableTrace

KTH = Path(__file__).parents[1] / "fixtures" / "kth" / "KTH-SP2-1996-2.1-cln.swf.gz"


def line(number=1, submit=100, run=60, allocated=4, requested=8, estimate=300) -> str:
    return f"{number} {submit} -1 {run} {allocated} -1 -1 {requested} {estimate} -1 1 1 1 -1 -1 -1 -1 -1"


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "trace.swf"
    path.write_text("; Header: é\n;\n" + "".join(f"{row}\n" for row in lines), encoding="latin-1")
    return path


def only(tmp_path: Path, **columns) -> SwfJob:
    (job,) = load_swf(written(tmp_path, line(**columns))).jobs
    return job


def test_the_kth_trace_holds_28475_jobs_and_one_record_without_processors():
    jobs, skipped = load_swf(KTH)
    assert (len(jobs), skipped) == (28_475, 1)
    assert jobs[0] == SwfJob(15, 0, 3_477_000_000, 53_940_000_000, 4)
    assert max(job.processors for job in jobs) == 100


def test_processors_are_those_allocated_else_those_requested(tmp_path):
    assert only(tmp_path, allocated=4, requested=8).processors == 4
    assert only(tmp_path, allocated=-1, requested=8).processors == 8
    assert only(tmp_path, allocated=0, requested=8).processors == 8


def test_the_estimate_is_the_requested_time_else_the_run_time(tmp_path):
    assert only(tmp_path, run=60, estimate=300).estimate_us == 300_000_000
    assert only(tmp_path, run=60, estimate=-1).estimate_us == 60_000_000


def test_a_run_longer_than_its_estimate_is_not_cut(tmp_path):
    job = only(tmp_path, run=600, estimate=300)
    assert (job.run_us, job.estimate_us) == (600_000_000, 300_000_000)


def test_a_record_without_processors_or_run_time_is_skipped_and_counted(tmp_path):
    trace = load_swf(written(tmp_path, line(), line(allocated=-1, requested=-1), line(run=-1), line(run=0)))
    assert (len(trace.jobs), trace.skipped) == (2, 2)


def test_jobs_come_in_order_of_arrival_and_keep_the_files_order_within_a_second(tmp_path):
    jobs = load_swf(written(tmp_path, line(1, 200), line(2, 100), line(3, 200), line(4, 100))).jobs
    assert [(job.number, job.arrival_us) for job in jobs] == [(2, 0), (4, 0), (1, 100_000_000), (3, 100_000_000)]


def test_a_compressed_file_is_read_whatever_it_is_called(tmp_path):
    path = written(tmp_path, line())
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load_swf(packed) == load_swf(path)


@pytest.mark.parametrize(
    ("row", "column", "rule"),
    [
        (line(submit="soon"), "2 (submit time)", "a number is wanted"),
        (line(run="1e3"), "4 (run time)", "a number is wanted"),
        (line(run="12.x"), "4 (run time)", "a number is wanted"),
        (line(submit=-1), "2 (submit time)", "0 or later"),
        ("1 2 3", "", "18 columns, this line has 3"),
    ],
)
def test_a_wrong_value_is_named_by_line_and_column(tmp_path, row, column, rule):
    with pytest.raises(UnreadableTrace) as caught:
        load_swf(written(tmp_path, line(), row))
    assert (caught.value.line, caught.value.column) == (4, column)
    assert rule in caught.value.rule


def test_a_fraction_of_a_second_is_cut_off(tmp_path):
    assert only(tmp_path, run="12.97").run_us == 12_000_000


def test_a_missing_file_a_broken_one_and_one_without_jobs_are_said(tmp_path):
    with pytest.raises(UnreadableTrace, match="cannot be read"):
        load_swf(tmp_path / "absent")
    (tmp_path / "torn").write_bytes(KTH.read_bytes()[:1_000])
    with pytest.raises(UnreadableTrace, match="cannot be read"):
        load_swf(tmp_path / "torn")
    with pytest.raises(UnreadableTrace, match=r"no job \(1 record"):
        load_swf(written(tmp_path, line(run=-1)))
