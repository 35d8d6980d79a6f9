"""The last bytes of an output, with the values of secrets masked.

A report goes into a log that cannot forget, so a secret must not reach it. Masking works on the exact bytes of the value; a value that
the command prints in another form (base64, one character a line) is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

TAIL_BYTES = 16 * 1024
"""The limit of the wire contract for each of the two tails."""

MASK = b"***"


class Masking:
    """Masks the values of the secrets of one run."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: a value that contains another one must be masked whole.
        values = sorted({value.encode("utf-8", "surrogateescape") for value in secrets if value}, key=len, reverse=True)
        self.longest = len(values[0]) if values else 0
        self._pattern = re.compile(b"|".join(map(re.escape, values))) if values else None

    def mask(self, data: bytes) -> bytes:
        """`data` with every value replaced."""
        return data if self._pattern is None else self._pattern.sub(MASK, data)

    def mask_text(self, text: str) -> str:
        """As `mask`, for a message."""
        return self.mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")

    def last(self, data: bytes, limit: int) -> bytes:
        """The last `limit` bytes, masked; a value across the cut is masked whole."""
        start = max(0, len(data) - limit)
        if self._pattern is not None:
            for found in self._pattern.finditer(data):
                if found.start() < start < found.end():
                    start = found.start()
        return self.mask(data[start:])[-limit:]


class Tail:
    """Keeps the last bytes of a stream: `limit`, and as many more as it takes to recognise a secret at the cut."""

    def __init__(self, masking: Masking, limit: int = TAIL_BYTES) -> None:
        self._masking = masking
        self._limit = limit
        self._keep = limit + max(0, masking.longest - 1)
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """More of the stream."""
        self._data += data
        # Cut now and then, not at every piece: moving the bytes costs more than holding some.
        if len(self._data) > 4 * self._keep:
            del self._data[: -self._keep]

    def value(self) -> bytes:
        """The tail, masked, at most `limit` bytes."""
        return self._masking.last(bytes(self._data[-self._keep :]), self._limit)
