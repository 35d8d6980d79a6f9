"""The pass: place what fits, in queue order, until nothing queued fits any worker (section 4)."""

from events.deciding.step import Step
from events.events import OperationDispatched


def place(step: Step) -> None:
    """Run the pass of every instance. It touches only what this fact could have changed (events/matching)."""
    for instance in step.shard.instances.values():
        if instance.paused:
            continue
        matcher = instance.matcher
        while (match := matcher.next_match()) is not None:
            worker = match.worker
            step.emit(
                OperationDispatched,
                match.operation.operation_id,
                worker.endpoint,
                worker.connection_id,
                match.overtook,
            )
