"""The matcher without indexes: the naive pass asked anew for every placement. What `decide` says with it, it must say with the real one."""

from collections import Counter
from collections.abc import Iterator

from events.config import SimpleScheduler
from events.fitting import Demand
from events.matching import Match
from events.state import Operation, Worker
from tests.reference.naive_pass import Holding, naive_pass


class NaiveMatcher:
    """Same calls and answers as events.matching.Matcher; every question walks the rows."""

    def __init__(self, config: SimpleScheduler, pools: tuple[str, ...]) -> None:
        self._config, self._pools = config, pools
        self._queued: dict[int, Operation] = {}
        self._workers: dict[str, Worker] = {}
        self._hold: Holding | None = None

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def held(self) -> Worker | None:
        return None if self._hold is None else self._hold.worker

    @property
    def held_free_at_us(self) -> int:
        return 0 if self._hold is None else self._hold.free_at_us

    def enqueue(self, operation: Operation) -> None:
        self._queued[operation.operation_id] = operation

    def dequeue(self, operation: Operation) -> None:
        del self._queued[operation.operation_id]

    def add_worker(self, worker: Worker) -> None:
        self._workers[worker.endpoint] = worker

    def remove_worker(self, worker: Worker) -> None:
        del self._workers[worker.endpoint]
        if self.held is worker:
            self._hold = None

    def refresh(self, worker: Worker) -> None:
        """Rows are read when they are asked for."""

    def everything_dirty(self) -> None:
        """Nothing is ever taken for granted."""

    def hold(self, worker: Worker, operation: Operation, *, free_at_us: int = 0, backfill: bool = False) -> None:
        self._hold = Holding(worker, operation, free_at_us, backfill)

    def release_hold(self) -> None:
        self._hold = None

    def next_match(self, now_us: int = 0) -> Match | None:
        queued, workers = self._queued.values(), self._workers.values()
        for found in naive_pass(queued, workers, self._config, self._pools, self._hold, now_us):
            return Match(found.operation, found.worker, found.overtook, found.backfilled)
        return None

    def could_run_idle(self, demand: Demand) -> bool:
        return any(
            demand.need.satisfied_by(dict(worker.properties)) and demand.fits(worker.totals)
            for worker in self._workers.values()
        )

    def head(self) -> Operation | None:
        return min(self._queued.values(), key=lambda operation: operation.sort_key, default=None)

    def demands(self) -> Iterator[tuple[Demand, int]]:
        counts = Counter(operation.demand.requirement_id for operation in self._queued.values())
        by_id = {operation.demand.requirement_id: operation.demand for operation in self._queued.values()}
        return ((by_id[requirement_id], count) for requirement_id, count in counts.items())

    def waiting(self, requirement_id: int) -> list[Operation]:
        return [each for each in self._queued.values() if each.demand.requirement_id == requirement_id]

    def walk(self) -> Iterator[Operation]:
        return iter(sorted(self._queued.values(), key=lambda operation: operation.sort_key))
