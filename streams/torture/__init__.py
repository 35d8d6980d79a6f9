"""The torture: a workload on real Kafka while decider, read side and workers are killed at random points, judged from the log alone.

* `plan` draws everything from the seed: what is asked for, when, and who is killed when.
* `killing` kills a victim that is at work.
* `ledger` folds who holds what of which worker, in arithmetic of its own.
* `verdict` reads what the run left in the log and counts what must not be there.
"""
