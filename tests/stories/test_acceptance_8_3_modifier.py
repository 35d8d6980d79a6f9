"""The property modifier's suite. Names and promises: tests/fixtures/spec/acceptance.toml."""

import pytest

from events.codec import requirements_of
from projections import answers
from tests.stories.client_words import configured, row, submit
from tests.stories.notation import cancel
from tests.stories.read_side import table_of
from tests.stories.story import Story


@pytest.fixture
def modified(story):
    """What a modifier with these modifications makes of an action's properties."""

    def made(properties: dict[str, str], *modifications: dict[str, str]) -> dict[str, str]:
        config = {"kind": "property_modifier", "modifications": list(modifications), "scheduler": {"kind": "simple"}}
        story.given(configured(config), submit("a", **properties))
        return reserved(story, "a")

    return made


def reserved(story: Story, name: str) -> dict[str, str]:
    return dict(requirements_of(story.rehearsal.shard.requirements[row(story, name).requirement_id]))


def add(name: str, value: str) -> dict[str, str]:
    return {"kind": "add", "name": name, "value": value}


def remove(name: str) -> dict[str, str]:
    return {"kind": "remove", "name": name}


def test_add_action_adds_property(modified):
    assert modified({"os": "mac"}, add("zone", "a")) == {"os": "mac", "zone": "a"}


def test_add_action_overwrites_property(modified):
    assert modified({"zone": "b"}, add("zone", "a")) == {"zone": "a"}


def test_add_action_property_added_after_remove(modified):
    assert modified({"zone": "b"}, remove("zone"), add("zone", "a")) == {"zone": "a"}


def test_add_action_property_remove_after_add(modified):
    assert modified({"os": "mac"}, add("zone", "a"), remove("zone")) == {"os": "mac"}


def test_add_action_property_remove(modified):
    assert modified({"os": "mac", "zone": "b"}, remove("zone")) == {"os": "mac"}


def test_add_action_property_replace(modified):
    assert modified({"zone": "b"}, {"kind": "replace", "name": "zone", "new_name": "site"}) == {"site": "b"}


def test_add_action_property_replace_match_value(modified, story):
    replace = {"kind": "replace", "name": "zone", "value": "a", "new_name": "site"}
    assert modified({"zone": "b"}, replace) == {"zone": "b"}
    story.given(submit("matching", zone="a"))
    assert reserved(story, "matching") == {"site": "a"}


def test_add_action_property_replace_value(modified):
    replace = {"kind": "replace", "name": "zone", "new_name": "site", "new_value": "north"}
    assert modified({"zone": "b"}, replace) == {"site": "north"}


def test_find_by_client_operation_id_call_passed(modified, story):
    modified({"os": "mac"}, remove("os"))
    told = answers.operation(table_of(story), answers.lookup(table_of(story), "a"))
    assert (told["client_operation_id"], told["requirements"]) == ("a", [])
    assert told["asked_requirements"] == [{"name": "os", "value": "mac"}]
    story.when(cancel("a")).then("a finished: cancelled")
