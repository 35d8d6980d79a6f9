"""The policies a simulation compares, as the configurations they stand for."""

from __future__ import annotations

from enum import StrEnum

from events.config import AllocationStrategy, BackfillHold, HoldConfig, ShortfallHold, SimpleScheduler

AFTER_S = 60
"""What `hold` waits by default. `easy` waits for nothing: the head has its reservation at once."""


class Policy(StrEnum):
    """Who gets a worker that frees: whoever fits, the head after a wait, or the head by reservation."""

    NONE = "none"
    HOLD = "hold"
    EASY = "easy"


def configuration(
    policy: Policy,
    *,
    after_s: int | None = None,
    strategy: AllocationStrategy = AllocationStrategy.LEAST_RECENTLY_USED,
) -> SimpleScheduler:
    """The configuration of a policy. `after_s` None is the policy's own default; without a hold it says nothing."""
    hold: HoldConfig | None = None
    if policy is Policy.HOLD:
        hold = ShortfallHold(kind="shortfall", after_s=AFTER_S if after_s is None else after_s)
    elif policy is Policy.EASY:
        hold = BackfillHold(kind="backfill", after_s=after_s or 0)
    return SimpleScheduler(kind="simple", allocation_strategy=strategy, hold=hold)
