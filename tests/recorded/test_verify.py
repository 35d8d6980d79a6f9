"""`headway verify` on the recorded run: sound as it stands; whatever is changed in it is found, and named by its seq.

The real command on exported directories, whose files are what their manifests say unless a test is about just that.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from events import events as e
from events.codec import envelope_of
from streams import verifying
from streams.cli.main import CHECK_FAILED, OK, main
from streams.log import Log, Partition, bounds
from streams.topics import EVENTS, FACTS
from tests.recorded.forgeries import FORGERIES
from tests.recorded.run import recorded_run
from tests.recorded.tampering import (
    change_a_byte,
    flip_a_byte_of_the_file,
    forge,
    index_of,
    leave_out,
    own_events,
    swap,
    write_directory,
)

UNSEEN_WITHOUT_FACTS = {
    "a cancelled action was abandoned",
    "a run ended with another exit code",
}
"""What a fact alone tells."""

LATER_WITHOUT_FACTS = {"a lost run was declined"}
"""What shows without facts once something that follows from it does not."""


def verified(directory: Path, *options: str, code: int) -> dict[str, Any]:
    """What `headway verify --file` says of the shard."""
    done = CliRunner().invoke(main, ["verify", "--file", str(directory), "-o", "json", *options])
    assert done.exit_code == code, (done.output, done.exception)
    (shard,) = json.loads(done.stdout)["shards"]
    return dict(shard)


def seqs_in_the_middle() -> list[int]:
    """Events to tamper with: of a hold's life, of a dispatch inside a fact, and the plainest there is."""
    run = recorded_run()
    made = run.events[len(run.events) // 2]
    kinds = ("HoldMade", "HoldReleased", "OperationDispatched", "OperationFinished", "Ticked")
    later = [each for each in run.events if each.seq > made.seq]
    return [next(each.seq for each in later if type(each).__name__ == kind) for kind in kinds]


def test_the_run_as_it_stands_is_sound(recorded, tmp_path):
    directory = write_directory(recorded, tmp_path / "export")
    shard = verified(directory, code=OK)
    assert (shard["sound"], shard["findings"], shard["damage"]) == (True, [], None)
    assert (shard["events"], shard["facts_from_seq"]) == (len(recorded.events), 2)
    assert shard["redecided"]["divergence_count"] == 0
    judged = shard["judged"]
    of_holds = ("hold_made", "hold_choice", "hold_none", "hold_moved", "hold_released", "held_room", "idle_cap")
    assert all(judged[rule] for rule in of_holds), judged
    text = CliRunner().invoke(main, ["verify", "--file", str(directory)])
    assert (text.exit_code, "everything follows" in text.stdout) == (OK, True)


def test_without_its_facts_too(recorded, tmp_path):
    shard = verified(write_directory(recorded, tmp_path / "export"), "--no-facts", code=OK)
    assert (shard["sound"], shard["redecided"]) == (True, None)


def test_what_comes_while_the_ends_are_asked_for_is_no_finding(recorded, monkeypatch):
    """The first end is of a moment at which half of the facts had come, the second one of now."""
    half = len(recorded.log.records((FACTS, 0))) // 2
    later = next(each for each in own_events(recorded) if envelope_of(each.value).cause_offset >= half)
    then = {(FACTS, 0): half, (EVENTS, 0): later.offset}
    asked: list[Partition] = []

    async def growing(log: Log, at: Partition) -> tuple[int, int]:
        asked.append(at)
        begin, end = await bounds(log, at)
        return begin, then[at] if len(asked) == 1 else end

    monkeypatch.setattr(verifying, "bounds", growing)
    found = asyncio.run(verifying.verify(recorded.log, 0))
    assert (found.findings, found.sound, set(asked)) == ([], True, set(then))
    assert 0 < found.audit.events < len(recorded.events)
    assert found.waiting_facts > 0


@pytest.mark.parametrize("seq", seqs_in_the_middle())
@pytest.mark.parametrize(
    ("tamper", "named"), [(change_a_byte, 0), (leave_out, 1), (swap, 1)], ids=["byte-changed", "missing", "swapped"]
)
def test_a_record_tampered_with_is_located_and_nothing_else_accused(recorded, tmp_path, tamper, named, seq):
    """A byte is found in its record; a missing or swapped event at the next one, which comes too early."""
    records = tamper(own_events(recorded), seq)
    directory = write_directory(recorded, tmp_path / "export", records)
    shard = verified(directory, code=CHECK_FAILED)
    (finding,) = shard["findings"]
    assert finding == shard["damage"]
    assert finding["seq"] == seq + named
    assert finding["rule"] in (("chain", "readable", "sequence") if tamper is change_a_byte else ("sequence",))
    assert shard["redecided"]["divergence_count"] == 0
    assert shard["events"] == seq - 1
    text = CliRunner().invoke(main, ["verify", "--file", str(directory)])
    assert (text.exit_code, f"damaged at seq {seq + named}, " in text.output) == (CHECK_FAILED, True)


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.what.replace(" ", "-"))
def test_a_decision_forged_with_a_correct_chain_is_located(recorded, tmp_path, forgery):
    event = forgery.find(recorded)
    records = forge(own_events(recorded), event.seq, **forgery.change(recorded, event))
    directory = write_directory(recorded, tmp_path / "export", records)
    shard = verified(directory, code=CHECK_FAILED)
    assert shard["damage"] is None, "the chain alone would not find it"
    assert shard["findings"][0]["seq"] == event.seq
    assert shard["findings"][0]["offset"] == records[index_of(records, event.seq)].offset
    assert shard["redecided"]["divergences"][0]["seq"] == event.seq

    unseen = forgery.what in UNSEEN_WITHOUT_FACTS
    shard = verified(directory, "--no-facts", "--no-redecide", code=OK if unseen else CHECK_FAILED)
    found = [each["seq"] for each in shard["findings"][:1]]
    if forgery.what in LATER_WITHOUT_FACTS:
        assert found[0] > event.seq
    else:
        assert found == ([] if unseen else [event.seq])


def test_a_byte_changed_in_the_file_is_named_with_the_file(recorded, tmp_path):
    directory = write_directory(recorded, tmp_path / "export")
    flip_a_byte_of_the_file(directory)
    done = CliRunner().invoke(main, ["verify", "--file", str(directory)])
    assert done.exit_code == CHECK_FAILED
    assert "headway.events.v1-0/00000000000000000000.zst" in done.output


def test_40_an_event_that_is_lost_leaves_no_operation_executing_for_ever_unnoticed(recorded, tmp_path):
    """The end of a dispatched operation is dropped; who verifies the log is told where."""
    dropped = recorded.first(e.OperationFinished)
    records = leave_out(own_events(recorded), dropped.seq)
    shard = verified(write_directory(recorded, tmp_path / "export", records), code=CHECK_FAILED)
    assert shard["damage"]["expected"] == f"seq={dropped.seq}"
