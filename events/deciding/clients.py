"""Who waits for an operation: clients are heard, fall silent and leave (C1-C5).

Only attached clients send keepalives, so only they can fall silent; an operation that has any other client is never abandoned.
"""

from events import events as e
from events import facts as f
from events.deciding.endings import stop
from events.deciding.step import Step
from events.reasons import ClientLeaving, IgnoreReason, KillCause, Outcome
from events.state import Client, Operation, Stage

NOBODY_WAITS = "no more clients listening"


def hear(step: Step, fact: f.ClientHeard) -> None:
    """A client still waits. One that had been silent for too long counts again, while its operation lives (C3)."""
    found = _attached(step, fact)
    if found is None:
        return
    _, client = found
    if client.left is ClientLeaving.GONE:
        step.ignore(IgnoreReason.UNKNOWN_CLIENT, fact.instance, fact.client_operation_id)
    else:
        step.emit(e.ClientHeard, fact.instance, fact.client_operation_id)


def depart(step: Step, fact: f.ClientGone) -> None:
    """A client says that it no longer waits."""
    found = _attached(step, fact)
    if found is None:
        return
    operation, client = found
    if client.left:
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance, fact.client_operation_id)
    else:
        leave(step, operation, client, ClientLeaving.GONE)


def leave(step: Step, operation: Operation, client: Client, reason: ClientLeaving, silent_us: int = 0) -> None:
    """The client no longer counts; after the last one the operation is abandoned (C2, C4)."""
    step.emit(e.ClientLeft, operation.instance, operation.operation_id, client.client_operation_id, reason, silent_us)
    if not waits_for(operation):
        stop(step, operation, Outcome.ABANDONED, KillCause.ABANDONED, message=NOBODY_WAITS)


def waits_for(operation: Operation) -> bool:
    """Whether anybody does: a client that has not left, or a producer that never said it would listen."""
    return operation.clients is None or any(not client.left for client in operation.clients.values())


def _attached(step: Step, fact: f.ClientHeard | f.ClientGone) -> tuple[Operation, Client] | None:
    """The live operation and its attached client; None after the fact was ignored or rejected."""
    instance = step.instance_of(fact.instance, fact.client_operation_id)
    if instance is None:
        return None
    operation = instance.by_client.get(fact.client_operation_id)
    if operation is None:
        step.ignore(IgnoreReason.UNKNOWN_CLIENT, fact.instance, fact.client_operation_id)
        return None
    if operation.stage is Stage.FINISHED:
        step.ignore(IgnoreReason.OPERATION_FINISHED, fact.instance, fact.client_operation_id)
        return None
    client = None if operation.clients is None else operation.clients[fact.client_operation_id]
    if client is None or not client.attached:  # its operation goes on whether it listens or not
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance, fact.client_operation_id)
        return None
    return operation, client
