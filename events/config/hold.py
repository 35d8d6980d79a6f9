"""The head-of-line hold: which busy worker is kept draining for the action at the head of the queue (section 5)."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[int, Field(ge=0, le=10 * 365 * 24 * 3600)]


class _Hold(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_hold_s: Seconds | None = Field(
        default=None,
        description="Give the worker back after so long, with an event of its own. Unset: hold until it ends by itself.",
    )
    spare_last: bool = Field(
        default=False, description="Never hold the last worker that could serve everything else that is queued."
    )


class ShortfallHold(_Hold):
    """The busy worker with the smallest shortfall is held once the head has waited and was overtaken (H1-H25)."""

    kind: Literal["shortfall"]
    after_s: Seconds = Field(
        description="How long the head must have waited. Set it above the typical queue wait: a held worker idles what it frees, "
        "up to the action's size, for as long as the longest action that runs on it."
    )


class BackfillHold(_Hold):
    """EASY: the head gets the worker that is free soonest; what surely ends before may still run there.

    Needs `expected_duration_us` in actions; one without counts as running for ever.
    """

    kind: Literal["backfill"]
    after_s: Seconds = Field(
        default=0, description="How long the head must have waited; 0: at once, also when nothing overtook it."
    )


HoldConfig = Annotated[ShortfallHold | BackfillHold, Field(discriminator="kind")]
"""The hold's policies; absent: no hold, at no cost."""
