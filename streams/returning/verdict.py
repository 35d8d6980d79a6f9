"""What the scene finds: one check after the other, each with what was seen and what was wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so."""

    name: str
    ok: bool
    seen: Any
    wanted: Any

    def as_dict(self) -> dict[str, Any]:
        """As the summary has it."""
        return {"check": self.name, "ok": self.ok, "seen": self.seen, "wanted": self.wanted}


@dataclass(slots=True)
class Findings:
    """All checks so far, in their order, and what was measured beside them."""

    checks: list[Check] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)

    def equal(self, name: str, seen: Any, wanted: Any) -> None:
        """It must be this."""
        self.checks.append(Check(name, seen == wanted, seen, wanted))

    def at_most(self, name: str, seen: float, limit: float) -> None:
        """It must not be more."""
        self.checks.append(Check(name, seen <= limit, seen, f"at most {limit:g}"))

    def at_least(self, name: str, seen: float, limit: float) -> None:
        """It must not be less."""
        self.checks.append(Check(name, seen >= limit, seen, f"at least {limit:g}"))

    @property
    def wrong(self) -> list[Check]:
        """Those that are not so."""
        return [check for check in self.checks if not check.ok]
