"""`decide`: what a fact causes. A dispatcher; the rules live in events/deciding, one module per concern.

Pure: the state, the fact and its offset and append time are all it sees. It advances the state with each event it emits, so that the
next rule of the same fact sees it; folding the returned events elsewhere gives the same state. Where it raises, the state is of no
use any more: the caller rebuilds it from the log.
"""

from collections.abc import Callable
from typing import Any, Final

from events import events as e
from events import facts as f
from events.deciding import admission, answers, clients, fleet, instances, locality, reporting, snapshots, stable
from events.deciding.placing import place
from events.deciding.step import Step
from events.deciding.timing import fire_due, note_silence
from events.deciding.unsatisfiable import judge
from events.evolve import evolve
from events.holders import NO_HOLDERS, Holders
from events.reasons import IgnoreReason, RejectReason
from events.state import Shard

REFUSED_BY_THE_LOG: Final = "what it causes is refused by "
"""How the error of a fact begins that was written off because the log takes no record of its events; else `decide` has failed."""


def decide(
    shard: Shard, fact: f.Fact, *, offset: int, append_us: int, key: str = "", holders: Holders = NO_HOLDERS
) -> list[e.Event]:
    """Everything one fact causes, in order: an outage noted, due timers, the fact itself, the pass, verdicts. At least one event.

    `shard` is live (indexing.build_indexes) and has decided every fact before `offset`; `append_us` is the fact's append time and
    `key` its record key. `holders` sees every event returned, and is asked in the pass under `prefer_from_bytes`.
    """
    step = Step(shard, offset, append_us, max(shard.now_us, append_us), type(fact).__name__, key, holders)
    note_silence(step)
    if shard.recovers_at is not None:
        locality.complete_recovery(step)
    timers = shard.timers
    if timers and timers[0][0] <= step.now_us:
        fire_due(step)
    if key in shard.parked_keys and key and type(fact) is not f.KeyReleased:
        step.ignore(IgnoreReason.KEY_PARKED, getattr(fact, "instance", ""), key)
    else:
        RULES[type(fact)](step, fact)
    place(step)
    judge(step)
    if holders is not NO_HOLDERS:
        step.tell_holders()
    return step.events


def elect(
    shard: Shard,
    *,
    leader_epoch: int,
    cluster_id: str = "",
    facts_topic_id: str = "",
    events_topic_id: str = "",
    build: str = "",
    facts_end: int = 0,
) -> list[e.Event]:
    """A decider becomes the owner: one `LeaderElected`, which no fact causes and which moves no time.

    `facts_end` is the end offset of the facts now: what stands before it waited for this leader.
    """
    event = e.LeaderElected(
        shard.seq + 1,
        shard.now_us,
        max(shard.position, 0),
        leader_epoch,
        cluster_id,
        facts_topic_id,
        events_topic_id,
        build,
        facts_end,
    )
    evolve(shard, event)
    return [event]


def reject_undecidable(
    shard: Shard, fact: f.Fact, *, offset: int, append_us: int, key: str, error: str
) -> list[e.Event]:
    """What stands in the log for a fact on which `decide` raised, or whose events the log refused: its key is parked.

    `shard` was rebuilt from the log after the failure; `error` says what failed.
    """
    step = Step(shard, offset, append_us, max(shard.now_us, append_us), type(fact).__name__, key)
    step.reject(RejectReason.UNDECIDABLE, "", error, "a fact that can be decided", getattr(fact, "instance", ""), key)
    if key and key not in shard.parked_keys:
        step.emit(e.KeyParked, key)
    return step.events


def _tick(step: Step, fact: f.Tick) -> None:
    step.emit(e.Ticked)
    admission.forget_finished(step)


def _reject_unreadable(step: Step, fact: f.Unreadable) -> None:
    step.kind = fact.fact_kind
    step.reject(fact.reason, fact.field, fact.value, fact.rule, fact.instance, fact.key)


RULES: dict[type, Callable[[Step, Any], None]] = {
    f.ActionQueued: admission.queue_action,
    f.WorkerConnected: fleet.connect,
    f.WorkerReported: fleet.report,
    f.WorkerDrained: fleet.drain,
    f.WorkerUndrained: fleet.undrain,
    f.WorkerGone: fleet.leave,
    f.DispatchAccepted: reporting.accept,
    f.DispatchDeclined: reporting.decline,
    f.ActionFinished: reporting.finish,
    f.CancelRequested: admission.cancel,
    f.PriorityRequested: admission.reprioritise,
    f.InstancePaused: instances.pause,
    f.InstanceResumed: instances.resume,
    f.Configured: instances.configure,
    f.Tick: _tick,
    f.KeyReleased: instances.release_key,
    f.ClientHeard: clients.hear,
    f.ClientGone: clients.depart,
    f.CacheAnswered: answers.answer_cache,
    f.HintsLoaded: answers.load_hints,
    f.UpstreamReported: answers.report_upstream,
    f.BlobsAvailable: locality.advertise,
    f.BlobsEvicted: locality.evict,
    f.PeerFetchFailed: locality.note_failed_fetch,
    f.BlobsStable: stable.announce,
    f.BlobsStableAcknowledged: stable.acknowledge,
    f.StateDigested: snapshots.compare_digest,
    f.Unreadable: _reject_unreadable,
}
