"""A fresh story for each test: the instance "main" with the default configuration, nobody connected."""

import pytest

from tests.stories.story import Story


@pytest.fixture
def story() -> Story:
    """A story with a ticker."""
    return Story()


@pytest.fixture
def silent_story() -> Story:
    """A story without a ticker: a gap of more than three seconds is an outage of the log."""
    return Story(ticker=False)
