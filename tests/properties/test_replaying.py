"""The fused folds of a replay against `decode_event` and `evolve`: the same rows from every log, the same errors at every damage.

Rerun one by its seed, as with test_invariants.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events import events as e
from events.codec import GENESIS_CHAIN, decode_event, encode_event
from events.codec.chain import link
from events.indexing import build_indexes
from events.replaying import FUSED, fold_values
from events.snapshot import state_digest
from events.state import Shard, Stage
from proto.gen.headway.v1 import events_pb2
from streams.export import ExportLog
from streams.log import Record
from streams.recovery import DamagedLog, Fold
from streams.simulate.made import farm
from streams.simulate.policies import Policy, configuration
from streams.simulate.recording import Recording
from streams.simulate.world import INSTANCE, World
from streams.topics import EVENTS
from tests.core.record_strategies import records as values_of
from tests.projections.recorded import Recorded
from tests.recorded.run import SHARD, recorded_run
from tests.reference.rows import rows_of

KINDS = {field.name: e.EVENT_KINDS[field.message_type.name] for field in events_pb2.Event.DESCRIPTOR.oneofs[0].fields}
GOLDEN = sorted(path.parent for path in (Path(__file__).parents[1] / "golden").glob("*/*/manifest.json"))


def encoded(events: Iterable[e.Event]) -> list[Record]:
    """The records of a log, with holes in its offsets."""
    chain, epoch, found = GENESIS_CHAIN, 0, []
    for event in events:
        if isinstance(event, e.LeaderElected):
            epoch = event.leader_epoch
        value, chain = encode_event(event, epoch, chain)
        found.append(Record(2 * len(found), 0, None, value))
    return found


def walk(seed: int, facts: int = 250, elections: float = 0.02) -> list[Record]:
    return encoded(event for _, event in Recorded().walk(seed, facts, elections=elections).events)


def exported(directory: Path) -> list[Record]:
    log = ExportLog(directory)
    return [record for segment in log.segments_of((EVENTS, 0)) for record in log.records_of(segment)]


def outcome(fold: Fold, records: Sequence[Record], rng: random.Random | None = None) -> dict[str, Any]:
    """What becomes of a log that is folded piece by piece."""
    damage = None
    try:
        while records:
            most = rng.randrange(1, 40) if rng else len(records)
            piece, records = list(records[:most]), records[most:]
            fold.apply(piece)
    except DamagedLog as error:
        damage = (str(error), error.offset, error.seq, type(error.because))
    return {
        "damage": damage,
        "position": (fold.chain, fold.next_offset, fold.stale),
        "rows": rows_of(fold.shard),
        "runs": [
            (operation.dispatch.dispatched_at_us, operation.dispatch.demand.amounts, operation.dispatch.worker.endpoint)
            for operation in fold.shard.operations.values()
            if operation.dispatch is not None
        ],
    }


def check_same(records: Sequence[Record], where: str, rng: random.Random | None = None) -> dict[str, Any]:
    plain, fused = Fold(0, fused=False), Fold(0)
    found = outcome(plain, records)
    assert outcome(fused, records, rng) == found, where
    assert state_digest(fused.shard) == state_digest(plain.shard), where
    return found


@pytest.mark.parametrize("seed", range(400, 440))
def test_a_random_history_gives_the_same_rows_in_pieces_of_any_size(seed: int) -> None:
    found = check_same(walk(seed), f"seed {seed}", random.Random(seed))
    assert found["damage"] is None


@pytest.mark.parametrize("seed", range(440, 446))
def test_the_rows_are_the_same_after_each_event(seed: int) -> None:
    """What the next event of the same fact would put right is seen, too."""
    plain, fused = Fold(0, fused=False), Fold(0)
    for record in walk(seed):
        assert outcome(fused, [record]) == outcome(plain, [record]), f"seed {seed} event {plain.shard.seq}"


@pytest.mark.parametrize("directory", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_history_of_a_release_gives_the_same_rows(directory: Path) -> None:
    check_same(exported(directory), str(directory))


def test_the_recorded_run_gives_the_same_rows() -> None:
    check_same(recorded_run().log.records((EVENTS, SHARD)), "the recorded run")


def farm_log(directory: Path) -> list[Record]:
    recording = Recording(directory, INSTANCE)
    World(farm(1, workers=4, span_s=120, load=0.9), configuration(Policy.HOLD), recording=recording).run()
    recording.finish()
    return exported(directory)


def plainly(shard: Shard, values: Sequence[bytes], seen: Callable[[str], None]) -> Callable[[int, bytes], bytes]:
    """The plain form for `fold_values`; `seen` is told the kind of each record that was left to it."""
    fold = Fold(0, fused=False)
    fold.shard = shard

    def plain(number: int, chain: bytes) -> bytes:
        seen(events_pb2.Event.FromString(values[number]).WhichOneof("kind"))
        fold.chain = chain
        fold.apply([Record(number, 0, None, values[number])])
        return fold.chain

    return plain


def test_nearly_all_of_a_farms_log_is_folded_by_the_fused_folds(tmp_path: Path) -> None:
    records = farm_log(tmp_path / "farm")
    check_same(records, "a farm")
    values, shard, left = [record.value for record in records], Shard(), []
    fold_values(shard, values, GENESIS_CHAIN, plainly(shard, values, left.append))
    assert shard.seq == len(values) > 500
    assert sum(kind in FUSED for kind in left) <= 4, "the first of each requirement is left to the plain form"
    assert len(left) < len(values) / 10


DAMAGES: dict[str, Callable[[list[Record], int, random.Random], list[Record]]] = {
    "missing": lambda log, at, rng: log[:at] + log[at + 1 :],
    "doubled": lambda log, at, rng: log[: at + 1] + log[at:],
    "swapped": lambda log, at, rng: [*log[:at], log[at + 1], log[at], *log[at + 2 :]],
    "changed": lambda log, at, rng: [*log[:at], log[at]._replace(value=changed(log[at].value, rng)), *log[at + 1 :]],
    "cut off": lambda log, at, rng: [
        *log[:at],
        log[at]._replace(value=log[at].value[: rng.randrange(30)]),
        *log[at + 1 :],
    ],
    "chained": lambda log, at, rng: rechained(log, at, changed(log[at].value[:-18], rng)),
    "chained, cut off": lambda log, at, rng: rechained(log, at, log[at].value[: rng.randrange(1, 18)]),
    "chained, of another record": lambda log, at, rng: rechained(log, at, rng.choice(log).value[:-18]),
    "stale": lambda log, at, rng: [
        *log[:at],
        Record(log[at].offset - 1, 0, None, stale(log[at].value)),
        *log[at:],
    ],
}


def changed(value: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(value))
    return value[:at] + bytes([value[at] ^ 1 << rng.randrange(8)]) + value[at + 1 :]


def stale(value: bytes) -> bytes:
    """A record of the first leader that nothing leads up to."""
    message = events_pb2.Event.FromString(value)
    message.leader_epoch = 1
    message.chain = bytes(16)
    data: bytes = message.SerializeToString()
    return data


def rechained(log: list[Record], at: int, body: bytes) -> list[Record]:
    """The log with this body in place of one, its chain and those of all later records made to follow: only the content is wrong."""
    chain, found = log[at - 1].value[-16:], list(log[:at])
    for number, record in enumerate(log[at:]):
        value, chain = link(body if number == 0 else record.value[:-18], chain)
        found.append(record._replace(value=value))
    return found


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_at_the_same_record_with_the_same_words(damage: str) -> None:
    stopped = 0
    for seed in range(500, 506):
        log, rng = walk(seed, 60), random.Random(seed)
        for _ in range(12):
            at = rng.randrange(2, len(log) - 1)
            where = f"seed {seed}, {damage} at {at}"
            found = check_same(DAMAGES[damage](log, at, rng), where, random.Random(at))
            stopped += found["damage"] is not None
    assert stopped or damage == "stale"


# -- every field of every fused kind -----------------------------------------------------------------------------------------


def subject(event: e.Event, shard: Shard, rng: random.Random) -> e.Event:
    """The event, about rows that there are: any value of the other fields may then come."""
    named: dict[str, Any] = {"seq": shard.seq + 1}
    instance = rng.choice(list(shard.instances.values()))
    if isinstance(event, e.OperationQueued):
        named |= {"instance": instance.name, "requirement_id": rng.choice(list(shard.requirements))}
    elif isinstance(event, e.OperationDispatched | e.OperationAccepted | e.OperationFinished):
        waits = isinstance(event, e.OperationDispatched)
        due = (Stage.QUEUED,) if waits else (Stage.EXECUTING,)
        some = [operation for operation in shard.operations.values() if operation.stage in due]
        if some and rng.random() < 0.95:
            operation = rng.choice(some)
            named["operation_id"] = operation.operation_id
            if operation.dispatch is not None and rng.random() < 0.95:
                named["dispatch_id"] = operation.dispatch.dispatch_id
            workers = shard.instances[operation.instance].workers
            if workers and waits:
                named["endpoint"] = rng.choice(list(workers))
    elif isinstance(event, e.WorkerReported) and instance.workers:
        named |= {"instance": instance.name, "endpoint": rng.choice(list(instance.workers))}
    elif isinstance(event, e.ClientHeard):
        kept = [
            (operation.instance, name)
            for operation in shard.operations.values()
            for name in (operation.clients or ())
            if name in shard.instances[operation.instance].by_client
        ]
        if kept:
            named |= dict(zip(("instance", "client_operation_id"), rng.choice(kept), strict=True))
    return replace(event, **named)


BASES = {seed: walk(seed, 120) for seed in (21, 22, 23)}


@pytest.mark.parametrize("name", FUSED)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_field_of_a_fused_kind_gives_the_same_rows(name: str, data: st.DataObject) -> None:
    base = BASES[data.draw(st.sampled_from(sorted(BASES)))]
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    plain, fused = Fold(0, fused=False), Fold(0)
    plain.apply(base)
    fused.apply(base)
    for number in range(3):
        event = subject(data.draw(values_of(KINDS[name])), plain.shard, rng)
        value, _ = encode_event(event, plain.shard.leader_epoch, plain.chain)
        record = [Record(10_000 + number, 0, None, value)]
        assert outcome(fused, record) == outcome(plain, record), event


@pytest.mark.parametrize("name", FUSED)
def test_the_fused_folds_take_what_a_walk_has_of_their_kind(name: str) -> None:
    """Otherwise the tests above would hold the plain form to itself."""
    taken = 0
    for seed in range(400, 440):
        log = walk(seed)
        values, shard, left = [record.value for record in log], Shard(), []
        fold_values(shard, values, GENESIS_CHAIN, plainly(shard, values, left.append))
        taken += sum(type(decode_event(value)) is KINDS[name] for value in values) - left.count(name)
        if taken:
            break
    assert taken


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_fold_refuses_a_message_of_another_kind_and_leaves_the_rows_alone(name: str) -> None:
    """The kind is guessed from the record before; of another one every field it reads is empty, so there is even an operation 0 here."""
    fold = Fold(0)
    for record in BASES[21]:
        fold.apply([record])
        if any(operation.dispatch is not None for operation in fold.shard.operations.values()):
            break
    shard = fold.shard
    before = rows_of(shard)
    shard.operations[0] = next(each for each in shard.operations.values() if each.dispatch is not None)
    for record in [record for log in BASES.values() for record in log]:
        message = events_pb2.Event.FromString(record.value)
        if message.WhichOneof("kind") != name:
            assert not FUSED[name](shard, message, shard.seq + 1, message.at_us)
    del shard.operations[0]
    assert rows_of(shard) == before


def test_rows_that_are_decided_on_keep_their_indexes() -> None:
    log = walk(31)
    fold, plain = Fold(0), Fold(0, fused=False)
    fold.apply(log[:200])
    build_indexes(fold.shard)
    fold.apply(log[200:])
    plain.apply(log)
    assert rows_of(fold.shard) == rows_of(plain.shard)
    waiting = [operation.sort_key for operation in plain.shard.operations.values() if operation.stage is Stage.QUEUED]
    kept = [operation.sort_key for one in fold.shard.instances.values() for operation in one.matcher.walk()]
    assert sorted(kept) == sorted(waiting)


def test_every_field_of_an_operation_is_compared() -> None:
    """Nothing that a fused fold sets is left out."""
    log = walk(33)
    fold = Fold(0)
    fold.apply(log)
    operation = next(one for one in fold.shard.operations.values() if one.stage is not Stage.FINISHED)
    derived = {"demand", "dispatch", "index", "sort_key"}
    for name in {field.name for field in fields(operation)} - derived:
        before, held = rows_of(fold.shard), getattr(operation, name)
        setattr(operation, name, object())
        assert rows_of(fold.shard) != before, name
        setattr(operation, name, held)
