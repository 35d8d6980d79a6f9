"""The JSON form of each fact, as pydantic models: strict types, no unknown fields.

They hold what JSON adds to the types of the wire contract (digests as `<hex>/<size>`, enums by name, `argv`, `env` and `inputs` flat in
`ActionQueued`); limits stand in events/fact_rules.py, for both forms.
"""

import json
import re
from enum import IntEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from events import facts
from events.facts import Fact
from events.payloads import canonical_requirements, command_bytes, digests_bytes
from events.reasons import CacheAnswer, DeclineReason, DigestRole, FetchFailure, Outcome, RunResult, UpstreamState
from events.values import NO_DIGEST, NO_USAGE, Digest, Properties, ResourceHint, Usage

DEFAULT_INSTANCE = "main"

_DIGEST = re.compile(r"([0-9a-fA-F]{2,})[/-]([0-9]{1,19})")


def digest_from_text(value: object) -> Digest:
    """The digest in `<hex>/<size>`, or `<hex>-<size>` as files and URLs have it; None and "" stand for none. Raises ValueError."""
    if value is None or value == "":
        return NO_DIGEST
    found = _DIGEST.fullmatch(value) if isinstance(value, str) else None
    if found is None or len(found[1]) % 2:
        raise ValueError("a text <hex>/<size>, such as e3b0c44298fc…/1024")
    return Digest(bytes.fromhex(found[1]), int(found[2]))


def _bytes_from_hex(value: object) -> bytes:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError as error:
        raise ValueError("hexadecimal digits") from error


def _enum_from_name(kind: type[IntEnum]) -> PlainValidator:
    by_name = {value.name.lower(): value for value in kind}
    known = ", ".join(name for name in by_name if name != "unspecified")

    def parse(value: object) -> IntEnum:
        if not isinstance(value, str) or value not in by_name:
            raise ValueError(f"one of {known}")
        return by_name[value]

    return PlainValidator(parse)


DigestText = Annotated[Digest, PlainValidator(digest_from_text)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PropertyForm(_Form):
    """A name and a value, both text."""

    name: str
    value: str


class VariableForm(_Form):
    """One variable of a command's environment."""

    name: str
    value: str = ""
    secret: str = ""


class UsageForm(_Form):
    """What a run used."""

    wall_us: int = 0
    cpu_us: int = 0
    peak_memory_kib: int = 0


def _sorted(properties: list[PropertyForm]) -> Properties:
    return tuple(sorted((item.name, item.value) for item in properties))


class FactForm(_Form):
    """What every fact of an instance says; `kind` is checked before the model is chosen."""

    kind: str
    instance: str = DEFAULT_INSTANCE

    def fact(self) -> Fact:
        """The fact it stands for: the class of the same name with the same fields."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}
        made: Fact = facts.FACT_KINDS[self.kind](**fields)
        return made


class _WorkerForm(FactForm):
    endpoint: str


class _ConnectionForm(_WorkerForm):
    connection_id: int


class _DispatchForm(_ConnectionForm):
    dispatch_id: int


class ActionQueuedForm(FactForm):
    """ActionQueued: the command stands flat in it."""

    client_operation_id: str
    requirements: list[PropertyForm] = []
    priority: int = 0
    queued_at_us: int = 0
    client_id: str = ""
    invocation_id: str = ""
    attached: bool = False
    action_digest: DigestText = NO_DIGEST
    cacheable: bool = False
    skip_cache_lookup: bool = False
    timeout_us: int = 0
    expected_duration_us: int = 0
    argv: list[str] = []
    env: list[VariableForm] = []
    inputs: list[DigestText] = []
    target_id: str = ""
    mnemonic: str = ""

    def fact(self) -> Fact:
        """The fact, with requirements and command in canonical bytes."""
        plain = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name not in ("kind", "requirements", "argv", "env", "inputs")
        }
        return facts.ActionQueued(
            **plain,
            requirements=canonical_requirements((item.name, item.value) for item in self.requirements),
            command=command_bytes(self.argv, ((v.name, v.value, v.secret) for v in self.env), self.inputs),
        )


class WorkerConnectedForm(_ConnectionForm):
    """WorkerConnected."""

    boot_epoch: int = 0
    properties: list[PropertyForm] = []
    max_inflight: int = 0
    build: str = ""
    running: list[int] = []
    admits_when_idle: bool = False
    blobs_url: str = ""

    def fact(self) -> Fact:
        """The fact, with its properties sorted by name."""
        return facts.WorkerConnected(
            instance=self.instance,
            endpoint=self.endpoint,
            boot_epoch=self.boot_epoch,
            connection_id=self.connection_id,
            properties=_sorted(self.properties),
            max_inflight=self.max_inflight,
            build=self.build,
            running=tuple(self.running),
            admits_when_idle=self.admits_when_idle,
            blobs_url=self.blobs_url,
        )


class WorkerReportedForm(_ConnectionForm):
    """WorkerReported."""

    free_memory_kib: int | None = None


class WorkerGoneForm(_WorkerForm):
    """WorkerGone; connection_id 0 or none: an operator says so."""

    connection_id: int = 0


class DispatchDeclinedForm(_DispatchForm):
    """DispatchDeclined."""

    reason: Annotated[DeclineReason, _enum_from_name(DeclineReason)] = DeclineReason.UNSPECIFIED
    needed_kib: int = 0
    free_kib: int = 0


class ActionFinishedForm(_DispatchForm):
    """ActionFinished; the tails are text."""

    result: Annotated[RunResult, _enum_from_name(RunResult)] = RunResult.EXITED
    exit_code: int = 0
    message: str = ""
    stdout_tail: str = ""
    stderr_tail: str = ""
    usage: UsageForm | None = None

    def fact(self) -> Fact:
        """The fact, with the tails as UTF-8."""
        usage = self.usage
        return facts.ActionFinished(
            instance=self.instance,
            endpoint=self.endpoint,
            connection_id=self.connection_id,
            dispatch_id=self.dispatch_id,
            result=self.result,
            exit_code=self.exit_code,
            message=self.message,
            stdout_tail=self.stdout_tail.encode(),
            stderr_tail=self.stderr_tail.encode(),
            usage=Usage(usage.wall_us, usage.cpu_us, usage.peak_memory_kib) if usage else NO_USAGE,
        )


class CancelRequestedForm(FactForm):
    """CancelRequested."""

    operation_id: int | None = None
    client_operation_id: str = ""


class PriorityRequestedForm(CancelRequestedForm):
    """PriorityRequested."""

    priority: int


class ConfiguredForm(FactForm):
    """Configured: the configuration itself stands in it, as a JSON object."""

    config: dict[str, Any]

    def fact(self) -> Fact:
        """The fact, with the configuration as text; which options there are is for events/config.py."""
        return facts.Configured(self.instance, json.dumps(self.config, sort_keys=True, separators=(",", ":")))


class TickForm(_Form):
    """Tick: time passed, in the whole shard."""

    kind: Literal["Tick"]

    def fact(self) -> Fact:
        """The fact."""
        return facts.Tick()


class KeyReleasedForm(_Form):
    """KeyReleased, in the whole shard."""

    kind: Literal["KeyReleased"]
    key: str = Field(description="client_operation_id or endpoint")

    def fact(self) -> Fact:
        """The fact."""
        return facts.KeyReleased(self.key)


class WorkerDrainedForm(_WorkerForm):
    """WorkerDrained."""


class WorkerUndrainedForm(_WorkerForm):
    """WorkerUndrained."""


class DispatchAcceptedForm(_DispatchForm):
    """DispatchAccepted."""


class InstancePausedForm(FactForm):
    """InstancePaused."""


class InstanceResumedForm(FactForm):
    """InstanceResumed."""


class ClientHeardForm(FactForm):
    """ClientHeard."""

    client_operation_id: str


class ClientGoneForm(ClientHeardForm):
    """ClientGone."""


class CacheAnsweredForm(FactForm):
    """CacheAnswered."""

    operation_id: int
    answer: Annotated[CacheAnswer, _enum_from_name(CacheAnswer)]
    exit_code: int = 0
    message: str = ""


class HintForm(_Form):
    """What actions of one kind have needed; 0 is no hint."""

    target_id: str = ""
    mnemonic: str = ""
    cpu_millis: int = 0
    memory_kib: int = 0


class HintsLoadedForm(FactForm):
    """HintsLoaded."""

    hints: list[HintForm] = []

    def fact(self) -> Fact:
        """The fact."""
        hints = [ResourceHint(hint.target_id, hint.mnemonic, hint.cpu_millis, hint.memory_kib) for hint in self.hints]
        return facts.HintsLoaded(self.instance, tuple(hints))


class UpstreamReportedForm(FactForm):
    """UpstreamReported."""

    operation_id: int
    state: Annotated[UpstreamState, _enum_from_name(UpstreamState)]
    outcome: Annotated[Outcome, _enum_from_name(Outcome)] = Outcome.UNSPECIFIED
    exit_code: int = 0
    message: str = ""


class BlobsAvailableForm(_ConnectionForm):
    """BlobsAvailable: without chunk and last, the whole report."""

    report: int
    chunk: int = 0
    last: bool = True
    full: bool = False
    added: list[DigestText] = []
    ac_pins: list[DigestText] = []
    mirror_pending: int = 0
    mirror_pinned: int = 0
    mirror_pinned_bytes: int = 0

    def fact(self) -> Fact:
        """The fact, with the digests in canonical bytes."""
        plain = {
            name: getattr(self, name) for name in type(self).model_fields if name not in ("kind", "added", "ac_pins")
        }
        return facts.BlobsAvailable(**plain, added=digests_bytes(self.added), ac_pins=digests_bytes(self.ac_pins))


class BlobsEvictedForm(_ConnectionForm):
    """BlobsEvicted."""

    digests: list[DigestText]

    def fact(self) -> Fact:
        """The fact, with the digests in canonical bytes."""
        return facts.BlobsEvicted(self.instance, self.endpoint, self.connection_id, digests_bytes(self.digests))


class PeerFetchFailedForm(_WorkerForm):
    """PeerFetchFailed; `endpoint` is the peer that was asked."""

    digest: DigestText
    failure: Annotated[FetchFailure, _enum_from_name(FetchFailure)]
    boot_epoch: int = 0
    reporter: str = ""


class BlobsStableForm(FactForm):
    """BlobsStable: without sequence and last, the whole broadcast."""

    broadcast: int
    sequence: int = 0
    last: bool = True
    store: str = ""
    digests: list[DigestText]

    def fact(self) -> Fact:
        """The fact, with the digests in canonical bytes."""
        return facts.BlobsStable(
            self.instance, self.broadcast, self.sequence, self.last, self.store, digests_bytes(self.digests)
        )


class BlobsStableAcknowledgedForm(_ConnectionForm):
    """BlobsStableAcknowledged."""

    chunk_seq: int


class StateDigestedForm(_Form):
    """StateDigested, of the whole shard."""

    kind: Literal["StateDigested"]
    seq: int
    state_digest: Annotated[bytes, PlainValidator(_bytes_from_hex)]
    format: int
    next_fact_offset: int
    by: str
    role: Annotated[DigestRole, _enum_from_name(DigestRole)]

    def fact(self) -> Fact:
        """The fact."""
        return facts.StateDigested(self.seq, self.state_digest, self.format, self.next_fact_offset, self.by, self.role)


FORMS: dict[str, type[FactForm | TickForm | KeyReleasedForm | StateDigestedForm]] = {
    form.__name__.removesuffix("Form"): form
    for form in (
        ActionQueuedForm,
        WorkerConnectedForm,
        WorkerReportedForm,
        WorkerDrainedForm,
        WorkerUndrainedForm,
        WorkerGoneForm,
        DispatchAcceptedForm,
        DispatchDeclinedForm,
        ActionFinishedForm,
        CancelRequestedForm,
        PriorityRequestedForm,
        InstancePausedForm,
        InstanceResumedForm,
        ConfiguredForm,
        TickForm,
        KeyReleasedForm,
        ClientHeardForm,
        ClientGoneForm,
        CacheAnsweredForm,
        HintsLoadedForm,
        UpstreamReportedForm,
        BlobsAvailableForm,
        BlobsEvictedForm,
        PeerFetchFailedForm,
        BlobsStableForm,
        BlobsStableAcknowledgedForm,
        StateDigestedForm,
    )
}
"""The model of each kind, by the kind's name."""
