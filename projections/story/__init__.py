"""The story of an operation, a hold or a worker, in order, from the recorded history alone."""
