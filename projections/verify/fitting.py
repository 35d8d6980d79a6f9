"""Whether a worker takes an operation now, and which of several gets it (1.2, 1.3, 3.7). An audit's own arithmetic."""

from collections.abc import Iterable

from projections.verify.options import Options
from projections.verify.rows import Demand, Worker


def accepts(worker: Worker, options: Options) -> bool:
    """B1, L5, B6: neither paused nor draining, below its limits."""
    return (
        not worker.paused
        and not worker.draining
        and (not worker.inflight or len(worker.runs) < worker.inflight)
        and (not options.max_unaccepted or worker.unaccepted < options.max_unaccepted)
    )


def has_room(worker: Worker, demand: Demand, options: Options) -> bool:
    """Whether what it has left, reports and refused leaves room for the demand; whether it accepts is not asked."""
    left = worker.left
    for pool, asked in demand.amounts:
        if left[pool] < asked:
            return False
    if demand.memory >= 0 and not below_caps(worker, demand, options):
        return False
    return worker.able.get(demand.number) or worker.suits(demand)


def below_caps(worker: Worker, demand: Demand, options: Options) -> bool:
    """V1, B5: not as much memory as it refused while idle, nor more than it reports free (the whole worker is exempt)."""
    asked = demand.memory
    if worker.declined is not None and asked >= worker.declined:
        return False
    if not options.veto or worker.reported is None or (worker.admits_idle and not worker.runs):
        return True
    return asked <= worker.reported or asked >= worker.total[options.veto_pool]


def chosen(workers: Iterable[Worker], demand: Demand, strategy: str) -> Worker:
    """The strategy's choice; `workers` is not empty (A1, A2)."""
    if strategy == "least_recently_used":
        return min(workers, key=_recency)
    if strategy == "most_recently_used":
        return max(workers, key=_recency)
    if strategy == "least_loaded":
        return min(workers, key=lambda worker: (len(worker.runs), worker.recency))
    return min(workers, key=lambda worker: (*_leftover(worker, demand), len(worker.runs), worker.recency))


def _recency(worker: Worker) -> int:
    return worker.recency


def _leftover(worker: Worker, demand: Demand) -> tuple[int, int]:
    carried = sum(worker.properties.get(name) == value for name, value in demand.preferred)
    left, total = worker.left, worker.total
    return (
        -carried,
        sum((left[pool] - asked) * 1000 // total[pool] for pool, asked in demand.amounts if total[pool] > 0),
    )


def could_run(worker: Worker, demand: Demand) -> bool:
    """Whether what it registered suffices."""
    return worker.suits(demand) and demand.within(worker.total)


def shortfall(worker: Worker, demand: Demand) -> int:
    """H13: what it lacks, in thousandths of what it registered, each minimum rounded down."""
    total = 0
    for pool, asked in demand.amounts:
        registered, lacking = worker.total[pool], asked - worker.left[pool]
        if registered > 0 and lacking > 0:
            total += lacking * 1000 // registered
    return total


def waits_for_acceptance(worker: Worker, options: Options) -> bool:
    """B6: it has as many dispatches unaccepted as it may."""
    return 0 < options.max_unaccepted <= worker.unaccepted


def could_be_held(worker: Worker, demand: Demand, options: Options) -> bool:
    """H10: whether the worker, once drained, is expected to take it."""
    if worker.draining or worker.paused or waits_for_acceptance(worker, options) or not could_run(worker, demand):
        return False
    asked = demand.memory
    if asked < 0:
        return True
    if worker.declined is not None and asked >= worker.declined:
        return False
    if not options.veto or worker.reported is None or asked >= worker.total[options.veto_pool]:
        return True
    projected = worker.reported + worker.lent
    return asked <= (projected if worker.idle_free is None else min(projected, worker.idle_free))
