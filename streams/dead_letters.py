"""Dead letters: facts that changed nothing because they were invalid or their key is parked, kept as the bytes they came as.

A dead letter stands in the same transaction as the event that says so, so neither is ever there without the other. Key, value
and headers are the fact's own, which lets it be published again unchanged; what was wrong stands in headers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from events.events import Event, FactIgnored, FactRejected
from events.reasons import IgnoreReason
from streams.log import Header, Outgoing, Record

OWN_PREFIX: Final = "headway_"
_CLOUD_EVENTS_PREFIX: Final = "ce_"
_CONTENT_TYPE: Final = "content-type"


def dead_letter(record: Record, events: Sequence[Event], shard: int) -> Outgoing | None:
    """The dead letter for a fact's record, given the events it caused; None when it was taken in.

    Headers besides the fact's own: `ce_*` (CloudEvents binary mode, type of the event that says why), `headway_reason` (the
    reason's name), `headway_shard` and `headway_offset` of the fact, `headway_seq` of the event, and where known
    `headway_fact_kind`, `headway_field`, `headway_value`, `headway_rule`.
    """
    for event in events:
        if type(event) is FactRejected:
            details = {"field": event.field, "value": event.value, "rule": event.rule}
        elif type(event) is FactIgnored and event.reason is IgnoreReason.KEY_PARKED:
            details = {}
        else:
            continue
        kind = type(event).__name__
        source = f"/headway/{event.instance}" if event.instance else f"/headway/shards/{shard}"
        described: list[tuple[str, str]] = [
            ("ce_specversion", "1.0"),
            ("ce_id", f"{shard}/{event.seq}"),
            ("ce_source", source),
            ("ce_type", f"headway.v1.{kind}"),
            ("headway_reason", event.reason.name),
            ("headway_shard", str(shard)),
            ("headway_offset", str(record.offset)),
            ("headway_seq", str(event.seq)),
            ("headway_fact_kind", event.fact_kind),
            *((OWN_PREFIX + name, text) for name, text in details.items()),
        ]
        headers: list[Header] = [(name, text.encode()) for name, text in described if text]
        headers += original_headers(record.headers)
        if not any(name == _CONTENT_TYPE for name, _ in record.headers):
            headers.append((_CONTENT_TYPE, b"application/protobuf"))
        return Outgoing(record.value, record.key, tuple(headers))
    return None


def original_headers(headers: Sequence[Header]) -> list[Header]:
    """The fact's own headers, without those that a dead letter has for itself."""
    return [header for header in headers if not header[0].lower().startswith((_CLOUD_EVENTS_PREFIX, OWN_PREFIX))]
