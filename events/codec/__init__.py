"""Records of the log as values and back: facts, events, and the digest chain that events carry."""

from events.codec.chain import GENESIS_CHAIN, chain_of, check_chain
from events.codec.events import Envelope, EventEncoder, decode_event, encode_event, envelope_of, event_of_kinds
from events.codec.facts import CONTENT_TYPE, JSON_CONTENT_TYPE, FactCodec, decode_fact, encode_fact, is_json, key_text
from events.payloads import (
    Command,
    EnvironmentVariable,
    canonical_requirements,
    command_bytes,
    command_of,
    requirements_of,
)

__all__ = [
    "CONTENT_TYPE",
    "GENESIS_CHAIN",
    "JSON_CONTENT_TYPE",
    "Command",
    "Envelope",
    "EnvironmentVariable",
    "EventEncoder",
    "FactCodec",
    "canonical_requirements",
    "chain_of",
    "check_chain",
    "command_bytes",
    "command_of",
    "decode_event",
    "decode_fact",
    "encode_event",
    "encode_fact",
    "envelope_of",
    "event_of_kinds",
    "is_json",
    "key_text",
    "requirements_of",
]
