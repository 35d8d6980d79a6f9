"""Words for stories: what happens (`connect`, `queue`, `accept`, …), one call each, and how an event reads in one line.

A step is a function of the story, since what a worker says depends on what it was given: `accept("a")` names the dispatch that
the operation `a` has when the step comes up.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.payloads import digests_of
from events.reasons import CacheAnswer, DeclineReason, Outcome, RunResult, UpstreamState
from events.values import NO_DIGEST, NO_USAGE, Digest, Usage

if TYPE_CHECKING:
    from tests.stories.story import Story

Step = Callable[["Story"], None]

MAIN = "main"


def _pairs(cpu: int | None, memory: int | None, properties: dict[str, str]) -> dict[str, str]:
    found = dict(properties)
    if cpu is not None:
        found["cpu_millis"] = str(cpu * 1000)
    if memory is not None:
        found["memory_kib"] = str(memory)
    return found


def fact(made: f.Fact, key: str | None = None) -> Step:
    """Any fact as it is."""
    return lambda story: story.take(made, key)


def configure(**options: object) -> Step:
    """A configuration of the simple scheduler."""
    return lambda story: story.configure(options)


def connect(
    endpoint: str,
    *,
    cpu: int | None = None,
    memory: int | None = None,
    inflight: int = 0,
    boot: int = 1,
    running: tuple[str | int, ...] = (),
    connection: int | None = None,
    build: str = "",
    admits_when_idle: bool = False,
    **properties: str,
) -> Step:
    """A worker connects, each time on a new connection; `running` names operations (or dispatch ids) it still runs."""

    def step(story: "Story") -> None:
        number = story.new_connection(endpoint) if connection is None else connection
        story.connections[endpoint] = number
        listed = tuple(story.dispatch_ids[name] if isinstance(name, str) else name for name in running)
        pairs = tuple(sorted(_pairs(cpu, memory, properties).items()))
        story.take(f.WorkerConnected(MAIN, endpoint, boot, number, pairs, inflight, build, listed, admits_when_idle))

    return step


def queue(
    name: str,
    *,
    cpu: int | None = None,
    memory: int | None = None,
    priority: int = 0,
    queued_s: float | None = None,
    attached: bool = False,
    expected_s: float = 0,
    **properties: str,
) -> Step:
    """A producer queues an action; `queued_s` is seconds relative to now, `expected_s` how long it is expected to run."""

    def step(story: "Story") -> None:
        requirements = canonical_requirements(_pairs(cpu, memory, properties).items())
        queued_at_us = 0 if queued_s is None else story.now_us + round(queued_s * 1_000_000)
        story.take(
            f.ActionQueued(
                MAIN,
                name,
                requirements,
                priority,
                queued_at_us,
                attached=attached,
                expected_duration_us=round(expected_s * 1_000_000),
            )
        )

    return step


def submit(
    name: str,
    *,
    cpu: int | None = None,
    memory: int | None = None,
    properties: dict[str, str] | None = None,
    digest: str = "",
    cacheable: bool = True,
    timeout_s: float = 0,
    expected_s: float = 0,
    **fields: object,
) -> Step:
    """A producer queues an action, any field of it given; `digest` is a letter for the hash of what is cacheable."""

    def step(story: "Story") -> None:
        story.take(
            f.ActionQueued(
                MAIN,
                name,
                canonical_requirements(_pairs(cpu, memory, properties or {}).items()),
                action_digest=Digest(digest.encode() * 32, 7) if digest else NO_DIGEST,
                cacheable=bool(digest) and cacheable,
                timeout_us=round(timeout_s * 1_000_000),
                expected_duration_us=round(expected_s * 1_000_000),
                **fields,
            )
        )

    return step


def heard(name: str) -> Step:
    """A client is still there."""
    return fact(f.ClientHeard(MAIN, name))


def left(name: str) -> Step:
    """A client no longer waits."""
    return fact(f.ClientGone(MAIN, name))


def answer(name: str, found: CacheAnswer, exit_code: int = 0, message: str = "") -> Step:
    """The cache edge answers for an operation."""
    return lambda story: story.take(f.CacheAnswered(MAIN, story.operation_id(name), found, exit_code, message))


def relay(
    name: str, state: UpstreamState, outcome: Outcome = Outcome.UNSPECIFIED, exit_code: int = 0, message: str = ""
) -> Step:
    """The upstream edge relays what became of an operation."""
    return lambda story: story.take(
        f.UpstreamReported(MAIN, story.operation_id(name), state, outcome, exit_code, message)
    )


def keepalive(endpoint: str, free_memory_kib: int | None = None) -> Step:
    """A worker is heard."""
    return lambda story: story.take(f.WorkerReported(MAIN, endpoint, story.connections[endpoint], free_memory_kib))


def gone(endpoint: str) -> Step:
    """A worker says that it leaves."""
    return lambda story: story.take(f.WorkerGone(MAIN, endpoint, story.connections[endpoint]))


def remove(endpoint: str) -> Step:
    """An operator removes a worker."""
    return fact(f.WorkerGone(MAIN, endpoint, 0))


def drain(endpoint: str) -> Step:
    """An operator drains a worker."""
    return fact(f.WorkerDrained(MAIN, endpoint))


def undrain(endpoint: str) -> Step:
    """An operator lets a worker take work again."""
    return fact(f.WorkerUndrained(MAIN, endpoint))


def accept(name: str) -> Step:
    """The worker of an operation's last dispatch accepts it."""

    def step(story: "Story") -> None:
        endpoint = story.endpoints[name]
        story.take(f.DispatchAccepted(MAIN, endpoint, story.connections[endpoint], story.dispatch_ids[name]))

    return step


def decline(name: str, reason: DeclineReason = DeclineReason.MEMORY, needed_kib: int = 0, free_kib: int = 0) -> Step:
    """The worker declines an operation's last dispatch."""

    def step(story: "Story") -> None:
        endpoint = story.endpoints[name]
        story.take(
            f.DispatchDeclined(
                MAIN, endpoint, story.connections[endpoint], story.dispatch_ids[name], reason, needed_kib, free_kib
            )
        )

    return step


def finish(name: str, result: RunResult = RunResult.EXITED, exit_code: int = 0, message: str = "") -> Step:
    """The worker of an operation's last dispatch reports its end."""

    def step(story: "Story") -> None:
        endpoint = story.endpoints[name]
        story.take(
            f.ActionFinished(
                MAIN, endpoint, story.connections[endpoint], story.dispatch_ids[name], result, exit_code, message
            )
        )

    return step


def out_of_memory(name: str, peak_kib: int = 0, exit_code: int = 137) -> Step:
    """The worker of an operation's last dispatch stopped it because it used more memory than it had."""

    def step(story: "Story") -> None:
        endpoint = story.endpoints[name]
        usage = Usage(peak_memory_kib=peak_kib) if peak_kib else NO_USAGE
        story.take(
            f.ActionFinished(
                MAIN,
                endpoint,
                story.connections[endpoint],
                story.dispatch_ids[name],
                RunResult.OUT_OF_MEMORY,
                exit_code,
                "out of memory",
                usage=usage,
            )
        )

    return step


def fail(name: str) -> Step:
    """The worker could not run it."""
    return finish(name, RunResult.INTERNAL_ERROR, message="it broke")


def cancel(name: str) -> Step:
    """An operation is cancelled by its client's id."""
    return fact(f.CancelRequested(MAIN, None, name))


def reprioritise(name: str, priority: int) -> Step:
    """An operation gets another priority."""
    return fact(f.PriorityRequested(MAIN, None, name, priority))


def pause() -> Step:
    """The instance is paused."""
    return fact(f.InstancePaused(MAIN))


def resume() -> Step:
    """The instance places again."""
    return fact(f.InstanceResumed(MAIN))


def tick() -> Step:
    """Time is noted, without passing."""
    return fact(f.Tick())


def advance(seconds: float) -> Step:
    """Time passes; nobody is heard."""
    return lambda story: story.advance(round(seconds * 1_000_000))


def alive(seconds: float) -> Step:
    """Time passes; every connected worker is heard every two seconds, and at the end."""

    def step(story: "Story") -> None:
        left_us = round(seconds * 1_000_000)
        while left_us > 0:
            story.advance(min(left_us, 2_000_000))
            left_us -= 2_000_000
            for endpoint in story.connected():
                keepalive(endpoint)(story)

    return step


def restart(waiting: int = 0) -> Step:
    """The state is thrown away and rebuilt from the records; so many of the facts (and ticks) to come waited for the new leader."""
    return lambda story: story.restart(waiting)


def line(event: e.Event, names: dict[int, str], dispatches: dict[int, str]) -> str:
    """An event in one line; `names` are operations by id, `dispatches` operations by dispatch id."""

    def of(operation_id: int, dispatch_id: int = 0) -> str:
        return names.get(operation_id) or dispatches.get(dispatch_id) or f"dispatch {dispatch_id}"

    match event:
        case e.LeaderElected():
            return f"leader {event.leader_epoch} elected"
        case e.LogSilent():
            return f"log silent for {event.gap_us / 1_000_000:g} s"
        case e.FactIgnored():
            return f"{event.fact_kind} ignored: {event.reason.name.lower()}"
        case e.FactRejected():
            where = f" {event.field}" if event.field else ""
            return f"{event.fact_kind}{where} rejected: {event.reason.name.lower()}"
        case e.KeyParked():
            return f"key {event.key} parked"
        case e.KeyReleased():
            return f"key {event.key} released"
        case e.Configured():
            return f"{event.instance} configured"
        case e.InstancePaused():
            return f"{event.instance} paused"
        case e.InstanceResumed():
            return f"{event.instance} resumed"
        case e.OperationQueued():
            late = f", clamped by {event.clamped_us / 1_000_000:g} s" if event.clamped_us else ""
            return f"{event.client_operation_id} queued{late}"
        case e.OperationDispatched():
            over = "" if event.overtook is None else f", overtaking {of(event.overtook)}"
            beside = ", backfilled" if event.backfilled else ""
            return f"{of(event.operation_id)} to {event.endpoint}{over}{beside}"
        case e.OperationAccepted():
            return f"{of(event.operation_id)} accepted"
        case e.OperationRequeued():
            return f"{of(event.operation_id)} requeued: {event.cause.name.lower()}"
        case e.OperationFinished():
            return f"{of(event.operation_id)} finished: {event.outcome.name.lower()}"
        case e.OperationReprioritised():
            return f"{of(event.operation_id)} has priority {event.priority}"
        case e.OperationsForgotten():
            return f"{event.instance} forgot what finished"
        case e.KillRequested():
            return (
                f"{event.endpoint} told to kill {of(event.operation_id, event.dispatch_id)}: {event.cause.name.lower()}"
            )
        case e.DispatchSettled():
            return f"{event.endpoint} settled {of(event.operation_id, event.dispatch_id)}: {event.result.name.lower()}"
        case e.WorkerAdmitted():
            kept = ", ".join(sorted(dispatches[dispatch_id] for dispatch_id in event.kept))
            again = "again" if event.reconnected else ""
            return " ".join(part for part in (event.endpoint, "admitted", again, kept and f"with {kept}") if part)
        case e.WorkerDrained():
            return f"{event.endpoint} drained"
        case e.WorkerUndrained():
            return f"{event.endpoint} undrained"
        case e.WorkerDisconnected():
            return f"{event.endpoint} out: {event.reason.name.lower()}"
        case e.HoldMade():
            over = "" if event.overtaken_by is None else f", overtaken by {of(event.overtaken_by)}"
            return f"{event.endpoint} held for {of(event.operation_id)}{over}"
        case e.HoldMoved():
            moved = f"{event.from_endpoint} to {event.to_endpoint}"
            return f"hold for {of(event.operation_id)} moved from {moved}: {event.cause.name.lower()}"
        case e.HoldReleased():
            return f"hold of {event.endpoint} for {of(event.operation_id)} released: {event.reason.name.lower()}"
        case e.HoldNoCandidate():
            why = ", ".join(f"{count.workers} {count.exclusion.name.lower()}" for count in event.excluded)
            return f"nobody to hold for {of(event.operation_id)}: {why or 'no worker'}"
        case e.WorkerIdleCapped():
            return f"{event.endpoint} capped at {event.idle_free_kib} KiB while idle"
        case e.OperationJoined():
            return f"{event.client_operation_id} joined {of(event.operation_id)}"
        case e.ClientLeft():
            return f"{event.client_operation_id} left {of(event.operation_id)}: {event.reason.name.lower()}"
        case e.CacheLookupRequested():
            return f"{of(event.operation_id)} looked up"
        case e.CacheAnswered():
            return f"{of(event.operation_id)} answered: {event.answer.name.lower()}"
        case e.OperationForwarded():
            return f"{of(event.operation_id)} forwarded to {event.upstream}"
        case e.UpstreamReported():
            return f"{of(event.operation_id)} upstream: {event.state.name.lower()}"
        case e.HintsLoaded():
            return f"{event.instance} has {len(event.hints)} hints"
        case e.DemandUnsatisfiable():
            return "no workers" if event.no_workers else f"nobody could serve {', '.join(event.properties)}"
        case e.DemandSatisfiable():
            return "somebody could serve it"
        case e.BlobsAvailable():
            kind, end = ("full" if event.full else "delta"), (", the last" if event.last else "")
            return f"{event.endpoint} reports {event.report}.{event.chunk}: {kind}{end}"
        case e.BlobsEvicted():
            return f"{event.endpoint} evicted {len(digests_of(event.digests))}"
        case e.PeerFetchFailed():
            return f"{event.endpoint} lost a blob: {event.failure.name.lower()}"
        case e.BlobsStable():
            return f"stable {event.broadcast}.{event.sequence}{', the last' if event.last else ''}"
        case e.BlobsStableAcknowledged():
            return f"{event.endpoint} acknowledges a chunk"
        case e.StableChunksDropped():
            return f"{event.endpoint} owes too much: {event.chunks} dropped"
        case e.LocalityWiped():
            return f"{event.endpoint} wiped: {event.cause.name.lower()}"
        case e.EndpointConfirmed():
            return f"{event.endpoint} confirmed"
        case e.EndpointSwept():
            return f"{event.endpoint} swept: {event.cause.name.lower()}"
        case e.StateDigestNoted():
            return f"{event.by} has digested event {event.through_seq}"
        case e.Checkpointed():
            return f"checkpoint at event {event.through_seq}: {event.written_by} and {event.verified_by} agree"
        case e.CheckpointDiverged():
            return f"diverged at event {event.through_seq}: {event.by} differs from {event.other_by}"
        case e.WorkerFlapping():
            return f"{event.endpoint} flaps: {event.changes} changes in {event.within_us / 1_000_000:g} s"
        case _:
            return type(event).__name__
