"""`infra/locality-restart`: the scheduler is killed with a map of a million pairs, and workers return, change or stay away."""
