"""What a codec has checked before and meets again and again: requirements and the names of workers. Bounded; for one thread."""

from typing import Any

from events.errors import InvalidFact
from events.fact_rules import MAX_NAME_CHARS, REQUIREMENTS_RULE, shown
from events.payloads import canonical_requirements


class KnownRequirements:
    """Requirements that were checked before, by the bytes they came in: the same few come again and again.

    Bounded in entries and bytes; when full it starts afresh, which costs the checks once more and nothing else.
    """

    __slots__ = ("_canonical", "max_bytes", "max_entries")

    def __init__(self, max_entries: int = 16_384, max_bytes: int = 1024) -> None:
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self._canonical: dict[bytes, bytes] = {}

    def canonical(self, data: bytes, requirements: Any) -> bytes:
        """The canonical, valid bytes of the message `requirements`, which serialises to `data`. Raises InvalidFact."""
        known = self._canonical.get(data)
        if known is None:
            known = canonical_requirements([(item.name, item.value) for item in requirements.items])
            self._check(known)
            self._keep(data, known)
        return known

    def is_canonical(self, data: bytes) -> bool:
        """Whether `data` are canonical, valid bytes. Raises InvalidFact where they are not even valid."""
        known = self._canonical.get(data)
        if known is None:
            self._check(data)
            self._keep(data, data)
            return True
        return known == data

    def _check(self, data: bytes) -> None:
        fault = REQUIREMENTS_RULE.fault(data)
        if fault is not None:
            raise InvalidFact("ActionQueued", "requirements" + fault[0], shown(fault[1]), REQUIREMENTS_RULE.text)

    def _keep(self, data: bytes, canonical: bytes) -> None:
        if len(data) > self.max_bytes:
            return
        if len(self._canonical) >= self.max_entries:
            self._canonical.clear()
        self._canonical[data] = canonical


class KnownNames:
    """Endpoints that were checked before: one string object for each, so that its hash is worked out once. Bounded."""

    __slots__ = ("endpoints", "max_entries")

    def __init__(self, max_entries: int = 65_536) -> None:
        self.max_entries = max_entries
        self.endpoints: dict[str, str] = {}

    def endpoint(self, name: str) -> str:
        """The endpoint, remembered if it is a valid one; "" otherwise."""
        known = self.endpoints.get(name)
        if known is not None:
            return known
        if not 0 < len(name) <= MAX_NAME_CHARS or name.split() != [name]:
            return ""
        if len(self.endpoints) >= self.max_entries:
            self.endpoints.clear()
        self.endpoints[name] = name
        return name
