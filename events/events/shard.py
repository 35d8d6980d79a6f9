"""Events of the shard and of instances as a whole: leaders, time, refusals, parked keys, configurations, requirements, hints."""

from dataclasses import dataclass

from events.reasons import IgnoreReason, RejectReason
from events.values import ResourceHint


@dataclass(slots=True)
class LeaderElected:
    """A decider became the owner of the shard; not caused by a fact, so `cause_offset` repeats the position."""

    seq: int
    at_us: int
    cause_offset: int
    leader_epoch: int
    cluster_id: str = ""
    facts_topic_id: str = ""
    events_topic_id: str = ""
    build: str = ""
    facts_end: int = 0  # end offset of the facts then


@dataclass(slots=True)
class RecoveryCompleted:
    """Every fact that waited when the decider was elected is decided; `unconfirmed` endpoints were not heard under it yet (PM9)."""

    seq: int
    at_us: int
    cause_offset: int
    elected_seq: int
    unconfirmed: int = 0


@dataclass(slots=True)
class Ticked:
    """Time passed."""

    seq: int
    at_us: int
    cause_offset: int


@dataclass(slots=True)
class LogSilent:
    """Nobody could write for `gap_us`: every liveness deadline moves by it (design: time)."""

    seq: int
    at_us: int
    cause_offset: int
    gap_us: int


@dataclass(slots=True)
class FactIgnored:
    """A duplicate, stale or foreign fact: nothing changed."""

    seq: int
    at_us: int
    cause_offset: int
    fact_kind: str
    reason: IgnoreReason
    instance: str = ""
    key: str = ""
    dispatch_id: int = 0


@dataclass(slots=True)
class FactRejected:
    """An invalid fact; its raw bytes stand in the dead letters."""

    seq: int
    at_us: int
    cause_offset: int
    fact_kind: str
    reason: RejectReason
    field: str = ""
    value: str = ""
    rule: str = ""
    instance: str = ""
    key: str = ""


@dataclass(slots=True)
class KeyParked:
    """A fact with this key could not be decided: later ones wait in the dead letters until the key is released."""

    seq: int
    at_us: int
    cause_offset: int
    key: str


@dataclass(slots=True)
class KeyReleased:
    """The key is taken again."""

    seq: int
    at_us: int
    cause_offset: int
    key: str


@dataclass(slots=True)
class Configured:
    """The configuration in force from here on, as canonical JSON."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    config_json: str


@dataclass(slots=True)
class InstancePaused:
    """Nothing is placed in this instance."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str


@dataclass(slots=True)
class InstanceResumed:
    """Placing goes on."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str


@dataclass(slots=True)
class RequirementDefined:
    """Requirements get a number before their first use; `requirements` are canonical bytes."""

    seq: int
    at_us: int
    cause_offset: int
    requirement_id: int
    requirements: bytes


@dataclass(slots=True)
class HintsLoaded:
    """Resource hints in force from here on (D3)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    hints: tuple[ResourceHint, ...] = ()
