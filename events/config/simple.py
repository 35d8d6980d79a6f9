"""`simple`: places what fits, in queue order, on the workers of the instance (sections 1.1 and 1.4)."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from events.config.hold import HoldConfig
from events.config.locality import LocalityConfig
from events.config.options import PositiveSeconds, Seconds, wrong_option

SECOND_US = 1_000_000


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
    LEAST_LOADED = "least_loaded"
    BEST_FIT = "best_fit"


KNOWN_MINIMUMS = ("cpu_millis", "memory_kib")
"""Always of kind minimum; a configuration need not name them."""


class MemoryEscalation(BaseModel):
    """A kill for memory becomes a requeue with a larger reservation (U8)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    property: str = Field(default="memory_kib", description="The minimum that is raised.")
    percent: int = Field(default=200, ge=101, le=10_000, description="Next reservation in percent of the last.")
    max_kib: int = Field(default=0, ge=0, description="Never more than this; 0: what the largest worker registered.")
    ladder_kib: tuple[int, ...] = Field(default=(), description="Steps to climb instead of a percentage, ascending.")
    cpu_property: str = Field(default="cpu_millis", description="Reserved whole, too, when the ceiling is reached.")
    max_steps: int = Field(default=8, ge=1, le=100, description="Escalations of one operation; its own budget.")

    @model_validator(mode="after")
    def _check_ladder(self) -> "MemoryEscalation":
        ladder = self.ladder_kib
        if any(step <= before for before, step in zip((0, *ladder), ladder, strict=False)):
            raise wrong_option("ladder_kib", list(ladder), "amounts above 0, ascending")
        return self


class FairShare(BaseModel):
    """Inside one priority, whoever has been served least comes first (start-time fair queueing)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    between: Literal["client", "invocation"] = Field(description="Whose shares are equal: client_id or invocation_id.")


class SimpleScheduler(BaseModel):
    """Places what fits, in queue order, on the workers of the instance (section 1.1)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    kind: Literal["simple"]
    supported_platform_properties: dict[str, PropertyKind] = Field(
        default_factory=dict,
        description="Name to kind. A name that is not here is of unknown kind: compared only where the worker declares it.",
    )
    allocation_strategy: AllocationStrategy = Field(
        default=AllocationStrategy.LEAST_RECENTLY_USED,
        description="Which of the workers that pass every check is taken. best_fit leaves the least room behind.",
    )
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
    client_action_timeout_s: PositiveSeconds = Field(
        default=60,
        description="An attached operation no client of which was heard for longer than this is abandoned (C2).",
    )
    max_action_executing_timeout_s: Seconds = Field(
        default=0,
        description="An operation nothing was heard of for this long is taken from a worker that lives; 0: never (T3).",
    )
    dispatch_ack_timeout_s: Seconds = Field(
        default=0,
        description="A dispatch not accepted within this goes back untried and its worker is paused; 0: never.",
    )
    unsatisfiable_action_timeout_s: Seconds = Field(
        default=0,
        description="An action that no connected worker could run even if idle fails after this; 0: never (X2-X5).",
    )
    no_worker_action_timeout_s: Seconds = Field(
        default=0, description="An action that waits while no worker at all is connected fails after this; 0: never."
    )
    max_unaccepted_dispatches: int = Field(
        default=0,
        ge=0,
        description="Dispatches a worker may have unaccepted; reached: no more until it accepts. 0: no limit.",
    )
    live_memory_veto: str | None = Field(
        default=None, description="The minimum that is compared with the free memory a worker reports, too (V1, V2)."
    )
    memory_escalation: MemoryEscalation | None = Field(
        default=None,
        description="A kill for memory becomes a requeue with a larger reservation (U8). Unset: the kill stands as the result.",
    )
    hold: HoldConfig | None = Field(
        default=None,
        description="Keep one busy worker draining for the action at the head of the queue that later ones keep overtaking.",
    )
    compatible_builds: tuple[str, ...] = Field(
        default=(),
        description='Builds of workers that are admitted; empty: all. The entry "" admits workers without one (W16).',
    )
    fair_share: FairShare | None = Field(
        default=None, description="Equal shares inside one priority. Unset: first come, first served."
    )
    locality: LocalityConfig = Field(
        default_factory=LocalityConfig,
        description="Which worker holds which blob: how long that is believed, and what it is used for.",
    )
    aging_s: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="Waiting this long is worth one step of priority. Unset: priority is absolute.",
    )

    @model_validator(mode="after")
    def _check_names(self) -> "SimpleScheduler":
        pools = self.pools()
        escalation = self.memory_escalation
        for option, name in (
            ("live_memory_veto", self.live_memory_veto),
            ("memory_escalation.property", escalation and escalation.property),
            ("memory_escalation.cpu_property", escalation and escalation.cpu_property),
        ):
            if name is not None and name not in pools:
                raise wrong_option(option, name, f"a property of kind minimum: {', '.join(pools)}")
        if self.fair_share is not None and self.aging_s is not None:
            rule = "fair_share works inside equal priority and aging_s does away with it; set one of them"
            raise wrong_option("aging_s", self.aging_s, rule)
        return self

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
