"""Pages of `/v1/rows`: bounded by rows and by bytes, and together all rows once."""

from __future__ import annotations

import pytest

from projections.rows import MemoryRows
from streams.web import _page


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("most_bytes", [1, 25, 1 << 20])
def test_pages_hold_every_row_once_and_end_before_they_are_large(
    monkeypatch: pytest.MonkeyPatch, limit: int, most_bytes: int
) -> None:
    monkeypatch.setattr("streams.web.MOST_PAGE_BYTES", most_bytes)
    rows = MemoryRows()
    rows.write({b"\0\0\0\0E%03d" % number: b"x" * 10 for number in range(10)})
    found: list[tuple[bytes, bytes]] = []
    more = True
    while more:
        page, more = _page(rows.scan(found[-1][0] + b"\0" if found else b"", b""), limit)
        assert 0 < len(page) <= limit
        assert sum(len(value) for _, value in page[:-1]) < most_bytes
        found += page
    assert found == list(rows.scan(b"", b""))
