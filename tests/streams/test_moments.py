"""Moments: a seq or a time, read in one way everywhere."""

import time
from collections.abc import Iterator

import pytest

from streams.moments import BadMoment, Moment, parse_moment, time_of

NOON_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own time is nine hours off."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


def test_digits_are_a_seq():
    assert parse_moment("48120") == Moment(seq=48_120)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00",
        "2026-03-01T14:00:00+02:00",
        "2026-03-01T07:30-04:30",
    ],
)
@pytest.mark.usefixtures("far_from_greenwich")
def test_a_time_may_have_an_offset_and_is_utc_without_one(text: str):
    assert parse_moment(text) == Moment(at_us=NOON_US)


def test_a_time_keeps_its_microseconds():
    assert parse_moment("2026-03-01T12:00:00.000250Z") == Moment(at_us=NOON_US + 250)


@pytest.mark.parametrize("at_us", [0, NOON_US, NOON_US + 5_000, NOON_US + 999_999, 4_102_444_799_999_999])
def test_what_is_printed_is_read_back(at_us: int):
    assert parse_moment(time_of(at_us)) == Moment(at_us=at_us)


@pytest.mark.parametrize(
    "text", ["", "0", "-3", "yesterday", "12:00", "2026-13-01", "9" * 40, "1969-12-31T23:59:59Z", "٣"]
)
def test_anything_else_is_refused_with_the_rule(text: str):
    with pytest.raises(BadMoment, match="a time without an offset is UTC"):
        parse_moment(text)
