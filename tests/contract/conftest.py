"""Every contract test runs against both logs."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator

import pytest

from streams.log import Log
from tests.contract.backends import SPECS, Backend, KafkaBackend, MemoryBackend

_numbers = itertools.count()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    if request.param == "memory":
        made: Backend = MemoryBackend()
    else:
        # The process id keeps two test runs against one developer broker apart.
        made = KafkaBackend(request.getfixturevalue("kafka"), f"c{os.getpid()}-{next(_numbers)}-")
    try:
        await made.log.ensure_topics(SPECS)
        yield made
    finally:
        await made.close()


@pytest.fixture
def log(backend: Backend) -> Log:
    return backend.log
