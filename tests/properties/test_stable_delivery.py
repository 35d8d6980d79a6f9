"""Whatever happens in between, a worker that goes on acknowledging gets every chunk of stable blobs that it owes, in order (S-2, S-4, S-5).

Reconnects, drops beyond the limit, restarts of the scheduler and lies included. Told from what is sent to workers, as they read it.
Rerun one by its seed: `pytest tests/properties/test_stable_delivery.py -k '[7]'`.
"""

import random

import pytest

from events import events as e
from events import facts as f
from events.reasons import WipeCause
from events.state import Shard
from proto.gen.headway.v1 import commands_pb2
from tests.properties import facts as random_facts
from tests.properties.walks import Step, Walk

LENIENT = (
    '{"kind":"simple","worker_timeout_s":300}',
    '{"kind":"simple","worker_timeout_s":60,"locality":{"never_reconnect_s":9}}',
    '{"kind":"simple","worker_timeout_s":300,"locality":{"max_unacknowledged_chunks":12}}',
)
"""Workers stay for long, so that they owe much."""

Name = tuple[str, str]


class Workers:
    """What each connected worker was sent on its connection, told from the commands alone."""

    def __init__(self) -> None:
        self.admitted: dict[Name, tuple[int, int]] = {}  # (connection, seq of the admission)
        self.resent: dict[Name, list[int]] = {}  # addressed to the connection
        self.broadcast: dict[Name, list[int]] = {}  # for all, since it was admitted
        self.most_at_once = 0

    def see(self, step: Step) -> None:
        for event in step.events:
            if isinstance(event, e.WorkerDisconnected):
                self.admitted.pop((event.instance, event.endpoint))
        at_once = 0
        for out in step.outbounds:
            if out.topic_kind != "command":
                continue
            command = commands_pb2.WorkerCommand.FromString(out.value)
            name = (command.instance, command.endpoint)
            kind = command.WhichOneof("kind")
            if kind == "admitted":
                self.admitted[name] = (command.connection_id, command.seq)
                self.resent[name], self.broadcast[name] = [], []
            elif kind == "blobs_stable" and command.endpoint:
                assert self.admitted[name][0] == command.connection_id, "on the connection the worker has"
                self.resent[name].append(command.blobs_stable.chunk_seq)
                at_once += 1
            elif kind == "blobs_stable":
                for each, (_, seq) in self.admitted.items():
                    if each[0] == command.instance and command.blobs_stable.chunk_seq > seq:
                        self.broadcast[each].append(command.blobs_stable.chunk_seq)
        self.most_at_once = max(self.most_at_once, at_once)

    def sent(self, name: Name) -> list[int]:
        return [*self.resent[name], *self.broadcast[name]]


def owed(shard: Shard) -> dict[Name, list[int]]:
    """What connected workers still have to acknowledge."""
    return {
        (instance.name, name): list(instance.endpoints[name].unacknowledged or ())
        for instance in shard.instances.values()
        for name in instance.workers
    }


@pytest.fixture(autouse=True)
def mostly_about_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_facts, "BLOB_WEIGHT", 100)
    monkeypatch.setattr(random_facts, "CONFIGS", LENIENT)


def walked(seed: int) -> tuple[Walk, Workers]:
    rng = random.Random(seed)
    walk, workers = Walk(rng, LENIENT), Workers()
    for _ in range(4):
        for step in walk.go(120):
            workers.see(step)
        walk.restart()
    return walk, workers


@pytest.mark.parametrize("seed", range(25))
def test_a_worker_that_acknowledges_what_it_is_sent_owes_nothing_in_the_end(seed: int) -> None:
    walk, workers = walked(seed)
    rounds = 0
    while any(owed(walk.shard).values()):
        rounds += 1
        for name, chunks in owed(walk.shard).items():
            known = dict.fromkeys(workers.sent(name))
            answered = [chunk for chunk in chunks if chunk in known]
            assert answered or not chunks, f"seed {seed}: {name} owes {chunks} and is sent none of them"
            for chunk in answered:
                connection_id, _ = workers.admitted[name]
                step = walk.take(walk.world.now_us, f.BlobsStableAcknowledged(*name, connection_id, chunk))
                assert any(isinstance(event, e.BlobsStableAcknowledged) for event in step.events), f"seed {seed}"
                workers.see(step)
    assert rounds < 60
    for name in workers.admitted:
        assert workers.resent[name] == sorted(set(workers.resent[name])), f"seed {seed}: {name}, in order and once"


@pytest.mark.parametrize("seed", range(25))
def test_a_chunk_is_owed_until_it_is_acknowledged_given_up_or_its_process_is_gone(seed: int) -> None:
    """Told from the events alone; a disconnect is no end of it (S-6)."""
    walk, _ = walked(seed)
    connected: dict[Name, None] = {}
    account: dict[Name, list[int]] = {}
    for event in walk.events:
        name = (getattr(event, "instance", ""), getattr(event, "endpoint", ""))
        match event:
            case e.WorkerAdmitted():
                connected[name] = None
            case e.WorkerDisconnected():
                del connected[name]
            case e.BlobsStable():
                for each in connected:
                    if each[0] == event.instance:
                        account.setdefault(each, []).append(event.seq)
            case e.BlobsStableAcknowledged():
                account[name].remove(event.chunk_seq)
            case e.StableChunksDropped():
                given_up = [chunk for chunk in account[name] if chunk <= event.through_seq]
                assert len(given_up) == event.chunks, f"seed {seed}: {event}"
                account[name] = [chunk for chunk in account[name] if chunk > event.through_seq]
            case e.EndpointSwept():
                account.pop(name, None)
            case e.LocalityWiped() if event.cause is not WipeCause.DISCONNECTED:
                account.pop(name, None)
    rows = {
        (instance.name, name): list(endpoint.unacknowledged)
        for instance in walk.shard.instances.values()
        for name, endpoint in instance.endpoints.items()
        if endpoint.unacknowledged
    }
    assert {name: chunks for name, chunks in account.items() if chunks} == rows, f"seed {seed}"


def test_the_walks_send_chunks_again_drop_some_and_follow_up_on_acknowledgements() -> None:
    """Otherwise the properties above would hold over nothing."""
    walks = [walked(seed) for seed in range(25)]
    kinds = [type(event) for walk, _ in walks for event in walk.events]
    assert kinds.count(e.BlobsStableAcknowledged) > 200
    assert kinds.count(e.StableChunksDropped) > 20
    assert sum(len(chunks) for _, workers in walks for chunks in workers.resent.values()) > 50
    assert max(workers.most_at_once for _, workers in walks) == 8, "as many as are sent again at once"
