"""Events of what endpoints hold, of stable blobs, and of endpoints themselves (section 6)."""

from dataclasses import dataclass

from events.reasons import FetchFailure, SweepCause, WipeCause
from events.values import Digest


@dataclass(slots=True)
class BlobsAvailable:
    """A chunk of a worker's report was taken: the fact as it came. Digests are serialised `Digests`."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    connection_id: int
    report: int
    chunk: int = 0
    last: bool = True
    full: bool = False
    added: bytes = b""
    ac_pins: bytes = b""
    mirror_pending: int = 0
    mirror_pinned: int = 0
    mirror_pinned_bytes: int = 0


@dataclass(slots=True)
class BlobsEvicted:
    """The worker no longer holds these blobs: the fact as it came."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    connection_id: int
    digests: bytes


@dataclass(slots=True)
class PeerFetchFailed:
    """A fetch proved that the endpoint does not hold the blob: the fact as it came."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    digest: Digest
    failure: FetchFailure
    boot_epoch: int = 0
    reporter: str = ""


@dataclass(slots=True)
class BlobsStable:
    """A chunk of a broadcast was taken; every connected worker is told and acknowledges it by this `seq` (S-2)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    broadcast: int
    sequence: int = 0
    last: bool = True
    store: str = ""
    digests: bytes = b""


@dataclass(slots=True)
class BlobsStableAcknowledged:
    """The endpoint has taken the chunk (S-4)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    connection_id: int
    chunk_seq: int


@dataclass(slots=True)
class StableChunksDropped:
    """The endpoint acknowledges too little: its oldest chunks, up to `through_seq`, are not sent again."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    through_seq: int
    chunks: int


@dataclass(slots=True)
class LocalityWiped:
    """What this boot epoch of the endpoint held no longer counts (E2, E5, O1)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    boot_epoch: int
    cause: WipeCause


@dataclass(slots=True)
class EndpointConfirmed:
    """The endpoint was heard for the first time under this leader, on the connection that owns it."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    boot_epoch: int


@dataclass(slots=True)
class EndpointSwept:
    """The endpoint is forgotten, with all it held and all that waited for it (PM9)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    boot_epoch: int
    cause: SweepCause
    waited_us: int = 0


@dataclass(slots=True)
class WorkerFlapping:
    """The endpoint's boot epoch changed `changes` times in `within_us` (F-3)."""

    seq: int
    at_us: int
    cause_offset: int
    instance: str
    endpoint: str
    changes: int
    within_us: int
