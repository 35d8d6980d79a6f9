"""Results of actions that this worker ran, which it pins for the action cache: a small file for each, named by the action's digest.

The set of names rides in every report (A-1), apart from the blobs: a result and a blob may have the same digest, and an upload must not be
skipped because a peer pins a result of that name. Bounded in number; results known to be in durable storage go first, then the oldest.
Safe for threads.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from events.values import Digest
from streams.blobs.errors import UnreadableDigest
from streams.blobs.naming import digest_named, name_of

MOST_RESULTS = 4_096
"""As many as one chunk of a report names."""


class ActionResults:
    """The results below `folder`, which is made where it is not there. `unreadable` counts the files removed at the start."""

    def __init__(self, folder: Path, *, most: int = MOST_RESULTS) -> None:
        if most < 0:
            raise ValueError(f"at most {most} results is refused: from 0")
        self._folder = folder
        self._most = most
        self._lock = threading.Lock()
        self._stable: OrderedDict[Digest, None] = OrderedDict()
        self._pinned: OrderedDict[Digest, None] = OrderedDict()
        self.unreadable = 0
        self.changed = False
        """Whether the set has changed since `pins`."""
        folder.mkdir(parents=True, exist_ok=True)
        found: list[tuple[int, Digest]] = []
        for path in folder.iterdir():
            if path.is_dir():
                continue  # nothing of ours
            try:
                digest = digest_named(path.name)
                json.loads(path.read_bytes())
            except (UnreadableDigest, ValueError):
                path.unlink()
                self.unreadable += 1
                continue
            found.append((path.stat().st_mtime_ns, digest))
        for _, digest in sorted(found):
            self._pinned[digest] = None
        self._bound()

    def __len__(self) -> int:
        return len(self._stable) + len(self._pinned)

    def record(self, action: Digest, exit_code: int, outputs: Mapping[str, Digest]) -> None:
        """Keep a result. An action whose digest is no SHA-256 is not kept. Raises OSError."""
        name = name_of(action)
        try:
            digest_named(name)
        except UnreadableDigest:
            return
        content = {"exit_code": exit_code, "outputs": {path: name_of(digest) for path, digest in outputs.items()}}
        half = self._folder / f".{name}"
        with self._lock:
            half.write_text(json.dumps(content, separators=(",", ":")) + "\n")
            os.rename(half, self._folder / name)
            self._stable.pop(action, None)
            self._pinned.pop(action, None)
            self._pinned[action] = None
            self.changed = True
            self._bound()

    def result(self, action: Digest) -> dict[str, Any] | None:
        """What is kept of an action: `exit_code`, and `outputs` as names of blobs by path. None: nothing."""
        with self._lock:
            if action not in self._pinned and action not in self._stable:
                return None
            found: dict[str, Any] = json.loads((self._folder / name_of(action)).read_bytes())
            return found

    def mark_stable(self, actions: Iterable[Digest]) -> None:
        """These are in durable storage: they may go first."""
        with self._lock:
            for action in actions:
                if action in self._pinned:
                    del self._pinned[action]
                    self._stable[action] = None

    def pins(self) -> list[Digest]:
        """The whole set, sorted."""
        with self._lock:
            self.changed = False
            return sorted([*self._stable, *self._pinned])

    def _bound(self) -> None:
        while len(self) > self._most:
            digest, _ = (self._stable or self._pinned).popitem(last=False)
            (self._folder / name_of(digest)).unlink(missing_ok=True)
            self.changed = True
