"""The vocabulary and the pure core: facts in, events out, state as a fold of events."""
