"""The recorded run, made once for all tests of this folder."""

from pathlib import Path

import pytest

from tests.recorded.run import RecordedRun, recorded_run
from tests.recorded.tampering import write_directory


@pytest.fixture(scope="session")
def recorded() -> RecordedRun:
    """Facts and events of all scenes, and what the scenes did."""
    return recorded_run()


@pytest.fixture(scope="module")
def directory(recorded: RecordedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run as an exported directory, as it stands."""
    return write_directory(recorded, tmp_path_factory.mktemp("recorded") / "export")
