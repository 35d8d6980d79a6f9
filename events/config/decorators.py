"""Schedulers around a scheduler, and the one that hands everything to another (1.5)."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from events.config.simple import Seconds, SimpleScheduler


class Modification(BaseModel):
    """One change to the requirements of an incoming action. `replace` matches the name (and the value, where given)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["add", "remove", "replace"] = Field(description="add sets a property, whatever it was before.")
    name: str = Field(min_length=1, max_length=256, description="The property.")
    value: str | None = Field(default=None, max_length=256, description="add: the value; replace: the value to match.")
    new_name: str | None = Field(
        default=None, min_length=1, max_length=256, description="replace only: its name from then on."
    )
    new_value: str | None = Field(default=None, max_length=256, description="replace only; unset keeps the old value.")

    @model_validator(mode="after")
    def _check(self) -> "Modification":
        if self.kind == "add" and self.value is None:
            raise ValueError("add needs a value")
        if self.kind == "replace" and self.new_name is None:
            raise ValueError("replace needs new_name")
        if self.kind != "replace" and (self.new_name is not None or self.new_value is not None):
            raise ValueError(f"new_name and new_value go with replace, not with {self.kind}")
        return self


INNER = "The scheduler behind it, of any kind."


class _Decorator(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CacheLookupScheduler(_Decorator):
    """Cacheable actions are looked up in the action cache first; a hit never enters the queue (D1)."""

    kind: Literal["cache_lookup"]
    scheduler: "SchedulerConfig" = Field(description=INNER)


class PropertyModifierScheduler(_Decorator):
    """Changes the requirements of incoming actions, in the order of the list (D2)."""

    kind: Literal["property_modifier"]
    modifications: tuple[Modification, ...] = Field(
        max_length=256, description="In this order, blindly: removing what is not there is no error."
    )
    scheduler: "SchedulerConfig" = Field(description=INNER)


class HistoricalResourceScheduler(_Decorator):
    """Raises the CPU and memory an action asks for to what its kind has needed before (D3)."""

    kind: Literal["historical_resource"]
    cpu_property: str = Field(default="cpu_millis", description="The minimum that a hint's cpu_millis raises.")
    memory_property: str = Field(default="memory_kib", description="The minimum that a hint's memory_kib raises.")
    scheduler: "SchedulerConfig" = Field(description=INNER)


class UpstreamScheduler(_Decorator):
    """Hands every action to another instance, here or on another cluster, and relays what becomes of it."""

    kind: Literal["upstream"]
    instance: str = Field(min_length=1, max_length=256, description="The instance there.")
    bootstrap_servers: str | None = Field(default=None, description="Its cluster; unset: this one.")
    topic_prefix: str = Field(default="", max_length=200, description="What its topics' names begin with.")
    retain_completed_for_s: Seconds = Field(
        default=60,
        description="How long a finished operation stays answerable here, and its client_operation_id taken.",
    )


SchedulerConfig = Annotated[
    SimpleScheduler
    | CacheLookupScheduler
    | PropertyModifierScheduler
    | HistoricalResourceScheduler
    | UpstreamScheduler,
    Field(discriminator="kind"),
]
"""The union of implementations; `kind` is the tag."""

for decorator in (CacheLookupScheduler, PropertyModifierScheduler, HistoricalResourceScheduler):
    decorator.model_rebuild()
