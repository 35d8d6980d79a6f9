"""What is said of a configuration that breaks a rule: the path as it stands in the text, the value there, and what to write instead."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from events.config.decorators import SchedulerConfig
from events.errors import InvalidConfiguration

_UNIONS = ("scheduler", "hold")
"""Options that hold one of several kinds. pydantic names the kind in the path as if it were a field; the text has no such level."""
_SHOWN_CHARS = 128


def nearest(name: str, known: Iterable[str], label: str = "known are") -> str:
    """The rule that names what was meant, or everything there is."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"{label}: {', '.join(names)}"


def refusal(raw: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> InvalidConfiguration:
    """The error for one of the faults that pydantic found in `raw`: an unknown option before others, since it explains a missing one."""
    error = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    model, steps, at = _walk(raw, error["loc"])
    path = _joined(steps)
    match error["type"]:
        case "missing":
            return InvalidConfiguration(path, "", "this option is required")
        case "extra_forbidden":
            options = [name for name in model.model_fields if name != "kind"] if model is not None else []
            hint = f"; {nearest(str(steps[-1]), options)}" if options else ""
            return InvalidConfiguration(path, _shown(at), f"there is no such option{hint}")
        case "union_tag_not_found" | "union_tag_invalid":
            kinds = _kinds_of(error)
            given = at.get("kind", "") if isinstance(at, Mapping) else ""
            return InvalidConfiguration(f"{path}.kind", _shown(given) if given else "", f"one of {kinds}")
        case "option":
            context = error["ctx"]
            return InvalidConfiguration(_joined([*steps, context["option"]]), _shown(context["value"]), context["rule"])
        case "value_error":
            return InvalidConfiguration(path, "" if isinstance(at, Mapping) else _shown(at), str(error["ctx"]["error"]))
    rule = str(error["msg"]).replace("Input should be", "should be")
    return InvalidConfiguration(path, _shown(at), rule)


def _walk(raw: Mapping[str, Any], location: Iterable[str | int]) -> tuple[type[BaseModel] | None, list[str | int], Any]:
    """The model that holds the last step, the steps as they stand in the text, and what stands there."""
    at: Any = raw
    hint: Any = SchedulerConfig
    holder: type[BaseModel] | None = None
    steps: list[str | int] = []
    at_union = True
    for step in location:
        if at_union and isinstance(at, Mapping) and at.get("kind") == step:
            at_union = False
            continue
        at_union = step in _UNIONS
        if step == "hold" and isinstance(at, Mapping) and "hold" not in at and "head_of_line_reservation" in at:
            step, reservation = "head_of_line_reservation", at["head_of_line_reservation"]
            at = {**at, step: {"kind": "shortfall", **reservation} if isinstance(reservation, Mapping) else reservation}
        holder = _model(hint, at)
        field = (
            None
            if holder is None
            else holder.model_fields.get("hold" if step == "head_of_line_reservation" else str(step))
        )
        hint = field.annotation if field is not None else None if holder is not None else _inner(hint)
        steps.append(step)
        at = _item(at, step)
    return holder, steps, at


def _item(at: Any, step: str | int) -> Any:
    if isinstance(at, Mapping):
        return at.get(str(step))
    return at[step] if isinstance(at, list) and isinstance(step, int) and step < len(at) else None


def _models(hint: Any) -> list[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return [hint]
    if get_origin(hint) is Annotated:
        return _models(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [model for part in get_args(hint) for model in _models(part)]
    return []


def _model(hint: Any, at: Any) -> type[BaseModel] | None:
    """The model of what stands here: the only one, or the one of its kind."""
    models = _models(hint)
    kind = at.get("kind") if isinstance(at, Mapping) else None
    if len(models) == 1:
        return models[0]
    return next((model for model in models if kind in get_args(model.model_fields["kind"].annotation)), None)


def _inner(hint: Any) -> Any:
    """What a list or mapping holds."""
    arguments = [part for part in get_args(hint) if part is not Ellipsis]
    return arguments[-1] if arguments else None


def _kinds_of(error: Mapping[str, Any]) -> str:
    if "expected_tags" in error.get("ctx", {}):
        return str(error["ctx"]["expected_tags"])
    # A missing tag does not say which there are.
    models = _models(_hold_hint()) if error["loc"] and error["loc"][-1] == "hold" else _models(SchedulerConfig)
    return ", ".join(repr(get_args(model.model_fields["kind"].annotation)[0]) for model in models)


def _hold_hint() -> Any:
    return _models(SchedulerConfig)[0].model_fields["hold"].annotation


def _joined(steps: Iterable[str | int]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text[:_SHOWN_CHARS]
