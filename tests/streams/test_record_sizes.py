"""The rough weight that spares most records the exact one never lets a record through, or holds one back, wrongly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import Refused
from streams.log import Outgoing, batch_of_one_bytes, check_records

headers = st.lists(st.tuples(st.text(max_size=40), st.binary(max_size=120)), max_size=6).map(tuple)
records = st.builds(Outgoing, st.binary(max_size=300), st.none() | st.binary(max_size=40), headers)


@given(records, st.integers(-3, 3))
def test_a_record_is_refused_exactly_when_it_is_over_the_limit(record: Outgoing, slack_bytes: int) -> None:
    size_bytes = batch_of_one_bytes(record)
    limit_bytes = size_bytes + slack_bytes
    if slack_bytes >= 0:
        check_records(("topic", 0), [record], limit_bytes=limit_bytes, compacted=False)
    else:
        with pytest.raises(Refused, match=f"{size_bytes} bytes is over the limit of {limit_bytes} bytes"):
            check_records(("topic", 0), [record], limit_bytes=limit_bytes, compacted=False)


@given(records)
def test_a_record_that_may_be_large_passes_where_the_limit_is_far(record: Outgoing) -> None:
    check_records(("topic", 0), [record], limit_bytes=1 << 20, compacted=False)
