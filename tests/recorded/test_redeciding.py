"""This build decides the recorded run as it stands; a decision forged with a correct chain diverges at its event."""

from __future__ import annotations

import pytest

from events.codec import decode_event
from projections.redeciding import CannotFollow, Divergence, Redeciding, redecide
from streams.recovery import Fold
from streams.topics import FACTS
from tests.recorded.forgeries import FORGERIES
from tests.recorded.run import SHARD
from tests.recorded.tampering import forge, own_events


def decided_again(recorded, records) -> tuple[list[Divergence], Redeciding]:
    redeciding, found = Redeciding(), []
    events = [(record.offset, decode_event(record.value)) for record in records]
    try:
        for each in redecide(recorded.log.records((FACTS, SHARD)), events, redeciding):
            found.append(each)
    except CannotFollow:
        assert found, "before the place is lost, what led there is named"
    return found, redeciding


def test_the_run_is_decided_again_as_it_stands(recorded):
    found, redeciding = decided_again(recorded, own_events(recorded))
    assert found == []
    judged = redeciding.judged
    assert (judged.events + judged.elections, judged.not_judged) == (len(recorded.events), 0)
    assert judged.elections == 2


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.what.replace(" ", "-"))
def test_a_forged_decision_diverges_at_its_event(recorded, forgery):
    event = forgery.find(recorded)
    records = forge(own_events(recorded), event.seq, **forgery.change(recorded, event))
    found, _ = decided_again(recorded, records)
    assert found[0].seq == event.seq
    assert found[0].offset == next(record.offset for record in records if decode_event(record.value).seq == event.seq)


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.what.replace(" ", "-"))
def test_a_forged_decision_is_chained_as_if_nothing_were_wrong(recorded, forgery):
    """Else the chain alone would find it."""
    event = forgery.find(recorded)
    before, after = own_events(recorded), forge(own_events(recorded), event.seq, **forgery.change(recorded, event))
    assert [one.value for one in after[: event.seq - 1]] == [one.value for one in before[: event.seq - 1]]
    assert after[event.seq - 1].value != before[event.seq - 1].value
    fold = Fold(SHARD)
    fold.apply(after)
    assert fold.shard.seq == recorded.events[-1].seq
