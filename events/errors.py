"""Errors of the core. Each has a code, says what, where and the numbers, and what to do."""


class HeadwayError(Exception):
    """A fault a person can act on. `code` is stable and named in the runbooks."""

    code = "HW-000"

    def __str__(self) -> str:
        return f"{self.code}: {super().__str__()}"


class InvalidConfiguration(HeadwayError):
    """A configuration breaks a rule; `field` is its path, `value` what stood there, `rule` what should."""

    code = "HW-101"

    def __init__(self, field: str, value: str, rule: str) -> None:
        super().__init__(f"configuration field {field!r}: {value!r} is refused: {rule}")
        self.field, self.value, self.rule = field, value, rule


class InvalidFact(HeadwayError):
    """A fact breaks a rule of the wire contract. It becomes a `FactRejected` event."""

    code = "HW-102"

    def __init__(self, kind: str, field: str, value: str, rule: str) -> None:
        super().__init__(f"fact {kind or '?'} field {field!r}: {value!r} is refused: {rule}")
        self.kind, self.field, self.value, self.rule = kind, field, value, rule


class SequenceBroken(HeadwayError):
    """The log has a gap or an event out of order; a reader that sees it stops and never folds past it."""

    code = "HW-201"


class ChainBroken(HeadwayError):
    """A record's chain digest does not follow from the record before it."""

    code = "HW-202"


class UnknownEvent(HeadwayError):
    """A record of the event log cannot be read by this build."""

    code = "HW-203"


class SnapshotUnreadable(HeadwayError):
    """A snapshot cannot be read by this build, or is not what it says. It is dropped, never waited for: the log has the same state."""

    code = "HW-206"
