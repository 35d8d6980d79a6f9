"""What an end says of the run: an exit code is one only where the run came to its own end."""

from typing import Final

from events.reasons import Outcome

WITH_EXIT_CODE: Final = (Outcome.COMPLETED, Outcome.COMPLETED_FROM_CACHE)


def exit_code_of(outcome: Outcome, exit_code: int) -> int | None:
    """The exit code of the action itself; None where it has none: it was stopped, could not be begun, or never ran.

    Events carry a number with every outcome, and that of the others is the scheduler's and says nothing of the action.
    """
    return exit_code if outcome in WITH_EXIT_CODE else None
