"""What another configuration would have done: a recorded stretch of a shard decided again in a world that answers as the record did."""
