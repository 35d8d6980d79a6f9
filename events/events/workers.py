"""Events of the fleet."""

from dataclasses import dataclass

from events.reasons import DisconnectReason
from events.values import Properties


@dataclass(slots=True)
class WorkerAdmitted:
    """A worker is connected; `kept` are the dispatches that go on, every other one of this endpoint has ended before."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    boot_epoch: int
    connection_id: int
    properties: Properties = ()
    max_inflight: int = 0
    build: str = ""
    kept: tuple[int, ...] = ()
    reconnected: bool = False
    admits_when_idle: bool = False
    blobs_url: str = ""


@dataclass(slots=True)
class WorkerReported:
    """A keepalive was heard."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    connection_id: int
    free_memory_kib: int | None = None


@dataclass(slots=True)
class WorkerDrained:
    """No new work for this worker."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str


@dataclass(slots=True)
class WorkerUndrained:
    """The worker takes work again."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str


@dataclass(slots=True)
class WorkerDisconnected:
    """The worker is out; all its dispatches have ended."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    connection_id: int
    reason: DisconnectReason
    silent_us: int = 0


@dataclass(slots=True)
class WorkerIdleCapped:
    """What the worker reports free while idle caps what a drain is expected to free from now on (H12, H20)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    idle_free_kib: int
