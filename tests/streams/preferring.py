"""Facts of workers that hold blobs and of actions that need them, and what every dispatch must say of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.payloads import command_bytes, digests_bytes
from events.state import Operation
from events.values import Digest
from projections.rows import MemoryRows
from streams.holders import FoldedHolders, sets_preference
from tests.streams.deciding import Cluster, configured

D, E = Digest(b"d" * 32, 1_000), Digest(b"e" * 32, 4_000)
PREFER = configured(locality={"prefer_from_bytes": 1})
DO_NOT = configured()
CONNECTIONS = {"w1": 7, "w2": 8, "w3": 9}


def worker(endpoint: str, boot_epoch: int = 1, connection_id: int = 0) -> f.WorkerConnected:
    number = connection_id or CONNECTIONS[endpoint]
    return f.WorkerConnected("main", endpoint, boot_epoch, number, (("cpu_millis", "64000"),))


def holds(endpoint: str, *digests: Digest, report: int = 1) -> f.BlobsAvailable:
    return f.BlobsAvailable("main", endpoint, CONNECTIONS[endpoint], report, full=True, added=digests_bytes(digests))


def action(name: str, *inputs: Digest, cpu_millis: int = 100) -> f.ActionQueued:
    requirements = canonical_requirements([("cpu_millis", str(cpu_millis))])
    return f.ActionQueued("main", name, requirements, command=command_bytes(["true"], (), inputs))


def dispatches(cluster: Cluster) -> dict[str, e.OperationDispatched]:
    """The last dispatch of each operation, by client_operation_id."""
    names: dict[int, str] = {}
    found = {}
    for event in cluster.events():
        if isinstance(event, e.OperationQueued):
            names[event.operation_id] = event.client_operation_id
        elif isinstance(event, e.OperationDispatched):
            found[names[event.operation_id]] = event
    return found


def went(cluster: Cluster) -> dict[str, str]:
    return {name: event.endpoint for name, event in dispatches(cluster).items()}


def assert_exact(cluster: Cluster) -> None:
    """`check_exact` of what stands in the cluster."""
    check_exact(cluster.events())


def check_exact(events: Sequence[e.Event]) -> None:
    """Each dispatch holds the answer of the events before it, under a configuration that asks; and nothing under any other."""
    held = FoldedHolders(MemoryRows(), 0)
    operations: dict[int, e.OperationQueued] = {}
    asks = False
    answered = 0
    for event in events:
        if isinstance(event, e.Configured):
            asks = sets_preference(event.config_json)
        elif isinstance(event, e.OperationQueued):
            operations[event.operation_id] = event
        elif isinstance(event, e.OperationDispatched):
            queued = operations[event.operation_id]
            asked = Operation(0, queued.instance, "", 0, 0, 0, 0, 0, None, queued.command)  # type: ignore[arg-type]
            due = held.most_bytes(asked) if asks else ()
            assert event.holders == due, f"{queued.client_operation_id}: {event}"
            saved = held.bytes_at(asked, event.endpoint) if asks else 0
            assert event.saved_bytes == saved
            answered += bool(due)
        held.see([event])
    assert answered, "no dispatch had holders: this proved nothing"


def below(path: Path) -> list[str]:
    """The names in a directory."""
    return sorted(each.name for each in path.iterdir())


async def cluster_with(*facts: f.Fact, **options: object) -> Cluster:
    cluster = await Cluster.start(**options)
    await cluster.put(*facts)
    return cluster


WORLD: Sequence[f.Fact] = (PREFER, worker("w1"), worker("w2"), holds("w2", D), action("a", D))
