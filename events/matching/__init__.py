"""The pass: which queued operation goes to which worker, found by indexes instead of a walk over queue and fleet."""

from events.matching.matcher import Match, Matcher
from events.matching.work import Work

__all__ = ["Match", "Matcher", "Work"]
