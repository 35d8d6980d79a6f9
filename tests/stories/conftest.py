"""A fresh story for each test: the instance "main" with the default configuration, nobody connected.

Whatever a story tells, its facts are decided again from its events alone at the end, and the same must come out; and the audit, which
shares no code with the core, finds nothing in it that does not follow.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from events.codec import decode_event, encode_fact
from events.errors import InvalidFact
from projections.redeciding import Redeciding, redecide
from streams.log import Record
from streams.rehearsal import Rehearsal
from tests.stories.story import Story
from tests.verify.forging import audit, of_rehearsal, told

BEYOND_THE_LOG = {
    "test_9_1_6_a_pass_that_fails_takes_nothing_with_it_and_the_next_one_is_whole": "the pass is broken for one fact only",
    "test_a_requeue_that_outgrows_the_held_worker_releases_the_hold": "the action is changed behind the log's back",
}
"""Stories whose events do not follow from their facts under the rules in force at the end, and why."""


OTHER_LIMITS = {
    "test_only_the_closest_by_shortfall_are_looked_at": "one candidate is considered, where the audit expects 64"
}
"""Stories that change a limit of the core, which the audit knows as it is."""


@pytest.fixture
def story() -> Story:
    """A story with a ticker."""
    return Story()


@pytest.fixture
def silent_story() -> Story:
    """A story without a ticker: a gap of more than three seconds is an outage of the log."""
    return Story(ticker=False)


@pytest.fixture(autouse=True)
def decided_again(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Decide every story of the test again, under the rules that the test has put in force."""
    rehearsals: list[Rehearsal] = []
    begin = Rehearsal.__init__

    def kept(rehearsal: Rehearsal, **options: object) -> None:
        begin(rehearsal, **options)
        rehearsals.append(rehearsal)

    monkeypatch.setattr(Rehearsal, "__init__", kept)
    yield
    if request.node.name in BEYOND_THE_LOG:
        return
    for rehearsal in rehearsals:
        if rehearsal.keep_history:
            decide_again(rehearsal)
        if rehearsal.keep_history and request.node.name not in OTHER_LIMITS:
            assert told(audit(of_rehearsal(rehearsal))) == []


def decide_again(rehearsal: Rehearsal) -> None:
    """Hold what a story recorded against what its facts cause when they are decided from the record."""
    facts: list[Record] = []
    for offset, (at_us, key, fact) in enumerate(rehearsal.facts):
        try:
            value = encode_fact(fact)
        except (InvalidFact, TypeError):
            return  # told of a fact that no record can hold
        facts.append(Record(offset, at_us, key.encode() or None, value))
    events = [(record.offset, decode_event(record.value)) for record in rehearsal.records]
    redeciding = Redeciding()
    assert list(redecide(facts, events, redeciding)) == []
    assert redeciding.judged.facts == len(facts)
