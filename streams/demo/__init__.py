"""The demonstration: a slice of a real trace through a real scheduler on a real Kafka, with the decider killed in the middle."""
