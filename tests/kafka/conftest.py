"""A log of its own on the session's broker, with the parts that a test starts."""

from collections.abc import Iterator

import pytest

from tests.kafka.deployment import Deployment


@pytest.fixture
def deployment(kafka, tmp_path) -> Iterator[Deployment]:
    found = Deployment(kafka, tmp_path)
    yield found
    found.stop()
