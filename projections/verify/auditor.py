"""The audit: event records and, where they are still there, the facts; findings and counts of what was judged.

Per fact, in the order in which a decider works: an outage, the end of a recovery, timers, what the fact itself causes, the pass, verdicts.
Without its fact everything is judged but what the fact itself causes, which is folded as it stands; what can be said of such an event
without the fact is (dispatches that are current, counters, budgets, the ledger).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from projections.verify import blobs, digests, entering, fleet, reporting, shardwide
from projections.verify.case import Case, FactSeen, Finding, Off, Recorded
from projections.verify.catalogue import (
    ANSWERED,
    CHAIN,
    LEADERS,
    OFFSETS,
    PARKED,
    READABLE,
    REJECTED,
    SEQUENCE,
    SURPLUS,
    TIME,
)
from projections.verify.firing import SILENCE_US, judge_recovery, judge_silence, judge_timers
from projections.verify.folding import FOLDS
from projections.verify.passing import judge_pass
from projections.verify.rows import Shard
from projections.verify.turning import ignores
from projections.verify.verdicts import judge_verdicts
from proto.gen.headway.v1 import events_pb2, facts_pb2
from proto.gen.headway.v1 import reasons_pb2 as r

_new = tuple.__new__  # a named tuple in half the time, once for each event and each fact

CHAIN_BYTES = 16
CHAIN_TAG = bytes([15 << 3 | 2, CHAIN_BYTES])
BEHIND = len(CHAIN_TAG) + CHAIN_BYTES

RULES: dict[str, Callable[[Case, Any], None]] = {
    "action_queued": entering.queue_action,
    "worker_connected": fleet.connect,
    "worker_reported": fleet.report,
    "worker_drained": fleet.drain,
    "worker_undrained": fleet.undrain,
    "worker_gone": fleet.leave,
    "dispatch_accepted": reporting.accept,
    "dispatch_declined": reporting.decline,
    "action_finished": reporting.finish,
    "cancel_requested": entering.cancel,
    "priority_requested": entering.reprioritise,
    "instance_paused": shardwide.pause,
    "instance_resumed": shardwide.resume,
    "configured": shardwide.configure,
    "tick": shardwide.tick,
    "key_released": shardwide.release_key,
    "client_heard": entering.hear_client,
    "client_gone": entering.client_gone,
    "cache_answered": shardwide.answer_cache,
    "hints_loaded": shardwide.load_hints,
    "upstream_reported": shardwide.report_upstream,
    "blobs_available": blobs.advertise,
    "blobs_evicted": blobs.evict,
    "peer_fetch_failed": blobs.fetch_failed,
    "blobs_stable": blobs.announce,
    "blobs_stable_acknowledged": blobs.acknowledge,
    "state_digested": digests.digested,
}
"""By the name of the fact in the wire contract."""

KINDS = {name: "".join(part.capitalize() for part in name.split("_")) for name in RULES}
"""What events call the kinds of facts."""

DECIDED = frozenset(
    {
        "operation_dispatched",
        "hold_made",
        "hold_moved",
        "hold_no_candidate",
        "hold_released",
        "worker_idle_capped",
        "demand_unsatisfiable",
        "demand_satisfiable",
    }
)
"""What a pass and the verdicts write: it stands behind everything that the fact itself causes."""

NO_PLACE = (LookupError, ValueError, AssertionError)
"""What folding raises where an event speaks of what is not there in a way that no rule names: a finding, and judging goes on."""

PLACE = "an event that has a place in what the events before it give"

AT_THE_EDGE = (r.REJECT_REASON_UNDECODABLE, r.REJECT_REASON_UNKNOWN_KIND, r.REJECT_REASON_INVALID_FIELD)
"""Rejections by the rules of a single fact, which the edge reads."""


class FactRecord(NamedTuple):
    """A record of the facts: its headers are asked only whether it is JSON."""

    offset: int
    at_us: int
    key: str
    value: bytes
    json: bool


class Refusal(NamedTuple):
    """What the edge says of a record that is no valid fact."""

    fact_kind: str
    reason: int
    field: str
    value: str
    instance: str
    key: str


Edge = Callable[[FactRecord], bytes | Refusal]
"""Reads a record by the rules of a single fact: a protobuf `Fact`, or why it is none."""


@dataclass(slots=True)
class Audit:
    """What an audit found so far."""

    findings: list[Finding]
    judged: list[int]
    events: int = 0
    facts: int = 0
    stale: int = 0
    facts_from_seq: int | None = None
    """The first event whose fact was there; None: none was."""
    damage: Finding | None = None
    """Where the log itself does not follow: nothing behind it can be judged."""

    cut_short: int = 0
    """Events of the fact that the damage cut short: they stand there, and what it decided cannot be judged without the rest."""

    elected: list[tuple[int, int, str]] = field(default_factory=list)
    """Elections: seq, leader epoch, build."""


class Range(NamedTuple):
    """Which events are judged: what comes before is folded only, what comes behind is not read. Bounds count themselves; None: none."""

    from_seq: int | None = None
    from_us: int | None = None
    to_seq: int | None = None
    to_us: int | None = None


WHOLE = Range()


class Auditor:
    """Audits one shard from its first event. Give it records in the order of the log, facts ahead of the events they caused.

    Args:
        edge: reads a fact by the rules of a single fact, where it is JSON or was rejected for one of them.
        facts: whether facts are given at all.
        judged: the range of events that are judged. A fact with an event in it is judged whole.
    Attributes:
        audit: what was found so far.
        done: nothing more is wanted: the log is damaged, or the range has ended.
    """

    def __init__(self, edge: Edge, *, facts: bool = True, judged: Range = WHOLE) -> None:
        self.shard = Shard()
        self.case = Case(self.shard, FOLDS)
        self.audit = Audit(self.case.findings, self.case.judged)
        self._edge = edge
        self._with_facts = facts
        self._facts: deque[FactRecord] = deque()
        self._facts_begin: int | None = None
        self._chain = bytes(CHAIN_BYTES)
        self._group: list[Recorded] = []
        self._cause = -1
        self._at_us = 0
        self._range = judged
        self._bounded = judged != WHOLE
        self._begun = judged.from_seq is None and judged.from_us is None
        self.done = False

    @property
    def waiting_facts(self) -> int:
        """Facts that were given and not used yet."""
        return len(self._facts)

    def take_facts(self, records: list[FactRecord]) -> None:
        """The next facts, in the order of their offsets."""
        if records and self._facts_begin is None:
            self._facts_begin = records[0].offset
        self._facts.extend(records)

    def take(self, offset: int, value: bytes) -> bool:
        """The next event record. Whether it follows; after `done` nothing does."""
        if self.done:
            return False
        chain = blake2b(self._chain + value[:-BEHIND], digest_size=CHAIN_BYTES).digest()
        shard, judged = self.shard, self.case.judged
        try:
            event = events_pb2.Event.FromString(value)
        except DecodeError:
            self._damaged(READABLE, shard.seq + 1, offset, "a protobuf Event", f"{len(value)} bytes that are none")
            return False
        seq = event.seq
        judged[CHAIN] += 1
        if value[-BEHIND:] != CHAIN_TAG + chain or seq != shard.seq + 1:
            self._does_not_follow(offset, event, value, chain)
            return False
        judged[SEQUENCE] += 1
        kind = event.WhichOneof("kind")
        if kind is None:
            self._damaged(READABLE, seq, offset, "a kind of event that this build knows", "an unknown kind")
            return False
        if self._bounded and not self._is_judged(event):
            return False
        self._chain = chain
        shard.seq = seq
        self.audit.events += 1
        if kind == "leader_elected":
            self.close()
            self._elected(offset, event)
            return True
        cause = event.cause_offset
        if cause != self._cause or not self._group:
            if self._group:
                self.close()
            self._cause = cause
            self._at_us = event.at_us
        self._group.append(_new(Recorded, (seq, offset, kind, getattr(event, kind))))
        if event.leader_epoch != shard.epoch or event.at_us != self._at_us:
            self._envelope_differs(event, offset)
        return True

    def _is_judged(self, event: Any) -> bool:
        """Mind the bounds: where the range begins, what was noted before is dropped; behind it nothing is taken."""
        if event.cause_offset == self._cause and self._group:
            return True
        bounds, seq, at_us = self._range, event.seq, event.at_us
        if not self._begun and seq >= (bounds.from_seq or 0) and at_us >= (bounds.from_us or 0):
            self.close()
            self._begun = True
            audit = self.audit
            audit.findings.clear()
            audit.judged[:] = [0] * len(audit.judged)
            audit.events = audit.facts = 0
            audit.facts_from_seq = None
        if (bounds.to_seq is not None and seq > bounds.to_seq) or (bounds.to_us is not None and at_us > bounds.to_us):
            self.close()
            self.done = True
            return False
        return True

    def close(self) -> None:
        """Judge the fact in hand: no more of its events come."""
        if self._group:
            events, self._group = self._group, []
            self._judge(events)
            if not self._begun:
                self.audit.findings.clear()

    def _envelope_differs(self, event: Any, offset: int) -> None:
        if event.leader_epoch != self.shard.epoch:
            expected = f"leader_epoch={self.shard.epoch}, the last that was elected"
            found = f"leader_epoch={event.leader_epoch}"
            self._find(LEADERS, event.seq, offset, event.cause_offset, expected, found)
        if event.at_us != self._at_us:
            expected = f"at_us={self._at_us}, as the events before it of its fact"
            self._find(TIME, event.seq, offset, event.cause_offset, expected, f"at_us={event.at_us}")

    def _does_not_follow(self, offset: int, event: Any, value: bytes, chain: bytes) -> None:
        """A record of a replaced leader is left out; anything else is damage."""
        shard = self.shard
        if event.leader_epoch < shard.epoch:
            self.audit.stale += 1
            return
        if event.seq != shard.seq + 1:
            self._damaged(SEQUENCE, event.seq, offset, f"seq={shard.seq + 1}", f"seq={event.seq}")
        else:
            expected = f"chain {chain.hex()}, which follows from the record before it"
            self._damaged(CHAIN, event.seq, offset, expected, f"chain {value[-CHAIN_BYTES:].hex()}")

    def _damaged(self, rule: int, seq: int, offset: int, expected: str, found: str) -> None:
        # Whether the fact in hand is complete cannot be told: what is damaged may have been part of it.
        self.audit.cut_short, self._group = len(self._group), []
        self.audit.damage = self._find(rule, seq, offset, self._cause, expected, found)
        self.done = True

    def _find(self, rule: int, seq: int, offset: int, cause_offset: int, expected: str, found: str) -> Finding:
        """Note what does not follow in the log itself; within a fact its case does."""
        finding = Finding(rule, seq, offset, cause_offset, expected, found)
        self.audit.findings.append(finding)
        return finding

    def _elected(self, offset: int, event: Any) -> None:
        shard, judged = self.shard, self.case.judged
        judged[LEADERS] += 1
        expected = ""
        if event.leader_epoch <= shard.epoch:
            expected = f"a leader epoch above {shard.epoch}"
        elif event.cause_offset != max(shard.position, 0):
            expected = f"cause_offset={max(shard.position, 0)}: no fact causes an election"
        elif event.at_us != shard.now_us:
            expected = f"at_us={shard.now_us}: an election moves no time"
        if expected:
            found = f"leader_epoch={event.leader_epoch} cause_offset={event.cause_offset} at_us={event.at_us}"
            self._find(LEADERS, event.seq, offset, event.cause_offset, expected, found)
        shard.epoch = event.leader_epoch
        self.audit.elected.append((event.seq, event.leader_epoch, event.leader_elected.build))
        case = self.case
        case.seq = event.seq
        FOLDS["leader_elected"](case, event.leader_elected)

    # -- one fact ---------------------------------------------------------------------------------------------------------------------

    def _judge(self, events: list[Recorded]) -> None:
        shard, case = self.shard, self.case
        cause, now_us = self._cause, self._at_us
        first = events[0]
        record = self._fact_of(cause, first)
        self.audit.facts += 1
        case.judged[OFFSETS] += 1
        if cause <= shard.position:
            expected = f"cause_offset above {shard.position}: all events of a fact stand together, facts in order"
            self._find(OFFSETS, first.seq, first.offset, cause, expected, f"{cause}")
        case.judged[TIME] += 1
        due_us = max(shard.now_us, now_us if record is None else record.at_us)
        if due_us != now_us:
            expected = f"at_us={due_us}: the later of {shard.now_us} and the fact's append time"
            self._find(TIME, first.seq, first.offset, cause, expected, f"at_us={now_us}")
        case.open(cause, events, now_us)
        try:
            self._follow(case, record)
            if case.at < len(events):
                case.find(SURPLUS, "nothing more of this fact", case.shown())
                self._run_out(case)
        except Off as off:
            case.find(off.rule, off.expected, case.shown())
            self._run_out(case)
        except NO_PLACE as failure:
            case.find(READABLE, PLACE, f"{type(failure).__name__} {failure} at {case.shown()}", case.at - 1)
            self._run_out(case)
        shard.now_us = now_us
        shard.position = cause

    def _run_out(self, case: Case) -> None:
        """Fold what is left of a fact that cannot be judged; what follows is judged from what the record says."""
        while case.at < len(case.events):
            try:
                case.fold_next()
            except Off as off:
                case.find(off.rule, off.expected, case.events[case.at - 1].kind, case.at - 1)
            except NO_PLACE as failure:
                case.find(READABLE, PLACE, f"{type(failure).__name__} {failure}", case.at - 1)
        for domain in case.shard.domains.values():
            domain.dirty.clear()
            domain.unjudged = {}

    def _fact_of(self, cause: int, first: Recorded) -> FactRecord | None:
        """The fact at an offset; None where facts are not looked at, or are gone."""
        if not self._with_facts or self._facts_begin is None or cause < self._facts_begin:
            return None
        facts = self._facts
        while facts and facts[0].offset < cause:
            self._unanswered(facts.popleft(), first)
        self.case.judged[ANSWERED] += 1
        if not facts or facts[0].offset != cause:
            expected = f"a fact at offset {cause}"
            self._find(ANSWERED, first.seq, first.offset, cause, expected, "there is none")
            return None
        if self.audit.facts_from_seq is None:
            self.audit.facts_from_seq = first.seq
        return facts.popleft()

    def _unanswered(self, fact: FactRecord, event: Recorded) -> None:
        if fact.offset <= self.shard.position:
            return  # judged before, or of a range that begins later
        expected = f"at least one event for the fact at offset {fact.offset}"
        self._find(ANSWERED, event.seq, event.offset, fact.offset, expected, "none")

    def _follow(self, case: Case, record: FactRecord | None) -> None:
        events = case.events
        first = events[0]
        if first.kind == "fact_rejected" and first.payload.reason == r.REJECT_REASON_UNDECIDABLE:
            self._written_off(case, record)
            return
        if case.now_us - case.was_us > SILENCE_US or first.kind == "log_silent":
            judge_silence(case)
        if case.shard.recovers_at is not None:
            judge_recovery(case)
        timers = case.shard.timers
        if timers and timers[0][0] <= case.now_us:
            judge_timers(case)
        if record is None:
            self._as_it_stands(case)
        else:
            self._of_fact(case, record)
        judge_pass(case)
        judge_verdicts(case)

    def _as_it_stands(self, case: Case) -> None:
        """What the fact itself caused, without the fact."""
        while (kind := case.peek()) and kind not in DECIDED:
            case.fold_next()
            if kind == "configured":
                domain = case.shard.domains[case.events[case.at - 1].payload.instance]
                following = case.events[case.at].payload if case.peek() == "hold_released" else None
                if domain.hold is not None and following is not None and following.reason == r.HOLD_END_CONFIGURED:
                    case.fold_next()

    def _of_fact(self, case: Case, record: FactRecord) -> None:
        value = record.value
        refused = case.peek() == "fact_rejected" and case.events[case.at].payload.reason in AT_THE_EDGE
        if record.json or refused:
            read = self._edge(record)
            if isinstance(read, Refusal):
                self._refused(case, record, read)
                return
            value = read
        try:
            fact = facts_pb2.Fact.FromString(value)
        except DecodeError:
            case.due(REJECTED, "fact_rejected", "of a record that is no Fact")
            return
        name = fact.WhichOneof("kind")
        if name is None:
            case.due(REJECTED, "fact_rejected", "of a record without a kind")
            return
        message = getattr(fact, name)
        case.fact = _new(FactSeen, (record.key, KINDS[name]))
        if name == "key_released" or not self._is_parked(case, record.key, getattr(message, "instance", "")):
            RULES[name](case, message)

    def _is_parked(self, case: Case, key: str, instance: str) -> bool:
        """Whether the fact's key is parked: whatever it says is ignored then."""
        parked = bool(key) and key in case.shard.parked
        if parked:
            ignores(case, r.IGNORE_REASON_KEY_PARKED, instance, key, rule=PARKED)
        return parked

    def _refused(self, case: Case, record: FactRecord, read: Refusal) -> None:
        case.fact = FactSeen(record.key, "Unreadable")
        if self._is_parked(case, record.key, read.instance):
            return
        case.expect(
            REJECTED,
            "fact_rejected",
            fact_kind=read.fact_kind,
            reason=read.reason,
            field=read.field,
            value=read.value,
            instance=read.instance,
            key=read.key or record.key,
        )

    def _written_off(self, case: Case, record: FactRecord | None) -> None:
        """A fact on which the decider failed: it is written off, and its key parked."""
        key = case.events[0].payload.key if record is None else record.key
        case.judged[PARKED] += 1
        case.fold_next()
        if key and key not in case.shard.parked:
            case.expect(PARKED, "key_parked", key=key)
