"""The folds of events into rows, by what the events are about. `projections.fold` puts them together."""
