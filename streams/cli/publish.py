"""`headway publish`: facts from JSON lines into the log."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import IO, Any, Literal, NamedTuple

import click

from events.codec import CONTENT_TYPE, JSON_CONTENT_TYPE, encode_fact
from events.errors import InvalidFact
from events.fact_rules import key_of
from events.jsonform import fact_from_json, json_object
from streams.cli.main import FAILED
from streams.cli.output import emit_line
from streams.cli.process import bootstrap_option
from streams.connection import connected
from streams.errors import Refused, UnknownInstance
from streams.log import Outgoing
from streams.publisher import FactPublisher
from streams.settings import DEFAULT_INSTANCE, Settings, load_settings

JSON_HEADERS = ((CONTENT_TYPE, JSON_CONTENT_TYPE),)
AT_ONCE = 500
NO_TIME = "the log sets a fact's time when it is appended; leave at_us out (it belongs to `headway decide`)"

Form = Literal["json", "protobuf"]


class Ready(NamedTuple):
    """A line that can be sent."""

    line: int
    kind: str
    shard: int
    record: Outgoing


class LineRefused(Exception):
    """A line that is not sent, and why: kind, field, value and rule where a rule of the wire contract is broken."""

    def __init__(self, line: int, code: str, message: str, **details: str) -> None:
        super().__init__(message)
        self.line, self.code, self.details = line, code, details

    def row(self) -> dict[str, Any]:
        """For `-o json`."""
        return {"line": self.line, "refused": self.code, "message": str(self), **self.details}


def checked(line: int, text: bytes, publisher: FactPublisher, form: Form) -> Ready:
    """The record of a line, by the rules of the edge. Raises LineRefused."""
    try:
        obj = json_object(text)
        if "at_us" in obj:
            raise InvalidFact(str(obj.get("kind", "")), "at_us", str(obj["at_us"]), NO_TIME)
        fact = fact_from_json(obj)
        shard = publisher.shard_of(getattr(fact, "instance", DEFAULT_INSTANCE))
        value = text if form == "json" else encode_fact(fact)
    except InvalidFact as error:
        details = {"kind": error.kind, "field": error.field, "value": error.value, "rule": error.rule}
        raise LineRefused(line, error.code, str(error).removeprefix(f"{error.code}: "), **details) from error
    except UnknownInstance as error:
        raise LineRefused(line, error.code, f"{error.message}. {error.remedy}") from error
    key = key_of(fact)
    headers = JSON_HEADERS if form == "json" else ()
    return Ready(line, type(fact).__name__, shard, Outgoing(value, key.encode() if key else None, headers))


def raw(line: int, text: bytes, shard: int) -> Ready:
    """A line as it is, with the key that the decider would look for where the line has one."""
    kind, key = "", None
    try:
        obj = json.loads(text)
    except ValueError:
        obj = None  # no JSON is exactly what --no-validate may be for
    if isinstance(obj, dict):
        kind = str(obj.get("kind", ""))
        found = obj.get("client_operation_id") or obj.get("endpoint") or obj.get("key")
        key = found.encode() if isinstance(found, str) else None
    return Ready(line, kind, shard, Outgoing(text, key, JSON_HEADERS))


@click.command(name="publish")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--as",
    "form",
    type=click.Choice(["json", "protobuf"]),
    default="protobuf",
    show_default=True,
    help="How the facts stand in the log; a decider reads both.",
)
@click.option(
    "--validate/--no-validate", default=True, help="--no-validate sends lines as they are; the decider answers."
)
@click.option(
    "--instance", default=DEFAULT_INSTANCE, help="With --no-validate: whose shard the lines go to [default: main]."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: a line for each.",
)
@bootstrap_option
def publish(
    file: IO[bytes], form: Form, validate: bool, instance: str, output: str, bootstrap_servers: str | None
) -> None:
    """Publish facts from FILE (standard input by default), one JSON object a line: {"kind": "ActionQueued", ...}.

    Every line is checked before it is sent. One that breaks a rule is said on standard error with its number, field, value and
    rule; the others are published all the same, and the exit code is then 1. Lines go out in order, in batches as they come.
    """
    settings = load_settings(bootstrap_servers=bootstrap_servers)
    if not validate and form == "protobuf":
        form = "json"
    refused = asyncio.run(_publish(settings, file, form, validate, instance, output))
    if refused:
        raise SystemExit(FAILED)


async def _publish(settings: Settings, file: IO[bytes], form: Form, validate: bool, instance: str, output: str) -> int:
    published = refused = 0
    async with connected(settings, client_id="headway-publish") as log, FactPublisher(log) as publisher:
        shard = 0 if validate else publisher.shard_of(instance)
        batches = _batches(file)
        # Reading may wait for a person or a pipe; the log's connections must stay alive meanwhile.
        while batch := await asyncio.to_thread(next, batches, None):
            ready: list[Ready] = []
            for number, text in batch:
                try:
                    ready.append(checked(number, text, publisher, form) if validate else raw(number, text, shard))
                except LineRefused as error:
                    refused += 1
                    _say(error, output)
            results = await asyncio.gather(
                *[publisher.publish_record(each.shard, each.record) for each in ready], return_exceptions=True
            )
            for each, result in zip(ready, results, strict=True):
                if isinstance(result, Refused):
                    refused += 1
                    _say(LineRefused(each.line, result.code, f"{result.message}. {result.remedy}"), output)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    published += 1
                    if output == "json":
                        emit_line({"line": each.line, "kind": each.kind, "shard": each.shard, "offset": result})
    if output == "text":
        click.echo(f"{published} published" + (f", {refused} refused" if refused else ""))
    return refused


def _say(error: LineRefused, output: str) -> None:
    if output == "json":
        emit_line(error.row(), file=sys.stderr)
    else:
        click.echo(f"line {error.line}: [{error.code}] {error}", err=True)


def _batches(file: IO[bytes]) -> Iterator[list[tuple[int, bytes]]]:
    """The lines that are there, at most AT_ONCE together, numbered from 1; a terminal's or a pipe's as soon as each is complete."""
    at_once = AT_ONCE if file.seekable() else 1
    batch: list[tuple[int, bytes]] = []
    for number, line in enumerate(file, 1):
        text = line.strip()
        if text:
            batch.append((number, text))
        if len(batch) >= at_once:
            yield batch
            batch = []
    if batch:
        yield batch


command = publish
