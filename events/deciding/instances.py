"""Instances: their configuration, pausing and resuming them, and keys that are parked."""

from events import events as e
from events import facts as f
from events.codec import requirements_of
from events.config import SimpleScheduler, canonical_config, parse_config, resolve
from events.deciding.holding import policy_changed
from events.deciding.step import Step
from events.errors import InvalidConfiguration
from events.fitting import NotANumber, compile_demand, worker_totals
from events.reasons import IgnoreReason, RejectReason
from events.state import Instance, Stage


def configure(step: Step, fact: f.Configured) -> None:
    """Put a configuration in force; the first one makes the instance.

    One under which a queued action or a connected worker could no longer be read (a property becomes a minimum and is no number
    there) is refused, since those rows cannot be refused any more.
    """
    instance = step.shard.instances.get(fact.instance)
    try:
        config = parse_config(fact.config_json)
        if instance is not None:
            _check_rows(step, instance, resolve(config).base)
    except InvalidConfiguration as error:
        step.reject(RejectReason.INVALID_CONFIGURATION, error.field, error.value, error.rule, fact.instance)
        return
    text = canonical_config(config)
    if instance is not None and text == canonical_config(instance.scheduler):
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance)
    else:
        hold = None if instance is None else instance.config.hold
        step.emit(e.Configured, fact.instance, text)
        policy_changed(step, step.shard.instances[fact.instance], hold)


def _check_rows(step: Step, instance: Instance, config: SimpleScheduler) -> None:
    pools = config.pools()
    live = (operation for operation in instance.by_client.values() if operation.stage is not Stage.FINISHED)
    in_use = dict.fromkeys(operation.requirement_id for operation in live)
    for worker in instance.workers.values():
        in_use.update(dict.fromkeys(dispatch.demand.requirement_id for dispatch in worker.running.values()))
        try:
            worker_totals(worker.properties, pools)
        except NotANumber as error:
            field = f"supported_platform_properties.{error.name}"
            raise InvalidConfiguration(
                field, error.value, f"worker {worker.endpoint} is connected with this value, which is no number"
            ) from error
    if instance.hold is not None:
        in_use[instance.hold.requirement_id] = None
    for requirement_id in in_use:
        try:
            compile_demand(requirement_id, requirements_of(step.shard.requirements[requirement_id]), config, pools)
        except NotANumber as error:
            field = f"supported_platform_properties.{error.name}"
            raise InvalidConfiguration(
                field, error.value, "an action is queued or running with this value, which is no number"
            ) from error


def pause(step: Step, fact: f.InstancePaused) -> None:
    """Stop placing."""
    instance = step.instance_of(fact.instance, "")
    if instance is None:
        return
    if instance.paused:
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance)
    else:
        step.emit(e.InstancePaused, fact.instance)


def resume(step: Step, fact: f.InstanceResumed) -> None:
    """Place again, at once."""
    instance = step.instance_of(fact.instance, "")
    if instance is None:
        return
    if instance.paused:
        step.emit(e.InstanceResumed, fact.instance)
    else:
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance)


def release_key(step: Step, fact: f.KeyReleased) -> None:
    """Take facts with this key again; those that came meanwhile are in the dead letters."""
    if fact.key in step.shard.parked_keys:
        step.emit(e.KeyReleased, fact.key)
    else:
        step.ignore(IgnoreReason.NO_CHANGE, "", fact.key)
