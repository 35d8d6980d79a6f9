"""What decorators make of an action's requirements before it is queued: modifications and resource hints (D2, D3)."""

from events import facts as f
from events.codec import canonical_requirements, requirements_of
from events.config import HistoricalResourceScheduler, Modification, PropertyModifierScheduler
from events.state import Instance


def modified_requirements(instance: Instance, fact: f.ActionQueued) -> bytes:
    """The canonical requirements after every decorator, from the outside in; the same bytes where none changes anything."""
    changing = [
        step for step in instance.steps if isinstance(step, PropertyModifierScheduler | HistoricalResourceScheduler)
    ]
    if not changing:
        return fact.requirements
    asked = dict(requirements_of(fact.requirements))
    properties = dict(asked)
    for step in changing:
        if isinstance(step, PropertyModifierScheduler):
            for modification in step.modifications:
                _modify(properties, modification)
        else:
            _raise(properties, step, instance.hints, fact)
    return fact.requirements if properties == asked else canonical_requirements(properties.items())


def _modify(properties: dict[str, str], modification: Modification) -> None:
    """One change, blindly: `add` overwrites, `replace` renames and keeps the old value where it names no new one (D2)."""
    name = modification.name
    if modification.kind == "add":
        properties[name] = modification.value or ""
    elif modification.kind == "remove":
        properties.pop(name, None)
    elif name in properties and modification.value in (None, properties[name]):
        value = properties.pop(name)
        new_value = value if modification.new_value is None else modification.new_value
        properties[modification.new_name or name] = new_value


def _raise(
    properties: dict[str, str],
    step: HistoricalResourceScheduler,
    hints: dict[tuple[str, str], tuple[int, int]],
    fact: f.ActionQueued,
) -> None:
    """Raise CPU and memory to the hint for this target and mnemonic, else the target, else the mnemonic; never lower them (D3)."""
    found = next(
        (
            hints[key]
            for key in ((fact.target_id, fact.mnemonic), (fact.target_id, ""), ("", fact.mnemonic))
            if key in hints and any(key)
        ),
        None,
    )
    if found is None:
        return
    for name, hint in zip((step.cpu_property, step.memory_property), found, strict=True):
        asked = properties.get(name, "0")
        # What is no number stays as it is: it is refused with the producer's own value.
        if hint and asked.isascii() and asked.isdigit() and int(asked) < hint:
            properties[name] = str(hint)
