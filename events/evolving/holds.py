"""Folds of the hold: which worker is kept draining, and for which operation (section 5)."""

from collections.abc import Callable
from typing import Any

from events.state import Shard

HOLDS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {}
