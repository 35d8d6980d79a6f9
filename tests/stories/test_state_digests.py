"""Followers report digests of the state: two that agree make a checkpoint, two that differ an alarm, and nothing else counts."""

from events import events as e
from events import facts as f
from events.evolving.snapshots import DIGESTS_KEPT
from events.reasons import DigestRole
from tests.stories.notation import Step, connect, fact, restart, submit, tick

RIGHT, WRONG = b"the right digest", b"not this digest."


def reported(
    by: str,
    *,
    seq: int,
    digest: bytes = RIGHT,
    role: DigestRole = DigestRole.WRITTEN,
    format: int = 1,
    fact_offset: int = 1,
) -> Step:
    """A follower reports the digest of the state after event `seq`."""
    return fact(f.StateDigested(seq, digest, format, fact_offset, by, role))


def verified(by: str, **named: object) -> Step:
    return reported(by, role=DigestRole.VERIFIED, **named)


def test_two_folds_that_agree_make_a_checkpoint(story):
    story.given(connect("w1", cpu=4), submit("a", cpu=1))
    story.when(reported("x/writer", seq=3)).then("x/writer has digested event 3")
    assert story.rehearsal.shard.checkpoint is None
    story.when(verified("x/verifier", seq=3)).then("checkpoint at event 3: x/writer and x/verifier agree")
    checkpoint = story.rehearsal.shard.checkpoint
    assert (checkpoint.seq, checkpoint.state_digest, checkpoint.next_fact_offset) == (3, RIGHT, 1)


def test_whoever_reports_first_the_writer_is_told_from_the_verifier(story):
    story.given(connect("w1", cpu=4), verified("x/verifier", seq=3))
    story.when(reported("x/writer", seq=3)).then("checkpoint at event 3: x/writer and x/verifier agree")


def test_two_folds_that_differ_are_an_alarm_and_no_later_report_of_that_state_counts(story):
    story.given(connect("w1", cpu=4), reported("x/writer", seq=3))
    story.when(verified("x/verifier", seq=3, digest=WRONG)).then(
        "diverged at event 3: x/verifier differs from x/writer"
    )
    shard = story.rehearsal.shard
    assert shard.checkpoint is None
    assert (shard.divergence.seq, shard.divergence.by, shard.divergence.other_by) == (3, "x/verifier", "x/writer")
    story.when(verified("y/verifier", seq=3)).then("StateDigested ignored: digest_diverged")
    assert shard.checkpoint is None


def test_the_same_digest_with_other_facts_to_go_on_from_is_a_divergence_too(story):
    story.given(connect("w1", cpu=4), tick(), reported("x/writer", seq=3))
    story.when(verified("x/verifier", seq=3, fact_offset=2)).then(
        "diverged at event 3: x/verifier differs from x/writer"
    )


def test_a_third_fold_that_differs_takes_the_checkpoint_away(story):
    story.given(connect("w1", cpu=4), reported("x/writer", seq=3), verified("x/verifier", seq=3))
    assert story.rehearsal.shard.checkpoint is not None
    story.when(verified("y/verifier", seq=3, digest=WRONG)).then(
        "diverged at event 3: y/verifier differs from x/writer"
    )
    assert story.rehearsal.shard.checkpoint is None


def test_a_fold_does_not_agree_with_itself(story):
    story.given(connect("w1", cpu=4), reported("x/writer", seq=3))
    story.when(verified("x/writer", seq=3)).then("StateDigested ignored: digest_repeated")
    assert story.rehearsal.shard.checkpoint is None


def test_what_is_agreed_on_is_not_agreed_on_twice(story):
    story.given(connect("w1", cpu=4), reported("x/writer", seq=3), verified("x/verifier", seq=3))
    story.when(verified("y/verifier", seq=3)).then("StateDigested ignored: digest_repeated")
    assert story.rehearsal.shard.checkpoint.verified_by == "x/verifier"


def test_a_state_that_the_log_had_not_reached_is_not_compared(story):
    story.given(connect("w1", cpu=4))
    ahead = story.every_event()[-1].seq + 1
    story.when(reported("x/writer", seq=ahead)).then("StateDigested ignored: digest_ahead")
    story.when(reported("x/writer", seq=3, fact_offset=10**6)).then("StateDigested ignored: digest_ahead")
    assert story.rehearsal.shard.digests == {}


def test_digests_of_two_formats_say_nothing_of_each_other(story):
    story.given(connect("w1", cpu=4), reported("x/writer", seq=3))
    story.when(verified("x/verifier", seq=3, format=2, digest=WRONG)).then("StateDigested ignored: digest_format")
    assert story.rehearsal.shard.divergence is None


def test_only_the_newest_states_are_remembered_and_an_older_one_is_no_longer_compared(story):
    story.given(connect("w1", cpu=4), *[tick() for _ in range(20)])
    story.given(*[reported("x/writer", seq=seq) for seq in range(3, 3 + DIGESTS_KEPT + 1)])
    kept = story.rehearsal.shard.digests
    assert len(kept) == DIGESTS_KEPT
    assert min(kept) == 4
    story.when(verified("x/verifier", seq=3)).then("StateDigested ignored: digest_stale")
    story.when(verified("x/verifier", seq=4)).then("checkpoint at event 4: x/writer and x/verifier agree")


def test_an_older_agreement_does_not_replace_a_newer_one(story):
    story.given(connect("w1", cpu=4), tick(), tick(), reported("x/writer", seq=3), reported("x/writer", seq=5))
    story.given(verified("x/verifier", seq=5))
    story.when(verified("x/verifier", seq=3)).then("checkpoint at event 3: x/writer and x/verifier agree")
    assert story.rehearsal.shard.checkpoint.seq == 5


def test_a_restart_forgets_neither_reports_nor_what_became_of_them(story):
    story.given(connect("w1", cpu=4), reported("x/writer", seq=3), restart())
    story.when(verified("x/verifier", seq=3)).then("checkpoint at event 3: x/writer and x/verifier agree")
    story.given(restart())
    assert story.rehearsal.shard.checkpoint.seq == 3
    assert story.last(e.Checkpointed).through_seq == 3
