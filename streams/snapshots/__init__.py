"""Snapshots of shards in the log: written by a follower, checked by another fold, what deciders start from and facts are trimmed up to."""
