"""The configuration of an instance: a tagged union of scheduler implementations, one `kind` each, nested at will.

It enters as a fact and stands in the log as an event, so that replay knows which values were in force when. Validated at the edge
and again by the core, with the same models; durations are seconds in the text and microseconds in the core.
"""

from events.config.decorators import (
    CacheLookupScheduler,
    HistoricalResourceScheduler,
    Modification,
    PropertyModifierScheduler,
    SchedulerConfig,
    UpstreamScheduler,
)
from events.config.hold import BackfillHold, DrainTimeHold, HoldConfig, ShortfallHold
from events.config.locality import LocalityConfig
from events.config.parsing import DEFAULT_CONFIG, Decorator, Resolved, canonical_config, parse_config, resolve
from events.config.simple import (
    KNOWN_MINIMUMS,
    SECOND_US,
    AllocationStrategy,
    FairShare,
    MemoryEscalation,
    PropertyKind,
    SimpleScheduler,
)

__all__ = [
    "DEFAULT_CONFIG",
    "KNOWN_MINIMUMS",
    "SECOND_US",
    "AllocationStrategy",
    "BackfillHold",
    "CacheLookupScheduler",
    "Decorator",
    "DrainTimeHold",
    "FairShare",
    "HistoricalResourceScheduler",
    "HoldConfig",
    "LocalityConfig",
    "MemoryEscalation",
    "Modification",
    "PropertyKind",
    "PropertyModifierScheduler",
    "Resolved",
    "SchedulerConfig",
    "ShortfallHold",
    "SimpleScheduler",
    "UpstreamScheduler",
    "canonical_config",
    "parse_config",
    "resolve",
]
