"""What breaks the log itself: a byte changed, an event missing, a pair swapped, a record added. Found, located, nothing behind judged."""

from __future__ import annotations

import pytest

from tests.verify.forging import History, audit, parsed, rule_of, walked

AT = 150


def damaged(values: list[bytes]) -> History:
    history = walked(4)
    offsets = [offset for offset, _ in history.events]
    offsets += [offsets[-1] + 1]
    return History(list(zip(offsets, values, strict=False)), history.facts)


def values() -> list[bytes]:
    return [value for _, value in walked(4).events]


@pytest.mark.parametrize("place", [0, 5, -1, -17, -18])
def test_one_byte_changed_is_found_in_its_record(place):
    records = values()
    changed = bytearray(records[AT])
    changed[place] ^= 1
    found = audit(damaged([*records[:AT], bytes(changed), *records[AT + 1 :]]))
    assert found.damage is not None
    assert rule_of(found.damage) in ("chain", "readable", "sequence")
    assert found.damage.offset == AT
    assert found.events == AT, "everything before is judged"


def test_one_event_missing_is_found_at_the_next():
    records = values()
    found = audit(damaged([*records[:AT], *records[AT + 1 :]]))
    assert found.damage is not None
    assert (rule_of(found.damage), found.damage.seq, found.damage.expected) == ("sequence", AT + 2, f"seq={AT + 1}")


@pytest.mark.parametrize("left_out", range(AT - 40, AT))
def test_of_a_fact_that_damage_cuts_short_nothing_is_accused(left_out):
    """Whether it had more events nobody can tell."""
    records = values()
    found = audit(damaged([*records[:left_out], *records[left_out + 1 :]]))
    assert found.findings == [found.damage]
    assert 0 <= found.cut_short <= found.events


def test_one_pair_swapped_is_found():
    records = values()
    records[AT], records[AT + 1] = records[AT + 1], records[AT]
    found = audit(damaged(records))
    assert found.damage is not None
    assert (rule_of(found.damage), found.damage.seq) == ("sequence", AT + 2)


def test_an_event_that_stands_twice_is_found():
    records = values()
    found = audit(damaged([*records[:AT], records[AT - 1], *records[AT:]]))
    assert found.damage is not None
    assert (rule_of(found.damage), found.damage.seq) == ("sequence", AT)


def test_a_record_that_is_no_event_is_found():
    records = values()
    found = audit(damaged([*records[:AT], b"\xff\xff\xff", *records[AT + 1 :]]))
    assert found.damage is not None
    assert (rule_of(found.damage), found.damage.seq) == ("readable", AT + 1)


def test_a_record_of_a_replaced_leader_is_left_out_and_counted():
    history = walked(4)
    messages = parsed(history)
    at = [at for at, message in enumerate(messages) if message.WhichOneof("kind") == "leader_elected"][1]
    late = history.events[at - 1][1]
    records = [*values()[: at + 1], late, *values()[at + 1 :]]
    found = audit(damaged(records))
    assert (found.findings, found.stale, found.damage) == ([], 1, None)
