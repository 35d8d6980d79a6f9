"""What is said at the end of a fact of requirements that no worker could run even if idle (X2-X5)."""

from projections.verify.case import Case
from projections.verify.catalogue import VERDICTS
from projections.verify.fitting import could_run
from projections.verify.ledger import demand_of
from projections.verify.rows import Demand, Domain


def judge_verdicts(case: Case) -> None:
    """Of each requirement that began to wait, and of all of them where the kinds of worker changed."""
    for domain in case.shard.domains.values():
        if not domain.unjudged and not domain.fleet_changed:
            continue
        asked = sorted({**domain.lines, **domain.shortages}) if domain.fleet_changed else list(domain.unjudged)
        domain.fleet_changed = False
        domain.unjudged = {}
        for number in asked:
            _judge(case, domain, number)


def _judge(case: Case, domain: Domain, number: int) -> None:
    demand = demand_of(case, domain, number)
    known = domain.shortages.get(number)
    if any(could_run(worker, demand) for worker in domain.workers.values()):
        if known is not None:
            case.expect(VERDICTS, "demand_satisfiable", instance=domain.name, requirement_id=number)
        return
    nobody = not domain.workers
    if nobody and not domain.options.no_worker_us:
        return
    if (known is None or known[1] != nobody) and (known is not None or number in domain.lines):
        case.expect(
            VERDICTS,
            "demand_unsatisfiable",
            instance=domain.name,
            requirement_id=number,
            properties=[] if nobody else _lacking(domain, demand),
            no_workers=nobody,
        )


def _lacking(domain: Domain, demand: Demand) -> list[str]:
    """What no single worker has; all that is asked for where each has some worker."""
    workers = list(domain.workers.values())
    pools = domain.options.pools
    some: dict[str, bool] = {
        pools[pool]: any(worker.total[pool] >= asked for worker in workers) for pool, asked in demand.amounts
    }
    some |= {n: any(worker.properties.get(n) == v for worker in workers) for n, v in demand.exact}
    some |= {n: any(n in worker.properties for worker in workers) for n in demand.present}
    some |= {n: any(worker.properties.get(n, v) == v for worker in workers) for n, v in demand.unknown}
    return [name for name in sorted(some) if not some[name]] or sorted(some)
