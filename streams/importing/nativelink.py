"""NativeLink's configuration file (JSON5): its `schedulers` section, read into ours.

Options mean there what they mean here, under the same names; where they differ, this module says how. Two habits of the file matter: a
0 asks for the default of most options, and what stands there without a mechanism here is named, with the reason, not dropped in silence.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import json5

from events.config import SchedulerConfig, parse_config
from events.config.refusing import nearest
from events.errors import InvalidConfiguration
from streams.importing.expansion import Environment, count_of, seconds_of, shown, text_of

MAX_CHARS = 1_048_576
"""A larger file is refused before it is read: the reader of JSON5 takes seconds for each MiB."""

KINDS = ("simple", "grpc", "cache_lookup", "property_modifier", "historical_resource")

NOT_APPLICABLE: dict[str, str] = {
    "experimental_backend": "state is a fold of the log; there is no store to choose",
    "worker_match_logging_interval_s": "the core never logs; `headway explain operation` says why one waits, at any time",
    "fallback_match_interval_s": "a pass follows every fact, so none can be missed and none needs repeating",
    "enable_active_action_count_metric": "the state table counts every stage already; no store is queried for it",
    "warm_worker_pools": "Headway starts no workers",
}
"""Options of the simple scheduler that have no mechanism here, and why."""

_ELSEWHERE = {
    "cache_lookup.ac_store": "the cache edge answers from the results that stand in this log",
    "grpc.endpoint": "the upstream is an instance on a Kafka cluster: --upstream-instance and --upstream-bootstrap name it",
    "grpc.retry": "facts reach the upstream through its log, which retries by itself",
    "grpc.max_concurrent_requests": "facts are appended to the upstream's log; there are no requests to limit",
    "grpc.connections_per_endpoint": "facts are appended to the upstream's log over one connection",
    "historical_resource.hints_file": "hints come by the fact HintsLoaded: `headway publish` it, or run the hints edge on this file",
    "historical_resource.refresh_interval_s": "a new HintsLoaded replaces the hints; the hints edge has its own interval",
    "historical_resource.disk_property_name": "hints raise CPU and memory only",
    "historical_resource.classes": "hints carry amounts, not classes",
    "historical_resource.default_class": "hints carry amounts, not classes",
    "historical_resource.class_by_mnemonic": "hints carry amounts, not classes: give the mnemonic a hint with the class's amounts",
    "historical_resource.class_by_timeout": "hints are by target and mnemonic only",
    "historical_resource.cold_start": "an action without a hint keeps what it asks for; a property_modifier can add a minimum",
}

_DURATIONS = (
    "retain_completed_for_s",
    "client_action_timeout_s",
    "worker_timeout_s",
    "max_action_executing_timeout_s",
    "unacknowledged_kill_timeout_s",
    "dispatch_ack_timeout_s",
    "unsatisfiable_action_timeout_s",
    "no_worker_action_timeout_s",
)
_COUNTS = ("max_job_retries", "max_worker_loss_retries")
_ZERO_IS_DEFAULT = (
    "retain_completed_for_s",
    "client_action_timeout_s",
    "worker_timeout_s",
    "unacknowledged_kill_timeout_s",
    "max_job_retries",
    "max_worker_loss_retries",
)


class Note(NamedTuple):
    """Something of the file that is not in the configuration as it stands there: where, and what became of it."""

    path: str
    said: str


class Upstream(NamedTuple):
    """Where a `grpc` scheduler forwards to, in our terms."""

    instance: str
    bootstrap_servers: str | None = None


class Imported(NamedTuple):
    """A scheduler of the file: its name there (empty: it has none), our configuration, and what was left out or changed."""

    name: str
    config: SchedulerConfig
    notes: tuple[Note, ...]


def import_nativelink(
    text: str, *, scheduler: str = "", environment: Environment | None = None, upstream: Upstream | None = None
) -> Imported:
    """Read the scheduler called `scheduler` (empty: the only one) out of the file's `text`.

    Args:
        environment: variables for `${NAME}` in values; no others are expanded.
        upstream: what a `grpc` scheduler forwards to.

    Raises:
        InvalidConfiguration: with the path in the file, what stands there and what should.
    """
    found = _schedulers(_parsed(text))
    names = ", ".join(repr(name) for name, _, _ in found)
    chosen = [entry for entry in found if not scheduler or entry[0] == scheduler]
    if not chosen:
        raise InvalidConfiguration("schedulers", scheduler, f"there is no scheduler of this name; there are {names}")
    if len(chosen) > 1:
        raise InvalidConfiguration("schedulers", names, f"there are {len(chosen)}: say which with --scheduler NAME")
    name, path, spec = chosen[0]
    reader = _Reader(environment or {}, upstream)
    raw = reader.scheduler(spec, path)
    try:
        config = parse_config(json.dumps(raw))
    except InvalidConfiguration as error:
        where = f"{path or 'the scheduler'}, read as {error.field}" if error.field else path
        raise InvalidConfiguration(where, error.value, error.rule) from error
    return Imported(name, config, tuple(reader.notes))


def _parsed(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_CHARS:
        raise InvalidConfiguration("", f"{len(text)} characters", f"a file of at most {MAX_CHARS} characters")
    try:
        file = json5.loads(text, allow_duplicate_keys=False)
    except (ValueError, RecursionError) as error:
        raise InvalidConfiguration("", text[:40], f"not JSON5: {str(error).replace('<string>', 'line ')}") from error
    if not isinstance(file, dict):
        raise InvalidConfiguration("", shown(file), "an object with a section 'schedulers'")
    return file


def _schedulers(file: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(name, path, spec) of each scheduler: a list of named ones, a mapping by name (older files), or one alone."""
    if "schedulers" not in file:
        if any(kind in file for kind in KINDS):
            return [("", "", file)]
        raise InvalidConfiguration("schedulers", "", "the file has no such section; only schedulers are imported")
    section = file["schedulers"]
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    if isinstance(section, dict):
        entries: Iterable[tuple[str, str, Any]] = [(n, f"schedulers.{n}", spec) for n, spec in section.items()]
    elif isinstance(section, list):
        entries = [(_name_of(s, i), f"schedulers[{i}]", s) for i, s in enumerate(section)]
    else:
        raise InvalidConfiguration("schedulers", shown(section), "a list of named schedulers, or an object by name")
    for name, path, spec in entries:
        mapping = _object(spec, path)
        found.append((name, path, {key: value for key, value in mapping.items() if key != "name"}))
    if not found:
        raise InvalidConfiguration("schedulers", "", "there is no scheduler in it")
    return found


def _name_of(spec: Any, index: int) -> str:
    name = _object(spec, f"schedulers[{index}]").get("name")
    if not isinstance(name, str) or not name:
        raise InvalidConfiguration(f"schedulers[{index}].name", shown(name or ""), "each scheduler has a name")
    return name


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidConfiguration(path, shown(value), "an object")
    return value


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _Reader:
    """Reads one scheduler and those inside it; collects what is left out on the way."""

    def __init__(self, environment: Environment, upstream: Upstream | None) -> None:
        self.environment, self.upstream = environment, upstream
        self.notes: list[Note] = []

    def scheduler(self, spec: Any, path: str) -> dict[str, Any]:
        mapping = _object(spec, path)
        if len(mapping) != 1 or next(iter(mapping)) not in KINDS:
            unknown = next((name for name in mapping if name not in KINDS), "")
            if unknown:
                raise InvalidConfiguration(_below(path, unknown), shown(mapping[unknown]), nearest(unknown, KINDS))
            raise InvalidConfiguration(path, ", ".join(mapping), f"one of {', '.join(KINDS)}")
        kind, inner = next(iter(mapping.items()))
        read: Callable[[Mapping[str, Any], str], dict[str, Any]] = getattr(self, f"_{kind}")
        inside = _below(path, kind)
        return read(_object(inner, inside), inside)

    def _only(self, spec: Mapping[str, Any], path: str, known: Iterable[str]) -> None:
        known = list(known)
        for name in spec:
            if name not in known:
                raise InvalidConfiguration(
                    _below(path, name), shown(spec[name]), f"there is no such option; {nearest(name, known)}"
                )

    def _leave_out(self, spec: Mapping[str, Any], path: str, reasons: Mapping[str, str], prefix: str = "") -> None:
        for name in spec:
            if prefix + name in reasons:
                self.notes.append(Note(_below(path, name), f"not applicable: {reasons[prefix + name]}"))

    def _simple(self, spec: Mapping[str, Any], path: str) -> dict[str, Any]:
        known = (
            *_DURATIONS,
            *_COUNTS,
            "supported_platform_properties",
            "allocation_strategy",
            "head_of_line_reservation",
            "live_memory_veto",
            "memory_escalation",
        )
        self._only(spec, path, (*known, *NOT_APPLICABLE))
        self._leave_out(spec, path, NOT_APPLICABLE)
        read: dict[str, Any] = {"kind": "simple"}
        for name in known:
            value = spec.get(name)
            if value is None:
                continue
            inside = _below(path, name)
            if name in _DURATIONS or name in _COUNTS:
                number = (seconds_of if name in _DURATIONS else count_of)(value, self.environment, inside)
                if number or name not in _ZERO_IS_DEFAULT:
                    read[name] = number
                else:
                    self.notes.append(Note(inside, "0 asks for the default there, and has it here, too"))
            elif name == "head_of_line_reservation":
                self._only(_object(value, inside), inside, ("after_s",))
                if "after_s" not in value:
                    raise InvalidConfiguration(f"{inside}.after_s", "", "this option is required")
                after_s = seconds_of(value["after_s"], self.environment, f"{inside}.after_s")
                read["hold"] = {"kind": "shortfall", "after_s": after_s}
            elif name == "memory_escalation":
                read[name] = self._escalation(_object(value, inside), inside)
            else:
                read[name] = value
        return read

    def _escalation(self, spec: Mapping[str, Any], path: str) -> dict[str, Any]:
        self._only(spec, path, ("property", "percent", "max_kb", "ladder_kb", "cpu_property", "max_steps"))
        read = {
            "property": spec.get("property", "memory_kb"),
            "percent": spec.get("percent", 200),
            "max_kib": spec.get("max_kb", 0),
            "ladder_kib": spec.get("ladder_kb", []),
            "cpu_property": spec.get("cpu_property", "cpu_count"),
            "max_steps": spec.get("max_steps", 8),
        }
        if read["max_steps"] == 0:
            read["max_steps"] = 100
            self.notes.append(Note(f"{path}.max_steps", "0 has no bound there; here it becomes 100, the largest"))
        return read

    def _cache_lookup(self, spec: Mapping[str, Any], path: str) -> dict[str, Any]:
        self._only(spec, path, ("ac_store", "scheduler"))
        self._leave_out(spec, path, _ELSEWHERE, "cache_lookup.")
        return {"kind": "cache_lookup", "scheduler": self._inner(spec, path)}

    def _property_modifier(self, spec: Mapping[str, Any], path: str) -> dict[str, Any]:
        self._only(spec, path, ("modifications", "scheduler"))
        modifications = spec.get("modifications")
        if not isinstance(modifications, list):
            raise InvalidConfiguration(f"{path}.modifications", shown(modifications or ""), "a list")
        read = [self._modification(item, f"{path}.modifications[{i}]") for i, item in enumerate(modifications)]
        return {"kind": "property_modifier", "modifications": read, "scheduler": self._inner(spec, path)}

    def _modification(self, item: Any, path: str) -> dict[str, Any]:
        options = {"add": ("name", "value"), "replace": ("name", "value", "new_name", "new_value"), "remove": ()}
        mapping = _object(item, path)
        if len(mapping) != 1 or next(iter(mapping)) not in options:
            raise InvalidConfiguration(path, ", ".join(mapping), f"one of {', '.join(options)}")
        kind, given = next(iter(mapping.items()))
        inside = f"{path}.{kind}"
        if kind == "remove":
            if not isinstance(given, str):
                raise InvalidConfiguration(inside, shown(given), "the name of a property")
            return {"kind": kind, "name": given}
        self._only(_object(given, inside), inside, options[kind])
        for name in ("name", "value" if kind == "add" else "new_name"):
            if name not in given:
                raise InvalidConfiguration(f"{inside}.{name}", "", "this option is required")
        return {"kind": kind, **{name: value for name, value in given.items() if value is not None}}

    def _historical_resource(self, spec: Mapping[str, Any], path: str) -> dict[str, Any]:
        prefix = "historical_resource."
        elsewhere = [name.removeprefix(prefix) for name in _ELSEWHERE if name.startswith(prefix)]
        self._only(spec, path, ("scheduler", "cpu_property_name", "memory_property_name", *elsewhere))
        self._leave_out(spec, path, _ELSEWHERE, prefix)
        read: dict[str, Any] = {"kind": "historical_resource", "scheduler": self._inner(spec, path)}
        for ours, theirs, default in (
            ("cpu_property", "cpu_property_name", "cpu_count"),
            ("memory_property", "memory_property_name", "memory_kb"),
        ):
            read[ours] = text_of(spec.get(theirs, default), self.environment, f"{path}.{theirs}")
        return read

    def _grpc(self, spec: Mapping[str, Any], path: str) -> dict[str, Any]:
        self._only(spec, path, ("endpoint", "retry", "max_concurrent_requests", "connections_per_endpoint"))
        if self.upstream is None:
            rule = "a grpc scheduler becomes an upstream: name its instance with --upstream-instance NAME"
            raise InvalidConfiguration(path, shown(spec.get("endpoint", "")), rule)
        self._leave_out(spec, path, _ELSEWHERE, "grpc.")
        read = {"kind": "upstream", "instance": self.upstream.instance}
        if self.upstream.bootstrap_servers:
            read["bootstrap_servers"] = self.upstream.bootstrap_servers
        return read

    def _inner(self, spec: Mapping[str, Any], path: str) -> dict[str, Any]:
        if "scheduler" not in spec:
            raise InvalidConfiguration(f"{path}.scheduler", "", "this option is required")
        return self.scheduler(spec["scheduler"], f"{path}.scheduler")
