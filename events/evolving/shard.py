"""Folds of what concerns the shard or an instance as a whole: leaders, time, refusals, parked keys, configurations, requirements."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.config import DrainTimeHold, parse_config, resolve
from events.config.hold import DEFAULT_LAST_RUNS
from events.evolving.locality import silence_endpoints
from events.evolving.rows import charge, demand_of
from events.fitting import worker_totals
from events.indexing import index_instance
from events.state import Instance, Shard, Stage


def _leader_elected(shard: Shard, event: e.LeaderElected) -> None:
    shard.leader_epoch = event.leader_epoch
    shard.cluster_id = event.cluster_id
    shard.facts_topic_id = event.facts_topic_id
    shard.events_topic_id = event.events_topic_id
    # What was known of endpoints is unconfirmed from here on: each row holds under which leader it was last heard.
    shard.elected_seq = event.seq
    shard.recovers_at = event.facts_end if event.seq > 1 else None  # before the first leader nothing was known


def _ticked(shard: Shard, event: e.Ticked) -> None:
    """Only time passes, and that is the envelope's."""


def _log_silent(shard: Shard, event: e.LogSilent) -> None:
    for instance in shard.instances.values():
        for worker in instance.workers.values():
            worker.last_seen_us += event.gap_us
            for dispatch in worker.running.values():
                dispatch.heard_at_us += event.gap_us
                dispatch.silent_us += event.gap_us
                if dispatch.revoked:
                    dispatch.kill_requested_at_us += event.gap_us
        for requirement_id, shortage in instance.unsatisfiable.items():
            since_us = shortage.since_us + event.gap_us
            instance.unsatisfiable[requirement_id] = shortage._replace(since_us=since_us)
        silence_endpoints(instance, event.gap_us)
    if shard.recovered_at_us:
        shard.recovered_at_us += event.gap_us
    for operation in shard.operations.values():
        if operation.clients is not None:
            for client in operation.clients.values():
                client.last_heard_us += event.gap_us


def _fact_ignored(shard: Shard, event: e.FactIgnored) -> None:
    shard.ignored[event.reason] += 1


def _fact_rejected(shard: Shard, event: e.FactRejected) -> None:
    shard.rejected[event.reason] += 1


def _key_parked(shard: Shard, event: e.KeyParked) -> None:
    shard.parked_keys[event.key] = None


def _key_released(shard: Shard, event: e.KeyReleased) -> None:
    shard.parked_keys.pop(event.key, None)


def _configured(shard: Shard, event: e.Configured) -> None:
    instance = shard.instances.get(event.instance)
    if instance is None:
        instance = shard.instances[event.instance] = Instance(event.instance)
    instance.scheduler = parse_config(event.config_json)
    instance.steps, instance.config, instance.upstream = resolve(instance.scheduler)
    instance.pools = instance.config.pools()
    policy = instance.config.hold
    instance.durations.keep(policy.last_runs if isinstance(policy, DrainTimeHold) else DEFAULT_LAST_RUNS)
    instance.demands = {}
    instance.unsatisfiable = {}  # said of another reading of the requirements
    for operation in instance.by_client.values():
        if operation.stage is not Stage.FINISHED:
            operation.demand = demand_of(shard, instance, operation.requirement_id)
    for worker in instance.workers.values():
        worker.totals = worker_totals(worker.properties, instance.pools)
        worker.remaining = list(worker.totals)
        worker.max_unaccepted = instance.config.max_unaccepted_dispatches
        for dispatch in worker.running.values():
            dispatch.demand = demand_of(shard, instance, dispatch.demand.requirement_id)
            charge(worker, dispatch.demand)
    if shard.live:
        index_instance(shard, instance)
        instance.shapes.changed = True  # what could be run may be read otherwise now


def _instance_paused(shard: Shard, event: e.InstancePaused) -> None:
    shard.instances[event.instance].paused = True


def _instance_resumed(shard: Shard, event: e.InstanceResumed) -> None:
    shard.instances[event.instance].paused = False


def _requirement_defined(shard: Shard, event: e.RequirementDefined) -> None:
    shard.requirement_ids[event.requirements] = event.requirement_id
    shard.requirements[event.requirement_id] = event.requirements


SHARD_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.LeaderElected: _leader_elected,
    e.Ticked: _ticked,
    e.LogSilent: _log_silent,
    e.FactIgnored: _fact_ignored,
    e.FactRejected: _fact_rejected,
    e.KeyParked: _key_parked,
    e.KeyReleased: _key_released,
    e.Configured: _configured,
    e.InstancePaused: _instance_paused,
    e.InstanceResumed: _instance_resumed,
    e.RequirementDefined: _requirement_defined,
}
