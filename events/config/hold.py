"""The head-of-line hold: which busy worker is kept draining for the action at the head of the queue (section 5).

What it is for, what it costs and where it does nothing stands in infra/runbooks/hold.md.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from events.config.options import PositiveSeconds, Seconds, wrong_option

DEFAULT_LAST_RUNS = 1_000
"""Runs of a kind that are remembered where no policy says how many: a log that turns drain_time on later has its history."""

MOST_LAST_RUNS = 10_000


class _Hold(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_hold_s: PositiveSeconds | None = Field(
        default=None,
        description="Give the worker back this long after the hold was made, wherever it has moved since, with an event of its own; the "
        "same action is not held for again for as long (or after_s, if that is longer). Unset: a hold stands until it ends by itself.",
    )
    spare_last: bool = Field(
        default=False,
        description="Never hold the last worker for somebody else: where something that runs on it, or something else that is queued and "
        "that it could run, could run on no other connected worker that does not drain.",
    )


class ShortfallHold(_Hold):
    """The busy worker with the smallest shortfall is held once the head has waited and was overtaken (H1-H25)."""

    kind: Literal["shortfall"]
    after_s: Seconds = Field(
        description="Symptom: a large action waits as long as small ones keep coming, since each core that frees is taken before it fits. "
        "Mechanism: once the action at the head of the queue has waited this long since it was last queued and a pass places something "
        "queued after it, the busy worker closest to fitting it takes nothing queued after it until it is placed. Cost: that worker "
        "idles what it frees, up to the action's size, for as long as the longest action that runs on it; of two workers that is half "
        "the fleet. Set it above the typical queue wait; with a small value and many large actions some worker is held nearly always. "
        "Watch HoldMade, HoldMoved, HoldReleased and HoldNoCandidate. Limits: it needs an overtake, so a fleet that places nothing "
        "holds nothing; an action that waits only for a slot holds a whole worker; a hold may move, or drop until the next overtake; "
        "runs that declare too little memory cost one useless drain for each worker."
    )


class BackfillHold(_Hold):
    """EASY: the head gets the worker that is free soonest; what surely ends before may still run there.

    Needs `expected_duration_us` in actions; one without counts as running for ever.
    """

    kind: Literal["backfill"]
    after_s: Seconds = Field(
        default=0,
        description="How long the head must have waited since it was last queued; 0: it is reserved for as soon as it finds no room, also "
        "when nothing overtook it.",
    )


class DrainTimeHold(_Hold):
    """The busy worker that is expected to have room soonest is held once the head has waited and was overtaken.

    When that is, recorded durations of the same kind of action say: of those with the same mnemonic, where an action names none of the
    same target, else of those with the same requirements. Of a kind that was seen too rarely its producer's `expected_duration_us` does,
    else all kinds together. Where nothing does, the smallest shortfall decides.
    """

    kind: Literal["drain_time"]
    after_s: Seconds = Field(
        description="As under `shortfall`: how long the action at the head of the queue must have waited since it was last queued, before "
        "something that is placed past it makes a hold for it."
    )
    min_runs: Annotated[int, Field(ge=1, le=MOST_LAST_RUNS)] = Field(
        default=20,
        description="A kind's durations count once so many of its runs are recorded; until then the producer's expectation, or all kinds "
        "together, stand in.",
    )
    last_runs: Annotated[int, Field(ge=1, le=MOST_LAST_RUNS)] = Field(
        default=DEFAULT_LAST_RUNS,
        description="So many runs of each kind are remembered, the last ones: more know the rare long run better, fewer follow what "
        "changes sooner.",
    )

    @model_validator(mode="after")
    def _check_runs(self) -> "DrainTimeHold":
        if self.min_runs > self.last_runs:
            raise wrong_option(
                "last_runs", self.last_runs, f"at least min_runs ({self.min_runs}), or no kind is ever known"
            )
        return self


HoldConfig = Annotated[ShortfallHold | BackfillHold | DrainTimeHold, Field(discriminator="kind")]
"""The hold's policies; absent: no hold, at no cost."""
