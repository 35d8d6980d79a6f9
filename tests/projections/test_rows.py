"""`MemoryRows`: scans in key order within a kind and across kinds, whatever came and went."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.rows import MemoryRows

KEYS = st.tuples(st.integers(0, 2), st.sampled_from(b"!Dqz"), st.binary(max_size=2)).map(
    lambda parts: parts[0].to_bytes(4, "big") + bytes([parts[1]]) + parts[2]
)
BOUNDS = st.one_of(st.just(b""), KEYS, KEYS.map(lambda key: key[:4]), KEYS.map(lambda key: key[:5]))


@given(
    writes=st.lists(st.dictionaries(KEYS, st.one_of(st.none(), st.binary(max_size=2))), max_size=6),
    start=BOUNDS,
    end=BOUNDS,
)
def test_a_scan_gives_what_a_sorted_dictionary_does(
    writes: list[dict[bytes, bytes | None]], start: bytes, end: bytes
) -> None:
    rows, plain = MemoryRows(), {}
    for changes in writes:
        rows.write(changes)
        plain = {key: value for key, value in (plain | changes).items() if value is not None}
        expected = [(key, plain[key]) for key in sorted(plain) if key >= start and (not end or key < end)]
        assert list(rows.scan(start, end)) == expected
        assert rows.by_key == plain
