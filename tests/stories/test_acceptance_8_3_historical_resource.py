"""The historical resource decorator's suite. Names and promises: tests/fixtures/spec/acceptance.toml."""

from events import events as e
from events import facts as f
from events.codec import requirements_of
from events.values import ResourceHint
from tests.stories.client_words import configured, of_kind, row, submit
from tests.stories.notation import MAIN, connect, fact


def test_add_action_applies_historical_resource_hint(story):
    story.given(configured({"kind": "historical_resource", "scheduler": {"kind": "simple"}}))
    hints = (
        ResourceHint("//x:y", "Link", 4000, 900),
        ResourceHint("", "Link", 0, 700),
        ResourceHint("//x:y", "", 1, 1),
    )
    story.given(fact(f.HintsLoaded(MAIN, hints)), connect("w1", cpu=8, memory=5000))

    def reserved(name: str) -> dict[str, str]:
        return dict(requirements_of(story.rehearsal.shard.requirements[row(story, name).requirement_id]))

    story.given(submit("raised", cpu=1, memory=100, target="//x:y", mnemonic="Link"))
    assert reserved("raised") == {"cpu_millis": "4000", "memory_kib": "900"}
    assert story.free("w1") == 4000, "the ledger is charged what the hint says"
    story.given(submit("kept", cpu=1, memory=1000, target="//z:z", mnemonic="Link"))
    assert reserved("kept") == {"cpu_millis": "1000", "memory_kib": "1000"}, "raised, never lowered; 0 is no hint"
    asked = of_kind(story, e.OperationQueued)[0].asked_requirement_id
    assert dict(requirements_of(story.rehearsal.shard.requirements[asked])) == {
        "cpu_millis": "1000",
        "memory_kib": "100",
    }
