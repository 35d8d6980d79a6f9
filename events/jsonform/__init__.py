"""The JSON form of facts, events, placements and worker commands: one mapping for the topic, the command line and the web views."""

from events.jsonform.fact_models import DEFAULT_INSTANCE, digest_from_text
from events.jsonform.reading import fact_from_json, json_key, json_object
from events.jsonform.writing import command_to_json, event_to_json, fact_to_json, placement_to_json

__all__ = [
    "DEFAULT_INSTANCE",
    "command_to_json",
    "digest_from_text",
    "event_to_json",
    "fact_from_json",
    "fact_to_json",
    "json_key",
    "json_object",
    "placement_to_json",
]
