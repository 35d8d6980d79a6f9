"""The recorded run, made once for all tests of this folder."""

import pytest

from tests.recorded.run import RecordedRun, recorded_run


@pytest.fixture(scope="session")
def recorded() -> RecordedRun:
    """Facts and events of 36 scenes, and what the scenes did."""
    return recorded_run()
