"""Read folds of the event log: the scheduler state table's rows, and what is answered from them. Pure: no clock, no I/O."""
