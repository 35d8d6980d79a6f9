"""A fresh story for each test: the instance "main" with the default configuration, nobody connected. What it told is audited at its end."""

from collections.abc import Iterator

import pytest

from tests.stories.story import Story
from tests.verify.forging import audit, of_rehearsal, told


@pytest.fixture
def story() -> Iterator[Story]:
    """A story with a ticker."""
    yield from _audited(Story())


@pytest.fixture
def silent_story() -> Iterator[Story]:
    """A story without a ticker: a gap of more than three seconds is an outage of the log."""
    yield from _audited(Story(ticker=False))


def _audited(story: Story) -> Iterator[Story]:
    """The story, and at its end the audit of every event in it (`headway verify`): no story tells what does not follow."""
    yield story
    if story.audited and story.rehearsal.keep_history:
        assert told(audit(of_rehearsal(story.rehearsal))) == []
