"""Makes a cluster ready for Headway: the topics, the shard map, and a first configuration for every new instance.

The steps, and what a second run finds after the process died behind each:

1. topics created or altered: nothing to do;
2. the default configuration published for instances that the map lacks: published again; nobody can have set another one,
   because clients refuse an instance that is not in the map;
3. the instances written to the map: nothing to do. The map comes last, so an instance in it has a configuration in its log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from events.codec import encode_fact
from events.config import DEFAULT_CONFIG, canonical_config
from events.facts import Configured
from streams.errors import InvalidInstance
from streams.log import Log, Outgoing
from streams.settings import DEFAULT_INSTANCE
from streams.shard_map import ShardMap, check_assignment, read_shard_map, write_shard_map
from streams.topics import FACTS, TopicState, topic_table


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What was done, one line each ([]: everything was as it should be), and the shard map as it is now."""

    done: tuple[str, ...]
    shard_map: ShardMap


def shards_of(existing: Mapping[str, TopicState]) -> int:
    """How many shards the existing topics have; 0 when there are none."""
    return existing[FACTS].partitions if FACTS in existing else 0


def parse_assignment(text: str) -> tuple[str, int | None]:
    """`NAME` or `NAME=SHARD` as (name, shard or None). Raises InvalidInstance."""
    name, separator, shard = text.rpartition("=")
    if not separator:
        name, shard = text, ""
    if not name:
        raise InvalidInstance(name, "its name is empty", remedy="Write --instance NAME or --instance NAME=SHARD")
    if separator and not (shard.isascii() and shard.isdigit()):
        raise InvalidInstance(
            name, f"{shard!r} is no shard number", remedy="Write --instance NAME or --instance NAME=SHARD"
        )
    return name, int(shard) if separator else None


async def provision(
    log: Log, instances: Mapping[str, int | None], *, shards: int | None = None, allow_moves: bool = False
) -> Provisioned:
    """Create what is missing, alter what differs, register the instances. Called again, it does nothing.

    Args:
        instances: name to shard; None leaves the choice: where the instance lives, else the shard with the fewest
            instances. Empty: `main`, when no instance is registered yet.
        shards: partitions per topic; None keeps what there is, and makes as many as the instances need, at least one.
        allow_moves: let a registered instance change its shard. Its queue and configuration stay behind.
    Raises:
        TopicConflict: fewer shards were asked for than there are.
        InvalidInstance: a name or shard cannot be registered, or a move was not allowed.
    """
    existing = await log.describe_topics()
    asked = max((shard + 1 for shard in instances.values() if shard is not None), default=1)
    count = shards if shards is not None else max(shards_of(existing), asked)
    done = await log.ensure_topics(topic_table(count))

    present = (await read_shard_map(log)).shards
    wanted = dict(instances) if instances or present else {DEFAULT_INSTANCE: None}
    assignments = _assigned(wanted, present, count)
    for instance, shard in assignments.items():
        check_assignment(instance, shard, count, present.get(instance), allow_moves=allow_moves)
    for instance, shard in assignments.items():
        if present.get(instance) != shard and (allow_moves or instance not in present):
            await _configure(log, instance, shard)
            done.append(f"configure {instance} in shard {shard} with the defaults")
    done += [
        f"register {instance} in shard {shard}"
        for instance, shard in assignments.items()
        if present.get(instance) != shard
    ]
    return Provisioned(tuple(done), await write_shard_map(log, assignments, allow_moves=allow_moves))


def _assigned(wanted: Mapping[str, int | None], present: Mapping[str, int], count: int) -> dict[str, int]:
    assignments: dict[str, int] = {}
    for instance, asked in wanted.items():
        lives_in = asked if asked is not None else present.get(instance)
        if lives_in is None:
            taken = [*present.values(), *assignments.values()]
            lives_in = min(range(count), key=taken.count)  # the lowest of those with the fewest instances
        assignments[instance] = lives_in
    return assignments


async def _configure(log: Log, instance: str, shard: int) -> None:
    fact = Configured(instance=instance, config_json=canonical_config(DEFAULT_CONFIG))
    await log.publish((FACTS, shard), [Outgoing(encode_fact(fact), key=instance.encode())])
