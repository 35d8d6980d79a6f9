"""This build decides the recorded run as it stands; a decision forged with a correct chain diverges at its event."""

from __future__ import annotations

import pytest

from events.codec import decode_event
from projections.redeciding import CannotFollow, Divergence, Redeciding, redecide
from streams.recovery import Fold
from streams.topics import FACTS
from tests.recorded.forgeries import FORGERIES
from tests.recorded.run import SHARD
from tests.recorded.tampering import forge, index_of, own_events


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
def test_a_forged_decision_is_rightly_chained_and_diverges_at_its_event(recorded, forgery):
    event = forgery.find(recorded)
    records = forge(own_events(recorded), event.seq, **forgery.change(recorded, event))
    fold = Fold(SHARD)
    fold.apply(records)
    assert fold.shard.seq == recorded.events[-1].seq, "the chain alone would not find it"
    found, _ = decided_again(recorded, records)
    assert [each for each in found if each.error] == []
    assert (found[0].seq, found[0].offset) == (event.seq, records[index_of(records, event.seq)].offset)
