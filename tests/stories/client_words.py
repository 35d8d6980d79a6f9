"""More words for stories: clients that share and leave operations, decorators and edges, and what goes out to workers and downstream."""

import json
from typing import TYPE_CHECKING

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.reasons import CacheAnswer, RunResult, UpstreamState
from events.state import Operation
from events.values import Digest, Usage
from proto.gen.headway.v1 import commands_pb2, placements_pb2
from tests.stories.notation import MAIN, Step, fact

if TYPE_CHECKING:
    from tests.stories.story import Story

SECOND_US = 1_000_000


def submit(
    name: str,
    digest: str = "",
    *,
    cpu: int | None = None,
    memory: int | None = None,
    priority: int = 0,
    queued_s: float | None = None,
    attached: bool = False,
    skip_cache: bool = False,
    timeout_s: float = 0,
    expected_s: float = 0,
    target: str = "",
    mnemonic: str = "",
    command: bytes = b"",
    instance: str = MAIN,
    **properties: str,
) -> Step:
    """A client wants an action; those of one `digest` are the same cacheable action, without one it is not cacheable."""

    def step(story: "Story") -> None:
        asked = dict(properties)
        if cpu is not None:
            asked["cpu_millis"] = str(cpu * 1000)
        if memory is not None:
            asked["memory_kib"] = str(memory)
        made = f.ActionQueued(
            instance,
            name,
            canonical_requirements(asked.items()),
            priority,
            0 if queued_s is None else story.now_us + round(queued_s * SECOND_US),
            attached=attached,
            cacheable=bool(digest),
            skip_cache_lookup=skip_cache,
            timeout_us=round(timeout_s * SECOND_US),
            expected_duration_us=round(expected_s * SECOND_US),
            target_id=target,
            mnemonic=mnemonic,
            command=command,
        )
        if digest:
            made.action_digest = digest_of(digest)
        story.take(made)

    return step


def digest_of(text: str) -> Digest:
    """A digest that says its text."""
    return Digest(text.encode().ljust(32, b"."), len(text))


def hear(name: str) -> Step:
    """A client still waits."""
    return fact(f.ClientHeard(MAIN, name))


def depart(name: str) -> Step:
    """A client says that it no longer waits."""
    return fact(f.ClientGone(MAIN, name))


def configured(config: dict[str, object], instance: str = MAIN) -> Step:
    """Any configuration, decorators and all."""
    return fact(f.Configured(instance, json.dumps(config)))


def answer(name: str, said: CacheAnswer, exit_code: int = 0, message: str = "") -> Step:
    """The cache edge answers."""
    return lambda story: story.take(f.CacheAnswered(MAIN, row(story, name).operation_id, said, exit_code, message))


def relay(name: str, state: UpstreamState, **how: object) -> Step:
    """The upstream edge says what became of an operation there."""
    return lambda story: story.take(f.UpstreamReported(MAIN, row(story, name).operation_id, state, **how))


def killed_for_memory(name: str, peak_kib: int = 0) -> Step:
    """The worker of an operation's last dispatch had to kill it for its memory."""

    def step(story: "Story") -> None:
        endpoint = story.endpoints[name]
        story.take(
            f.ActionFinished(
                MAIN,
                endpoint,
                story.connections[endpoint],
                story.dispatch_ids[name],
                RunResult.OUT_OF_MEMORY,
                -9,
                usage=Usage(peak_memory_kib=peak_kib),
            )
        )

    return step


def row(story: "Story", name: str, instance: str = MAIN) -> Operation:
    """The operation a client knows by this name."""
    return story.rehearsal.shard.instances[instance].by_client[name]


def of_kind(story: "Story", *kinds: type) -> list[e.Event]:
    """The events of these kinds so far."""
    return [event for event in story.every_event() if isinstance(event, kinds)]


def dispatches_of(story: "Story", name: str) -> list[str]:
    """Endpoints an operation was dispatched to, one after the other."""
    return [
        event.endpoint for event in of_kind(story, e.OperationDispatched) if story.names[event.operation_id] == name
    ]


def placements(story: "Story") -> list[placements_pb2.Placement]:
    """What was said to everybody downstream."""
    return [
        placements_pb2.Placement.FromString(out.value)
        for out in story.rehearsal.outbounds
        if out.topic_kind == "placement"
    ]


def placed(story: "Story") -> list[placements_pb2.ActionPlaced]:
    """The placements themselves, redeliveries too."""
    return [each.action_placed for each in placements(story) if each.WhichOneof("kind") == "action_placed"]


def ended(story: "Story") -> list[placements_pb2.PlacementEnded]:
    """What was said of the ends of placements and operations."""
    return [each.placement_ended for each in placements(story) if each.WhichOneof("kind") == "placement_ended"]


def commands(story: "Story") -> list[commands_pb2.WorkerCommand]:
    """What was said to workers."""
    return [
        commands_pb2.WorkerCommand.FromString(out.value)
        for out in story.rehearsal.outbounds
        if out.topic_kind == "command"
    ]


def kills(story: "Story", endpoint: str) -> list[int]:
    """Dispatch ids that a worker was told to kill."""
    sent = (each for each in commands(story) if each.endpoint == endpoint)
    return [each.kill_requested.dispatch_id for each in sent if each.WhichOneof("kind") == "kill_requested"]
