"""Facts that change nothing, are refused or stand in the log as they came, and the rows that a fact names."""

from typing import Any

from projections.verify.case import Case
from projections.verify.catalogue import IGNORED, REJECTED
from projections.verify.rows import Domain, Op, Worker
from proto.gen.headway.v1 import reasons_pb2 as r

VALUE_CHARS = 128


def ignores(
    case: Case, reason: int, instance: str = "", key: str = "", dispatch_id: int = 0, *, rule: int = IGNORED
) -> None:
    """The fact changes nothing, for this reason."""
    fact = case.fact
    assert fact is not None, "a fact is judged where it is there"
    case.expect(
        rule,
        "fact_ignored",
        fact_kind=fact.kind,
        reason=reason,
        instance=instance,
        key=key or fact.key,
        dispatch_id=dispatch_id,
    )


def cut(value: str) -> str:
    """A value as a rejection names it."""
    return value if len(value) <= VALUE_CHARS else value[: VALUE_CHARS - 1] + "…"


def rejects(case: Case, reason: int, field: str, value: str, instance: str = "", key: str = "") -> None:
    """The fact is invalid, for this reason; the text of the rule is not looked at."""
    fact = case.fact
    assert fact is not None, "a fact is judged where it is there"
    case.expect(
        REJECTED,
        "fact_rejected",
        fact_kind=fact.kind,
        reason=reason,
        field=field,
        value=cut(value),
        instance=instance,
        key=key or fact.key,
    )


def is_as_it_came(case: Case, rule: int, kind: str, f: Any) -> None:
    """The fact stands in the log under its own name, as it came."""
    p = case.due(rule, kind)
    case.check(rule, p == f, "the fact as it came: " + " ".join(str(f).split())[:200])
    case.fold_next()


def instance_of(case: Case, name: str, key: str) -> Domain | None:
    """The instance; None after the fact was rejected for it."""
    domain = case.shard.domains.get(name)
    if domain is None:
        rejects(case, r.REJECT_REASON_UNKNOWN_INSTANCE, "instance", name, name, key)
    return domain


def worker_of(
    case: Case, f: Any, connection_id: int | None = None, dispatch_id: int = 0
) -> tuple[Domain, Worker] | None:
    """The worker that a fact names, on this connection where one is given; None after it was ignored or rejected."""
    domain = instance_of(case, f.instance, f.endpoint)
    if domain is None:
        return None
    worker = domain.workers.get(f.endpoint)
    if worker is None:
        ignores(case, r.IGNORE_REASON_UNKNOWN_WORKER, f.instance, f.endpoint, dispatch_id)
    elif connection_id is not None and worker.connection_id != connection_id:
        ignores(case, r.IGNORE_REASON_STALE_CONNECTION, f.instance, f.endpoint, dispatch_id)
    else:
        return domain, worker
    return None


def operation_of(case: Case, f: Any) -> Op | None:
    """The operation that a fact names by either id; None after it was ignored or rejected."""
    name = getattr(f, "client_operation_id", "")
    domain = instance_of(case, f.instance, name)
    if domain is None:
        return None
    by_id = not hasattr(f, "client_operation_id") or f.HasField("operation_id")
    op = case.shard.ops.get(f.operation_id) if by_id else domain.by_client.get(name)
    if op is None or op.domain is not domain:
        ignores(case, r.IGNORE_REASON_UNKNOWN_OPERATION, f.instance, name)
        return None
    return op
