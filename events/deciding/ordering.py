"""Where an operation stands in the queue when more than priority and queued time decides: fair share and aging, both off by default.

Fair share is start-time fair queueing inside equal priority: whose work was served least comes first. Each share has a tag, the virtual
time at which what it has queued so far is served; a new operation starts at its share's tag, or at the instance's virtual time where that
is later, so that nobody saves up a claim while idle. Virtual time follows what is dispatched. Aging makes waiting worth priority: it is a
fixed key, so nothing in the queue moves while time passes.

The place is decided once, when the operation is queued, and stands in the event; another configuration counts for what comes after it.
"""

from events.config import SECOND_US, SimpleScheduler
from events.facts import ActionQueued
from events.fitting import Demand
from events.state import Instance, Operation
from events.values import U63_MAX, QueueOrder

UNKNOWN_DURATION_US = SECOND_US
"""What an operation without an expected duration is charged for each core."""

MILLIS_PER_CORE = 1000
LATEST_US = U63_MAX // 2
"""No tag lies later: what many absurdly long operations add up to must still fit the record."""


def order_when_queued(instance: Instance, demand: Demand, fact: ActionQueued, queued_at_us: int) -> QueueOrder | None:
    """The place of a new operation; None where priority and queued time decide alone."""
    config = instance.config
    if config.fair_share is not None:
        share_of = fact.client_id if config.fair_share.between == "client" else fact.invocation_id
        shares = instance.shares
        tag_us = min(max(shares.virtual_us, shares.tags.get(share_of, 0)), LATEST_US)
        return QueueOrder(fact.priority, tag_us, share_of, _cost_us(instance, demand, fact.expected_duration_us))
    return _aged(config, fact.priority, queued_at_us)


def order_when_reprioritised(instance: Instance, operation: Operation, priority: int) -> QueueOrder | None:
    """Its place under another priority: its share's tag stays, as its queued time does."""
    if operation.order is not None and operation.order.cost_us:
        return operation.order._replace(priority=priority)
    return _aged(instance.config, priority, operation.queued_at_us)


def _aged(config: SimpleScheduler, priority: int, queued_at_us: int) -> QueueOrder | None:
    """One step of priority is worth `aging_s` of waiting."""
    if config.aging_s is None:
        return None
    time_us = queued_at_us - priority * config.aging_s * SECOND_US
    return QueueOrder(0, min(max(time_us, -U63_MAX), U63_MAX))


def _cost_us(instance: Instance, demand: Demand, expected_duration_us: int) -> int:
    """What it is charged: its expected duration on so many cores, at least one."""
    cores = 1
    if "cpu_millis" in instance.pools:
        pool = instance.pools.index("cpu_millis")
        asked = next((amount for asked_pool, amount in demand.amounts if asked_pool == pool), 0)
        cores = max(1, -(-asked // MILLIS_PER_CORE))
    return min((expected_duration_us or UNKNOWN_DURATION_US) * cores, LATEST_US)
