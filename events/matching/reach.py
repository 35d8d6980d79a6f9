"""Signatures, needs and reaches: who can serve what, as far as it never changes with load.

* A *signature* is what a worker declares, cut down to the names some need asks for: a host name that nobody asks for splits nothing.
* A signature's workers stand in one line per machine type (equal totals).
* A *need* is the static part of a demand. Needs that the same signatures satisfy share a *reach*: a requirement of the unknown kind that
  no worker declares costs nothing, however many values it takes.
* A reach has the shelf of its classes, and the lines of its workers.
"""

from events.fitting import StaticNeed
from events.matching.class_index import Shelf
from events.matching.demand_class import DemandClass
from events.matching.leftover_line import LeftoverLine
from events.matching.loaded_line import LoadedLine
from events.matching.slot_line import SlotLine
from events.values import Properties

Line = SlotLine | LoadedLine | LeftoverLine
"""Workers of one machine type in the order of the strategy."""


class Signature:
    """Workers that declare the same, as far as anybody asks."""

    __slots__ = ("bit", "declared", "lines", "merged", "properties", "reaches")

    def __init__(self, properties: Properties, bit: int) -> None:
        self.properties = properties
        self.declared = dict(properties)
        self.bit = bit  # in the masks of reaches
        self.lines: dict[tuple[int, ...], Line] = {}  # by totals
        self.reaches: dict[Reach, None] = {}  # those it belongs to
        self.merged: list[Line] = []  # the merged lines its workers stand in as well


class Need:
    """A static need and the classes under it."""

    __slots__ = ("classes", "need", "reach")

    def __init__(self, need: StaticNeed) -> None:
        self.need = need
        self.classes: dict[DemandClass, None] = {}
        self.reach: Reach

    def names(self) -> list[str]:
        """The property names it asks for."""
        need = self.need
        return [*(name for name, _ in need.exact), *need.present, *(name for name, _ in need.unknown)]


class Reach:
    """The needs that the same signatures satisfy, and their classes."""

    __slots__ = ("_lines", "line_count", "mask", "merged", "needs", "shelf", "signatures")

    def __init__(self, mask: int, signatures: dict[Signature, None], shelf: Shelf) -> None:
        self.mask = mask  # of the bits of its signatures
        self.signatures = signatures
        self.shelf = shelf
        self.needs: dict[Need, None] = {}
        self.merged: Line | None = None
        self.line_count = sum(len(signature.lines) for signature in signatures)
        self._lines: list[Line] | None = None

    def lines(self) -> list[Line]:
        """The lines of its signatures."""
        if self._lines is None:
            self._lines = [line for signature in self.signatures for line in signature.lines.values()]
        return self._lines

    def count_line(self, step: int) -> None:
        """A signature got (1) or lost (-1) a line."""
        self.line_count += step
        self._lines = None

    def drop_merged(self) -> None:
        """The merged line no longer covers the reach, or is no longer worth its upkeep."""
        if self.merged is not None:
            for signature in self.signatures:
                signature.merged = [line for line in signature.merged if line is not self.merged]
            self.merged = None
