"""The configuration of an instance: a tagged union of scheduler implementations, one `kind` each.

It enters as a fact and stands in the log as an event, so that replay knows which values were in force when. Validated at the edge
and again by the core, with the same models; durations are seconds in the text and microseconds in the core.
"""

import json
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from events.errors import InvalidConfiguration

SECOND_US = 1_000_000

TEN_YEARS_S = 10 * 365 * 24 * 3600

Seconds = Annotated[int, Field(ge=0, le=TEN_YEARS_S)]
PositiveSeconds = Annotated[int, Field(ge=1, le=TEN_YEARS_S)]
"""A type of its own: a bound on the field would be lost to the one of `Seconds`."""


class PropertyKind(StrEnum):
    """How a property of an action is compared with a worker's (1.2)."""

    MINIMUM = "minimum"
    EXACT = "exact"
    PRIORITY = "priority"
    IGNORE = "ignore"


class AllocationStrategy(StrEnum):
    """Which of the workers that pass every check is taken (1.3)."""

    LEAST_RECENTLY_USED = "least_recently_used"
    MOST_RECENTLY_USED = "most_recently_used"


KNOWN_MINIMUMS = ("cpu_millis", "memory_kib")
"""Always of kind minimum; a configuration need not name them."""


class SimpleScheduler(BaseModel):
    """Places what fits, in queue order, on the workers of the instance (section 1.1)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    kind: Literal["simple"]
    supported_platform_properties: dict[str, PropertyKind] = Field(
        default_factory=dict,
        description="Name to kind. A name that is not here is of unknown kind: compared only where the worker declares it.",
    )
    allocation_strategy: AllocationStrategy = AllocationStrategy.LEAST_RECENTLY_USED
    worker_timeout_s: PositiveSeconds = Field(default=10, description="A worker silent for this long is evicted.")
    max_job_retries: int = Field(default=3, ge=0, le=1000, description="Attempts beyond the first after job failures.")
    max_worker_loss_retries: int = Field(
        default=10, ge=0, le=1000, description="Worker losses survived; its own budget."
    )
    max_free_requeues: int = Field(default=20, ge=0, le=100_000, description="Declines survived; they cost no attempt.")
    unacknowledged_kill_timeout_s: PositiveSeconds = Field(
        default=60, description="A worker that has not answered a kill for longer than this is evicted (K5)."
    )
    retain_completed_for_s: Seconds = Field(
        default=60, description="How long a finished operation stays answerable, and its client_operation_id taken."
    )
    max_backdate_s: Seconds = Field(default=60, description="How far before its append time queued_at_us may lie.")

    def kind_of(self, name: str) -> PropertyKind | None:
        """The kind of a property; None is the unknown kind."""
        known = self.supported_platform_properties.get(name)
        if known is None and name in KNOWN_MINIMUMS:
            return PropertyKind.MINIMUM
        return known

    def pools(self) -> tuple[str, ...]:
        """Names of the properties of kind minimum, sorted: the dimensions of the ledger."""
        names = {name: None for name in KNOWN_MINIMUMS if self.kind_of(name) is PropertyKind.MINIMUM}
        names.update(
            {n: None for n, kind in self.supported_platform_properties.items() if kind is PropertyKind.MINIMUM}
        )
        return tuple(sorted(names))


SchedulerConfig = SimpleScheduler
"""The union of implementations; `kind` is the tag."""

DEFAULT_CONFIG = SimpleScheduler(kind="simple")


def parse_config(text: str) -> SchedulerConfig:
    """Validate JSON `text`.

    Raises InvalidConfiguration with field path, value and rule; a missing `kind` is answered with the corrected text to paste.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise InvalidConfiguration("", text[:60], f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise InvalidConfiguration("", text[:60], "a configuration is a JSON object")
    if "kind" not in raw:
        corrected = json.dumps({"kind": "simple", **raw})
        raise InvalidConfiguration("kind", "", f"a configuration says which scheduler it is for; write {corrected}")
    if raw["kind"] != "simple":
        raise InvalidConfiguration("kind", str(raw["kind"]), "known kinds: simple")
    try:
        return SimpleScheduler.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidConfiguration(field, repr(first.get("input"))[:128], first["msg"]) from error


def canonical_config(config: SchedulerConfig) -> str:
    """The one JSON text of a configuration: every option present, keys sorted, no white space."""
    return json.dumps(config.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
