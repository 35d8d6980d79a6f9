"""The rules an audit holds a history against: what each one says, and where it comes from.

A rule is a number into `CATALOGUE`, so that counting what it judged costs an index. The names are stable: findings, tests and
infra/docs/verifying.md call rules by them.
"""

from typing import NamedTuple


class Rule(NamedTuple):
    """One rule: its id, its name, what it says of a history, and the rules of the specification that it holds."""

    id: str
    name: str
    says: str
    source: str


_RULES: list[Rule] = []


def _rule(name: str, says: str, source: str) -> int:
    _RULES.append(Rule(f"V{len(_RULES) + 1:02}", name, says, source))
    return len(_RULES) - 1


CHAIN = _rule("chain", "Each record's digest follows from the record before it.", "design 1")
SEQUENCE = _rule(
    "sequence", "Events are numbered from 1 without gaps; a replaced leader's records are left out.", "V-6"
)
LEADERS = _rule("leaders", "An election raises the leader epoch, repeats the position and moves no time.", "V-10")
READABLE = _rule("readable", "Each record is an event of a known kind that speaks of what is known.", "10")
OFFSETS = _rule("offsets", "The facts of events come in the order of their offsets.", "V-6")
ANSWERED = _rule("answered", "Each fact yields at least one event, and each event has its fact.", "design 1")
TIME = _rule(
    "time", "Now is the later of the moment before and the fact's append time, the same for all its events.", "V-7"
)
SURPLUS = _rule("surplus", "A fact causes what the rules ask for, and nothing else.", "10")
IGNORED = _rule("ignored", "A fact that changes nothing is ignored for the true reason.", "U9, J1")
REJECTED = _rule("rejected", "An invalid fact is rejected, and only an invalid one.", "P1, P2, W16")
PARKED = _rule("parked", "Facts of a parked key are ignored until it is released.", "design 1")
CONFIGURED = _rule(
    "configured", "A configuration counts as the fact put it; pausing and resuming change what they say.", "1.1"
)
REQUIREMENTS = _rule("requirements", "Requirements get the next number before their first use.", "10")
ADMITTED = _rule(
    "admitted", "A queued action stands in the log as it was asked for, modified as configured.", "Q1, D2, D3"
)
ORDERED = _rule("ordered", "Queued time, fair share and aging put an operation where they say.", "Q1-Q4")
JOINED = _rule("joined", "An identical live cacheable action is joined, and only such a one.", "J1-J7, V-3")
CLIENTS = _rule("clients", "Clients are heard and leave; who is the last one abandons the operation.", "C1-C5")
ANSWERS = _rule("answers", "Answers of the cache and of other schedulers do what they say.", "D1")
CANCELLED = _rule("cancelled", "A cancelled or reprioritised operation is, whatever it does.", "C4, K4")
FORGOTTEN = _rule(
    "forgotten", "Finished operations are forgotten once their retention has ended, not before.", "M1, M2"
)
QUEUED = _rule("queued", "Only what is queued is dispatched, and never twice at once.", "V-2")
CURRENT = _rule("current", "Only a current dispatch is accepted, requeued or finished.", "U9, V-2")
ENDED = _rule("ended", "A run ends as its worker reported.", "2.7")
BUDGETS = _rule(
    "budgets",
    "Job failures, worker losses, free requeues and escalations are counted once each, up to their limits.",
    "V-4, 1.4",
)
ESCALATED = _rule("escalated", "A kill for memory raises the reservation by the policy.", "U8")
KILLED = _rule("killed", "A run that no longer counts is told to stop, for the true reason.", "K1-K6")
SETTLED = _rule("settled", "A revoked run's charge is returned when its worker reports on it, once.", "L3, L7, K4")
CONNECTED = _rule(
    "connected", "A connecting worker is admitted; of its dispatches those go on that both sides know.", "W3, W16, 10.1"
)
HEARD = _rule("heard", "A keepalive stands in the log as it came.", "W6-W9, B3, B5")
DRAINED = _rule("drained", "A worker drains when it is told to.", "R1")
LEFT = _rule("left", "A worker that leaves loses what it runs, and is gone.", "W11, W13")
CAPACITY = _rule(
    "capacity", "No worker is charged beyond what it registered, nor runs more than max_inflight.", "L1, L5, L6, V-1"
)
ACCEPTING = _rule(
    "accepting", "A worker that is paused, drains, or has not accepted enough gets nothing.", "B1, B3, B5, B6, R1"
)
PROPERTIES = _rule("properties", "A worker has the properties that what it is given asks for.", "P4, P5, I2")
VETO = _rule(
    "veto", "A worker gets no more memory than it reports free, nor as much as it refused while idle.", "V1, V2, B5"
)
ORDER = _rule("order", "The dispatched operation is the first in queue order that fits somewhere.", "Q1-Q3, G4, G9")
FIXPOINT = _rule("fixpoint", "After a fact nothing waits that would fit.", "G9, 10.1")
STRATEGY = _rule("strategy", "Of the workers that could take it, the strategy's gets it.", "A1, A2, 1.3")
PREFERRED = _rule("preferred", "A worker that holds the inputs is preferred where the configuration says so.", "6")
OVERTOOK = _rule("overtook", "A dispatch names the first operation that sorts before it and still waits.", "10")
HELD_ROOM = _rule(
    "held_room", "A held worker takes nothing that sorts later, save what does not delay the held operation.", "H15-H17"
)
HOLD_MADE = _rule("hold_made", "A hold is made for the head only, once it has waited and was overtaken.", "H2-H6")
HOLD_CHOICE = _rule(
    "hold_choice",
    "The held worker is the closest of those that could be held; candidates and exclusions are counted.",
    "H8-H13",
)
HOLD_NONE = _rule("hold_none", "That no worker could be held is said once.", "H14")
HOLD_MOVED = _rule(
    "hold_moved", "A hold moves when its worker leaves, drains or pauses, or another is free sooner.", "5.4, H21"
)
HOLD_RELEASED = _rule("hold_released", "A hold ends when the rules say, with the true reason.", "H7, H18-H20a, 5.4")
IDLE_CAP = _rule("idle_cap", "A held worker that refuses while idle is capped by what it reports.", "H12, H20")
SILENCE = _rule("silence", "A gap in the log moves every liveness deadline, before any timer fires.", "V-9")
TIMERS = _rule("timers", "What is due fires, in order, and nothing before its time.", "W10, K5, C2, T1-T4, X4")
VERDICTS = _rule("verdicts", "What no worker could run even if idle is said, and unsaid.", "X2-X5")
REPORTS = _rule(
    "reports", "Reports of blobs are taken chunk by chunk, in order, from the owner of the endpoint.", "PM8, PM11, A-1"
)
CONFIRMED = _rule(
    "confirmed", "An endpoint with something to lose is confirmed when first heard under a leader.", "PM9, 10.1"
)
WIPED = _rule("wiped", "What another process held is wiped before the new one is admitted.", "E2-E5, O1")
FLAPS = _rule("flaps", "A process that restarts over and over is warned of, once per cool-down.", "F-1 - F-6")
STABLE = _rule("stable", "Chunks of stable blobs are owed until they are acknowledged or given up.", "S-1 - S-8")
RECOVERED = _rule("recovered", "A recovery ends at the first fact that came after the election.", "PM9, V-8")
CHECKPOINTED = _rule(
    "checkpointed",
    "Digests of the state are compared: what two folds agree on is a checkpoint, else they diverge.",
    "design 3",
)

CATALOGUE: tuple[Rule, ...] = tuple(_RULES)
"""Every rule, by its number."""
