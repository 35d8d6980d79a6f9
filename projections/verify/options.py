"""What an audit reads of a configuration: its own reading of the canonical text, not the decider's models.

The text stands in `Configured` with every option present; what is missing (a history of an older build) counts as the option's default.
"""

import json
from typing import Any

SECOND_US = 1_000_000

DEFAULTS: dict[str, Any] = {
    "allocation_strategy": "least_recently_used",
    "worker_timeout_s": 10,
    "max_job_retries": 3,
    "max_worker_loss_retries": 10,
    "max_free_requeues": 20,
    "unacknowledged_kill_timeout_s": 60,
    "retain_completed_for_s": 60,
    "max_backdate_s": 60,
    "client_action_timeout_s": 60,
    "max_action_executing_timeout_s": 0,
    "dispatch_ack_timeout_s": 0,
    "unsatisfiable_action_timeout_s": 0,
    "no_worker_action_timeout_s": 0,
    "max_unaccepted_dispatches": 0,
    "live_memory_veto": None,
    "memory_escalation": None,
    "hold": None,
    "compatible_builds": [],
    "fair_share": None,
    "aging_s": None,
}
LOCALITY_DEFAULTS: dict[str, Any] = {
    "prefer_from_bytes": None,
    "never_reconnect_s": 600,
    "max_unacknowledged_chunks": 256,
    "flap_threshold": 3,
    "flap_window_s": 300,
    "flap_cooldown_s": 60,
}
ESCALATION_DEFAULTS: dict[str, Any] = {
    "property": "memory_kib",
    "percent": 200,
    "max_kib": 0,
    "ladder_kib": [],
    "cpu_property": "cpu_millis",
    "max_steps": 8,
}
DRAIN_TIME_DEFAULTS: dict[str, Any] = {"min_runs": 20, "last_runs": 1_000}
ALWAYS_MINIMUMS = ("cpu_millis", "memory_kib")
DECORATORS = ("cache_lookup", "property_modifier", "historical_resource")


class Options:
    """One configuration. Durations are in microseconds here; `pools` are the minimums' names, sorted."""

    __slots__ = (
        "ack_us", "aging_us", "builds", "caches", "client_us", "escalation", "executing_us", "fair_share", "flap_cooldown_us",
        "flap_threshold", "flap_window_us", "hold", "hold_after_us", "hold_max_us", "kill_us", "kinds", "last_runs", "max_backdate_us",
        "max_chunks", "max_failures", "max_frees", "max_losses", "max_unaccepted", "min_runs", "never_reconnect_us", "no_worker_us",
        "pools", "prefer_from", "retain_us", "spare_last", "steps", "strategy", "text", "unsatisfiable_us", "upstream", "veto", "veto_pool",
        "worker_us",
    )  # fmt: skip

    def __init__(self, text: str) -> None:
        raw: dict[str, Any] = json.loads(text)
        self.text = text
        self.steps: list[dict[str, Any]] = []
        while raw.get("kind") in DECORATORS:
            self.steps.append(raw)
            raw = raw["scheduler"]
        self.caches = any(step["kind"] == "cache_lookup" for step in self.steps)
        self.upstream = ""
        if raw.get("kind") == "upstream":
            servers = raw.get("bootstrap_servers")
            self.upstream = raw["instance"] + (f"@{servers}" if servers else "")
            raw = {"retain_completed_for_s": raw.get("retain_completed_for_s", DEFAULTS["retain_completed_for_s"])}
        options = {**DEFAULTS, **raw}
        locality = {**LOCALITY_DEFAULTS, **options.get("locality", {})}
        declared: dict[str, str] = options.get("supported_platform_properties", {})
        self.kinds = {**dict.fromkeys(ALWAYS_MINIMUMS, "minimum"), **declared}
        self.pools = sorted(name for name, kind in self.kinds.items() if kind == "minimum")
        self.strategy: str = options["allocation_strategy"]
        self.worker_us: int = options["worker_timeout_s"] * SECOND_US
        self.kill_us: int = options["unacknowledged_kill_timeout_s"] * SECOND_US
        self.retain_us: int = options["retain_completed_for_s"] * SECOND_US
        self.max_backdate_us: int = options["max_backdate_s"] * SECOND_US
        self.client_us: int = options["client_action_timeout_s"] * SECOND_US
        self.executing_us: int = options["max_action_executing_timeout_s"] * SECOND_US
        self.ack_us: int = options["dispatch_ack_timeout_s"] * SECOND_US
        self.unsatisfiable_us: int = options["unsatisfiable_action_timeout_s"] * SECOND_US
        self.no_worker_us: int = options["no_worker_action_timeout_s"] * SECOND_US
        self.max_failures: int = options["max_job_retries"]
        self.max_losses: int = options["max_worker_loss_retries"]
        self.max_frees: int = options["max_free_requeues"]
        self.max_unaccepted: int = options["max_unaccepted_dispatches"]
        self.builds: list[str] = options["compatible_builds"]
        self.veto: bool = options["live_memory_veto"] is not None
        memory = options["live_memory_veto"] or "memory_kib"
        self.veto_pool = self.pools.index(memory) if memory in self.pools else -1
        escalation: dict[str, Any] | None = options["memory_escalation"]
        self.escalation = None if escalation is None else {**ESCALATION_DEFAULTS, **escalation}
        self.fair_share: str = (options["fair_share"] or {}).get("between", "")
        self.aging_us: int = (options["aging_s"] or 0) * SECOND_US
        hold: dict[str, Any] = options["hold"] or {}
        self.hold: str = hold.get("kind", "")
        self.hold_after_us: int = hold.get("after_s", 0) * SECOND_US
        self.hold_max_us: int = (hold.get("max_hold_s") or 0) * SECOND_US
        self.min_runs: int = hold.get("min_runs", DRAIN_TIME_DEFAULTS["min_runs"])
        self.last_runs: int = hold.get("last_runs", DRAIN_TIME_DEFAULTS["last_runs"])
        self.spare_last: bool = hold.get("spare_last", False)
        self.prefer_from: int | None = locality["prefer_from_bytes"]
        self.never_reconnect_us: int = locality["never_reconnect_s"] * SECOND_US
        self.max_chunks: int = locality["max_unacknowledged_chunks"]
        self.flap_threshold: int = locality["flap_threshold"]
        self.flap_window_us: int = locality["flap_window_s"] * SECOND_US
        self.flap_cooldown_us: int = locality["flap_cooldown_s"] * SECOND_US

    def hold_policy(self) -> tuple[object, ...]:
        """What makes a hold's policy another one: a hold made under another ends."""
        return (self.hold, self.hold_after_us, self.hold_max_us, self.spare_last, self.min_runs, self.last_runs)


def same_configuration(text: str, other: str) -> bool:
    """Whether two texts mean the same options, defaults and order of keys aside."""
    return _whole(json.loads(text)) == _whole(json.loads(other))


def _whole(raw: dict[str, Any]) -> dict[str, Any]:
    if "scheduler" in raw:
        inner = _whole(raw["scheduler"])
        rest = {name: value for name, value in raw.items() if name != "scheduler" and value is not None}
        if "modifications" in rest:
            rest["modifications"] = [{k: v for k, v in each.items() if v is not None} for each in rest["modifications"]]
        defaults = {"historical_resource": {"cpu_property": "cpu_millis", "memory_property": "memory_kib"}}
        return {**defaults.get(raw["kind"], {}), **rest, "scheduler": inner}
    if raw.get("kind") == "upstream":
        return {"retain_completed_for_s": 60, "topic_prefix": "", "bootstrap_servers": None, **raw}
    named = {name: value for name, value in raw.items() if value is not None}
    if "head_of_line_reservation" in named:
        named["hold"] = {"kind": "shortfall", **named.pop("head_of_line_reservation")}
    if "hold" in named:
        hold = {"spare_last": False, **named["hold"]}
        if hold["kind"] == "backfill":
            hold.setdefault("after_s", 0)
        if hold["kind"] == "drain_time":
            hold = {**DRAIN_TIME_DEFAULTS, **hold}
        named["hold"] = {name: value for name, value in hold.items() if value is not None}
    if "memory_escalation" in named:
        named["memory_escalation"] = {**ESCALATION_DEFAULTS, **named["memory_escalation"]}
    set_by_default = {name: value for name, value in DEFAULTS.items() if value is not None}
    locality = {**LOCALITY_DEFAULTS, "small_blob_mirror": False, **named.get("locality", {})}
    return {"supported_platform_properties": {}, **set_by_default, **named, "locality": locality}
