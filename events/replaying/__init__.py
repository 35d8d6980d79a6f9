"""Replay: records of the event log folded into rows without making an event of each, for states that nobody decides on yet.

`decode_event` and `evolve` say what an event does. The kinds that make up nearly all of a log have a second, fused form here, which takes
the fields from the parsed message straight into the rows; `tests/properties/test_replaying.py` holds both to equal states.
"""

from events.replaying.folding import FUSED, fold_values

__all__ = ["FUSED", "fold_values"]
