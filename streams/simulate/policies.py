"""The policies a simulation compares, as the configurations they stand for."""

from __future__ import annotations

from enum import StrEnum

from events.config import AllocationStrategy, BackfillHold, DrainTimeHold, HoldConfig, ShortfallHold, SimpleScheduler

AFTER_S = 60
"""What `hold` and `drain_time` wait by default. `easy` waits for nothing: the head has its reservation at once."""


class Policy(StrEnum):
    """Who gets a worker that frees: whoever fits, the head after a wait (on the worker that lacks least, or that is expected to have room
    soonest by what is recorded of durations), or the head by reservation.
    """

    NONE = "none"
    HOLD = "hold"
    DRAIN_TIME = "drain_time"
    EASY = "easy"


def configuration(
    policy: Policy,
    *,
    after_s: int | None = None,
    strategy: AllocationStrategy = AllocationStrategy.LEAST_RECENTLY_USED,
) -> SimpleScheduler:
    """The configuration of a policy. `after_s` None is the policy's own default; without a hold it says nothing."""
    hold: HoldConfig | None = None
    waits_s = AFTER_S if after_s is None else after_s
    if policy is Policy.HOLD:
        hold = ShortfallHold(kind="shortfall", after_s=waits_s)
    elif policy is Policy.DRAIN_TIME:
        hold = DrainTimeHold(kind="drain_time", after_s=waits_s)
    elif policy is Policy.EASY:
        hold = BackfillHold(kind="backfill", after_s=after_s or 0)
    return SimpleScheduler(kind="simple", allocation_strategy=strategy, hold=hold)
