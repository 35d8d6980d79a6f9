"""Headway for other services: publish facts, read where actions run and how they end.

    from streams.client import FactPublisher, PlacementReader

Both take a `Log`, so a test of a service runs on a `MemoryLog` with a `Decider` in the same process.
"""

from events.payloads import Command, EnvironmentVariable
from events.reasons import Outcome, PlacementEnd, RequeueCause
from events.values import Digest
from streams.endings import Finished, NotQueued, StillWaiting
from streams.placements import ActionPlaced, Placement, PlacementEnded, PlacementReader, UnreadablePlacement
from streams.publisher import FactPublisher, Secret

__all__ = [
    "ActionPlaced",
    "Command",
    "Digest",
    "EnvironmentVariable",
    "FactPublisher",
    "Finished",
    "NotQueued",
    "Outcome",
    "Placement",
    "PlacementEnd",
    "PlacementEnded",
    "PlacementReader",
    "RequeueCause",
    "Secret",
    "StillWaiting",
    "UnreadablePlacement",
]
