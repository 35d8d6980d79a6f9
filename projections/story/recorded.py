"""A history in memory: every event of a shard, as a list. For exported and small logs, demonstrations and tests."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from events import events as e
from events.reasons import Outcome, RequeueCause
from projections.fold import fold
from projections.folding.operations import PAUSING
from projections.keys import readable
from projections.rows import MemoryRows, Rows
from projections.story.history import Overtaking, RunTold, Told
from projections.table import MissingRow, Table

KEEP_EVERY: Final = 5_000
"""Events between two tables that are kept, so that a moment is reached from the one before it."""

OF_AN_INSTANCE = (
    e.Configured
    | e.InstancePaused
    | e.InstanceResumed
    | e.DemandUnsatisfiable
    | e.DemandSatisfiable
    | e.HoldMade
    | e.HoldMoved
    | e.HoldReleased
    | e.HoldNoCandidate
)
OF_THE_SHARD = e.LeaderElected | e.LogSilent
OF_A_WORKER = e.WorkerAdmitted | e.WorkerDisconnected | e.WorkerDrained | e.WorkerUndrained | e.WorkerIdleCapped


class Recorded:
    """See `History`.

    Args:
        shard: its number.
        told: the shard's events from the first on, in order, without those of replaced leaders.
    """

    def __init__(self, shard: int, told: Iterable[Told]) -> None:
        self.shard = shard
        self._told = list(told)
        self._times = [each.event.at_us for each in self._told]
        self._kept: list[tuple[int, dict[bytes, bytes]]] = []
        self._table = Table(MemoryRows(), shard, kept_rows=1 << 62)
        self._lent = _Lent(self._table.rows)
        self._operations: defaultdict[int, list[Told]] = defaultdict(list)
        self._overtakings: defaultdict[int, list[Overtaking]] = defaultdict(list)
        self._workers: defaultdict[tuple[str, str], list[Told]] = defaultdict(list)
        self._runs: defaultdict[tuple[str, str], dict[int, RunTold]] = defaultdict(dict)
        self._instances: defaultdict[str, list[Told]] = defaultdict(list)
        self._named: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        _Indexing(self).index(self._told)

    @property
    def last_seq(self) -> int:
        """See `History.last_seq`."""
        return self._told[-1].event.seq if self._told else 0

    def seq_at(self, at_us: int) -> int:
        """See `History.seq_at`."""
        return bisect_right(self._times, at_us)

    def table_at(self, seq: int) -> Table:
        """See `History.table_at`. Raises MissingRow when the events do not begin with the first one."""
        if seq < self._table.shard.seq:
            at = bisect_right(self._kept, seq, key=lambda kept: kept[0]) - 1
            rows = MemoryRows()
            if at >= 0:
                rows.write(self._kept[at][1])
            self._table = Table(rows, self.shard, kept_rows=1 << 62)
        table = self._table
        for told in self._told[table.shard.seq : seq]:
            if told.event.seq != table.shard.seq + 1:
                raise MissingRow(f"event {told.event.seq} follows event {table.shard.seq} in a history kept in memory")
            fold(table, told.event)
            table.shard.next_offset = told.offset + 1
            if table.full:
                table.flush()
            if told.event.seq % KEEP_EVERY == 0 and (not self._kept or self._kept[-1][0] < told.event.seq):
                table.flush()
                assert isinstance(table.rows, MemoryRows), readable(table.prefix)
                self._kept.append((told.event.seq, dict(table.rows.by_key)))
        table.flush()
        self._lent.closed = True
        self._lent = _Lent(table.rows)
        return Table(self._lent, self.shard)

    def events_between(self, from_seq: int, to_seq: int) -> Sequence[Told]:
        """See `History.events_between`."""
        return self._told[max(0, from_seq - 1) : max(0, to_seq)]

    def events_of_operation(self, operation_id: int) -> Sequence[Told]:
        """See `History.events_of_operation`."""
        return self._operations.get(operation_id, [])

    def overtakings_of(self, operation_id: int) -> Sequence[Overtaking]:
        """See `History.overtakings_of`."""
        return self._overtakings.get(operation_id, [])

    def events_of_worker(self, instance: str, endpoint: str) -> Sequence[Told]:
        """See `History.events_of_worker`."""
        return self._workers.get((instance, endpoint), [])

    def runs_of_worker(self, instance: str, endpoint: str, from_us: int, to_us: int) -> Sequence[RunTold]:
        """See `History.runs_of_worker`."""
        runs = self._runs.get((instance, endpoint), {}).values()
        return [run for run in runs if run.since_us <= to_us and (run.until_us is None or run.until_us >= from_us)]

    def events_of_instance(self, instance: str, from_seq: int, to_seq: int) -> Sequence[Told]:
        """See `History.events_of_instance`."""
        found = sorted(self._instances.get(instance, []) + self._instances.get("", []), key=_seq)
        return found[bisect_left(found, from_seq, key=_seq) : bisect_right(found, to_seq, key=_seq)]

    def operations_named(self, name: str, instance: str | None = None) -> Sequence[int]:
        """See `History.operations_named`."""
        return sorted(
            identity
            for (where, called), identities in self._named.items()
            if called == name and instance in (None, where)
            for identity in identities
        )


class _Lent:
    """The rows as of a moment, until the next moment is asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.closed = False

    def _open(self) -> Rows:
        if self.closed:
            raise ValueError("another moment of this history was asked for since: these rows are closed")
        return self._rows

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`."""
        return self._open().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Rows.get_many`."""
        return self._open().get_many(keys)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`."""
        return self._open().scan(start, end)

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Nobody changes the past. Raises ValueError."""
        raise ValueError(f"the rows of a moment are only read; {len(changes)} were to be written")


def _seq(told: Told) -> int:
    return told.event.seq


class _Indexing:
    """Which event belongs to whom, told once when a history is made."""

    def __init__(self, history: Recorded) -> None:
        self._history = history
        self._owners: dict[int, str] = {}
        self._requirements: dict[int, int] = {}
        self._placed: dict[int, str] = {}  # a dispatch id that is paid for, to its endpoint
        self._revoked: set[int] = set()
        self._resumes: dict[tuple[str, str], int] = {}  # a paused worker, to what its report must reach

    def index(self, told: Iterable[Told]) -> None:
        history = self._history
        for each in told:
            event = each.event
            operation_id = getattr(event, "operation_id", None)
            if operation_id is not None:
                history._operations[operation_id].append(each)
            instance = getattr(event, "instance", "") or self._owners.get(
                -1 if operation_id is None else operation_id, ""
            )
            match event:
                case e.OperationQueued():
                    self._owners[event.operation_id] = event.instance
                    self._requirements[event.operation_id] = event.requirement_id
                    history._named[event.instance, event.client_operation_id].append(event.operation_id)
                case e.OperationJoined():
                    history._named[instance, event.client_operation_id].append(event.operation_id)
                case e.OperationDispatched():
                    self._dispatched(each.offset, event, instance)
                case e.OperationRequeued():
                    self._requeued(each, event, instance)
                case e.OperationFinished():
                    self._over(instance, event.dispatch_id, event, event.outcome.name.lower())
                    if event.outcome is Outcome.FREE_REQUEUES_EXHAUSTED:  # its worker is paused, too
                        endpoint = self._placed.get(event.dispatch_id, "")
                        self._resumes[instance, endpoint] = 0
                        history._workers[instance, endpoint].append(each)
                case e.KillRequested():
                    self._revoked.add(event.dispatch_id)
                    history._workers[instance, event.endpoint].append(each)
                case e.DispatchSettled():
                    self._revoked.discard(event.dispatch_id)
                    self._over(instance, event.dispatch_id, event, f"stopped_{event.result.name.lower()}")
                case e.WorkerReported():
                    self._reported(each, event)
                case _:
                    self._fleet(each, event, instance)

    def _fleet(self, each: Told, event: e.Event, instance: str) -> None:
        history = self._history
        if isinstance(event, OF_A_WORKER):
            history._workers[instance, event.endpoint].append(each)
        if isinstance(event, OF_AN_INSTANCE):
            history._instances[instance].append(each)
        if isinstance(event, OF_THE_SHARD):
            history._instances[""].append(each)
        match event:
            case e.WorkerAdmitted() | e.WorkerDisconnected():
                # What a new connection does not keep, and everything of a worker that is out, has ended.
                kept = event.kept if isinstance(event, e.WorkerAdmitted) else ()
                self._resumes.pop((instance, event.endpoint), None)
                for dispatch_id in list(history._runs[instance, event.endpoint]):
                    if dispatch_id not in kept:
                        self._revoked.discard(dispatch_id)
                        self._over(instance, dispatch_id, event, "lost")
            case e.HoldMade() | e.HoldReleased():
                history._workers[instance, event.endpoint].append(each)
            case e.HoldMoved():
                for endpoint in (event.from_endpoint, event.to_endpoint):
                    history._workers[instance, endpoint].append(each)

    def _dispatched(self, offset: int, event: e.OperationDispatched, instance: str) -> None:
        history = self._history
        self._placed[event.seq] = event.endpoint
        history._runs[instance, event.endpoint][event.seq] = RunTold(
            event.seq, offset, event.operation_id, self._requirements.get(event.operation_id, 0), event.at_us
        )
        if event.overtook is not None:
            history._overtakings[event.overtook].append(
                Overtaking(
                    event.seq, offset, event.at_us, event.operation_id, event.endpoint, backfilled=event.backfilled
                )
            )

    def _requeued(self, each: Told, event: e.OperationRequeued, instance: str) -> None:
        endpoint = event.endpoint or self._placed.get(event.dispatch_id, "")
        if event.requirement_id:
            self._requirements[event.operation_id] = event.requirement_id
        self._over(instance, event.dispatch_id, event, event.cause.name.lower())
        if event.cause in PAUSING:
            runs = self._history._runs[instance, endpoint].values()
            busy = event.cause is RequeueCause.DECLINED and any(run.until_us is None for run in runs)
            self._resumes[instance, endpoint] = event.needed_kib if busy else 0
            self._history._workers[instance, endpoint].append(each)

    def _reported(self, each: Told, event: e.WorkerReported) -> None:
        where = (event.instance, event.endpoint)
        free_kib = event.free_memory_kib
        if where in self._resumes and (free_kib is None or free_kib >= self._resumes[where]):
            del self._resumes[where]
            self._history._workers[where].append(each)

    def _over(self, instance: str, dispatch_id: int, event: e.Event, ended: str) -> None:
        """The worker pays no more for a run, unless it was told to stop and has not said that it did."""
        if dispatch_id in self._revoked or dispatch_id not in self._placed:
            return
        runs = self._history._runs[instance, self._placed[dispatch_id]]
        run = runs[dispatch_id]
        if run.until_us is None:
            runs[dispatch_id] = replace(run, until_us=event.at_us, until_seq=event.seq, ended=ended)
