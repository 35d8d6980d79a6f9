"""Actions that are queued, joined, cancelled or reprioritised, and the clients that wait for them: the facts against their events."""

from typing import Any

from projections.verify.case import Case
from projections.verify.catalogue import ADMITTED, CANCELLED, CLIENTS, FORGOTTEN, JOINED, ORDERED, REQUIREMENTS
from projections.verify.ending import stops
from projections.verify.leaving import client_leaves
from projections.verify.options import SECOND_US
from projections.verify.rows import FINISHED, Client, Demand, Domain, Op, Properties, amount_of
from projections.verify.turning import ignores, instance_of, operation_of, rejects
from proto.gen.headway.v1 import reasons_pb2 as r

LATEST_US = (1 << 63) // 2 - 1
LONGEST = (1 << 63) - 1

Items = tuple[tuple[str, str], ...]


def queue_action(case: Case, f: Any) -> None:
    """An operation of its own, or one more client of an identical live one (J1-J7)."""
    name = f.client_operation_id
    domain = instance_of(case, f.instance, name)
    if domain is None:
        return
    if name in domain.by_client:
        ignores(case, r.IGNORE_REASON_DUPLICATE_OPERATION, f.instance, name)
        return
    action = (f.action_digest.hash, f.action_digest.size_bytes) if f.cacheable and not f.skip_cache_lookup else (b"", 0)
    live = domain.actions.get(action) if action[0] else None
    if live is not None:
        case.expect(
            JOINED,
            "operation_joined",
            operation_id=live.id,
            client_operation_id=name,
            client_id=f.client_id,
            attached=f.attached,
        )
        return
    raw = f.requirements.SerializeToString()
    asked = case.shard.asked.get(raw)
    if asked is None:
        asked = tuple(sorted((item.name, item.value) for item in f.requirements.items))
        case.shard.asked[raw] = asked
    wanted = modified(domain, asked, f) if domain.options.steps else asked
    number = case.shard.numbers.get(wanted, 0)
    demand = domain.demands.get(number)
    if demand is None:
        for key, value in wanted:
            if domain.options.kinds.get(key) == "minimum" and not _is_amount(value):
                rejects(case, r.REJECT_REASON_INVALID_REQUIREMENT, f"requirements.{key}", value, f.instance, name)
                return
        demand = Demand(number, dict(wanted), domain.options)
    asked_number = 0 if wanted == asked else numbered(case, asked)
    number = numbered(case, wanted)
    queued_at_us = case.now_us
    if f.queued_at_us:
        queued_at_us = min(max(f.queued_at_us, case.now_us - domain.options.max_backdate_us, 0), case.now_us)
    p = case.due(ADMITTED, "operation_queued", f"client_operation_id={name!r}")
    if (
        p.client_operation_id != name
        or p.instance != f.instance
        or p.requirement_id != number
        or p.priority != f.priority
        or p.queued_at_us != queued_at_us
        or p.clamped_us != (f.queued_at_us - queued_at_us if f.queued_at_us else 0)
        or p.timeout_us != f.timeout_us
        or p.expected_duration_us != f.expected_duration_us
        or p.attached != f.attached
        or p.cacheable != f.cacheable
        or p.skip_cache_lookup != f.skip_cache_lookup
        or p.client_id != f.client_id
        or p.invocation_id != f.invocation_id
        or p.target_id != f.target_id
        or p.mnemonic != f.mnemonic
        or p.asked_requirement_id != asked_number
        or p.action_digest != f.action_digest
        or p.command != f.command
    ):
        expected = f"the fact's own values, requirement_id={number}, queued_at_us={queued_at_us}"
        case.find(ADMITTED, expected, case.shown())
    order = placed(domain, demand, f, queued_at_us) if domain.options.fair_share or domain.options.aging_us else None
    check_order(case, p, order)
    case.fold_next()
    if action[0] and domain.options.caches:
        case.expect(ADMITTED, "cache_lookup_requested", operation_id=case.offset, action_digest=f.action_digest)
    elif domain.options.upstream:
        case.expect(ADMITTED, "operation_forwarded", operation_id=case.offset, upstream=domain.options.upstream)


def numbered(case: Case, items: Items) -> int:
    """The number of these requirements; they get one at their first use."""
    number = case.shard.numbers.get(items)
    if number is None:
        number = len(case.shard.known)
        p = case.due(REQUIREMENTS, "requirement_defined", f"requirement_id={number}")
        said = tuple((item.name, item.value) for item in p.requirements.items)
        case.check(REQUIREMENTS, said == items and p.requirement_id == number, f"requirement_id={number} {dict(items)}")
        case.fold_next()
    return number


Place = tuple[int, int, str, int]
"""(priority, time_us, whose share, cost_us)."""


def placed(domain: Domain, demand: Demand, f: Any, queued_at_us: int) -> Place | None:
    """Where fair share or aging puts a new operation."""
    options = domain.options
    if options.fair_share:
        share = f.client_id if options.fair_share == "client" else f.invocation_id
        tag_us = min(max(domain.virtual_us, domain.shares.get(share, 0)), LATEST_US)
        millis = demand.of(options.pools.index("cpu_millis")) if "cpu_millis" in options.pools else None
        cores = max(1, -(-(millis or 0) // 1000))
        return (f.priority, tag_us, share, min((f.expected_duration_us or SECOND_US) * cores, LATEST_US))
    return _aged(domain, f.priority, queued_at_us)


def _aged(domain: Domain, priority: int, queued_at_us: int) -> Place | None:
    if not domain.options.aging_us:
        return None
    return (0, min(max(queued_at_us - priority * domain.options.aging_us, -LONGEST), LONGEST), "", 0)


def check_order(case: Case, p: Any, order: Place | None) -> None:
    """The next event's order against what it should be."""
    said = (p.order.priority, p.order.time_us, p.order.share_of, p.order.cost_us) if p.HasField("order") else None
    case.judged[ORDERED] += 1
    if said != order:
        case.find(ORDERED, f"order (priority, time_us, share_of, cost_us) = {order}", case.shown())


def modified(domain: Domain, asked: Items, f: Any) -> Items:
    """What the decorators make of the requirements, from the outside in (D2, D3)."""
    properties = dict(asked)
    for step in domain.options.steps:
        if step["kind"] == "property_modifier":
            for change in step["modifications"]:
                _modify(properties, change)
        elif step["kind"] == "historical_resource":
            _raise(properties, step, domain.hints, f)
    return tuple(sorted(properties.items()))


def _modify(properties: Properties, change: dict[str, Any]) -> None:
    name, value = change["name"], change.get("value")
    if change["kind"] == "add":
        properties[name] = value or ""
    elif change["kind"] == "remove":
        properties.pop(name, None)
    elif name in properties and value in (None, properties[name]):
        old = properties.pop(name)
        new = change.get("new_value")
        properties[change.get("new_name") or name] = old if new is None else new


def _raise(properties: Properties, step: dict[str, Any], hints: dict[tuple[str, str], tuple[int, int]], f: Any) -> None:
    for key in ((f.target_id, f.mnemonic), (f.target_id, ""), ("", f.mnemonic)):
        if any(key) and key in hints:
            names = (step.get("cpu_property", "cpu_millis"), step.get("memory_property", "memory_kib"))
            for name, hint in zip(names, hints[key], strict=True):
                value = properties.get(name, "0")
                if hint and value.isascii() and value.isdigit() and int(value) < hint:
                    properties[name] = str(hint)
            return


def _is_amount(value: str) -> bool:
    try:
        amount_of(value)
    except ValueError:
        return False
    return True


def cancel(case: Case, f: Any) -> None:
    """An operation ends, or one of its clients leaves."""
    op = operation_of(case, f)
    if op is None:
        return
    if op.stage == FINISHED:
        ignores(case, r.IGNORE_REASON_OPERATION_FINISHED, f.instance, op.name)
        return
    if f.client_operation_id and op.clients is not None:
        client = op.clients[f.client_operation_id]
        if client.left == r.CLIENT_LEAVING_GONE:
            ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance, client.name)
            return
        if any(not other.left for other in op.clients.values() if other is not client):
            client_leaves(case, CANCELLED, op, client, r.CLIENT_LEAVING_GONE)
            return
    stops(case, CANCELLED, op, r.OUTCOME_CANCELLED, kill=r.KILL_CAUSE_CANCELLED, message="")


def reprioritise(case: Case, f: Any) -> None:
    """Another priority, the same queued time."""
    op = operation_of(case, f)
    if op is None:
        return
    if op.stage == FINISHED:
        ignores(case, r.IGNORE_REASON_OPERATION_FINISHED, f.instance, op.name)
    elif op.priority == f.priority:
        ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance, op.name)
    else:
        p = case.due(CANCELLED, "operation_reprioritised", f"operation_id={op.id}")
        case.check(
            CANCELLED,
            (p.operation_id, p.priority) == (op.id, f.priority),
            f"operation_id={op.id} priority={f.priority}",
        )
        if op.share is not None:
            check_order(case, p, (f.priority, op.time_us, *op.share))
        else:
            check_order(case, p, _aged(op.domain, f.priority, op.queued_at_us))
        case.fold_next()


def forgets(case: Case) -> None:
    """At a tick: what finished long enough ago, but for what this very tick has ended (M1, M2)."""
    first_seq = case.events[0].seq
    for domain in case.shard.domains.values():
        finished = domain.finished
        if not finished or finished[0][1] > case.now_us - domain.options.retain_us:
            continue
        until_us = case.now_us - domain.options.retain_us
        through_seq = 0
        for seq, at_us, _ in finished:
            if at_us > until_us or seq >= first_seq:
                break
            through_seq = seq
        if through_seq:
            case.expect(FORGOTTEN, "operations_forgotten", instance=domain.name, through_seq=through_seq)


def hear_client(case: Case, f: Any) -> None:
    """A client still waits."""
    found = _attached(case, f)
    if found is None:
        return
    if found[1].left == r.CLIENT_LEAVING_GONE:
        ignores(case, r.IGNORE_REASON_UNKNOWN_CLIENT, f.instance, f.client_operation_id)
    else:
        case.expect(CLIENTS, "client_heard", instance=f.instance, client_operation_id=f.client_operation_id)


def client_gone(case: Case, f: Any) -> None:
    """A client says that it no longer waits."""
    found = _attached(case, f)
    if found is None:
        return
    if found[1].left:
        ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance, f.client_operation_id)
    else:
        client_leaves(case, CLIENTS, *found, r.CLIENT_LEAVING_GONE)


def _attached(case: Case, f: Any) -> tuple[Op, Client] | None:
    name = f.client_operation_id
    domain = instance_of(case, f.instance, name)
    if domain is None:
        return None
    op = domain.by_client.get(name)
    if op is None:
        ignores(case, r.IGNORE_REASON_UNKNOWN_CLIENT, f.instance, name)
    elif op.stage == FINISHED:
        ignores(case, r.IGNORE_REASON_OPERATION_FINISHED, f.instance, name)
    else:
        client = None if op.clients is None else op.clients[name]
        if client is not None and client.attached:
            return op, client
        ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance, name)
    return None
