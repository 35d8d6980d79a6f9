"""`headway operation list | show | cancel | reprioritise`: what was asked for and how it fares; in bulk by filter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from events.facts import CancelRequested, Fact, PriorityRequested
from streams.cli.changing import change, confirmed, wait_options
from streams.cli.output import Column, duration, emit, note, output_option, show, size, watch_option
from streams.cli.reading import views_option
from streams.cli.tables import answer_age, answer_now_us, counted, pairs_shown, parse_operation
from streams.moments import time_of
from streams.settings import DEFAULT_INSTANCE, load_settings
from streams.views import PAGE, Answer, Views

Command = TypeVar("Command", bound=Callable[..., Any])
Row = Mapping[str, Any]

STAGES = ("queued", "executing", "finished", "cache_check", "forwarded")
LIVE = ("queued", "executing", "cache_check", "forwarded")


@click.group("operation")
def command() -> None:
    """List, show, cancel and reprioritise operations."""


def filter_options(stages: tuple[str, ...]) -> Callable[[Command], Command]:
    """`--stage --client --mnemonic` as the parameters of those names."""

    def add(function: Command) -> Command:
        for option in (
            click.option("--mnemonic", metavar="WORD", help="Only with this mnemonic."),
            click.option("--client", metavar="ID", help="Only of this client (client_id)."),
            click.option("--stage", type=click.Choice(stages), help="Only in this stage [default: any]."),
        ):
            function = option(function)
        return function

    return add


@command.command("list")
@filter_options(STAGES)
@click.option("--instance", metavar="NAME", help="Only of this instance [default: all].")
@click.option("--limit", type=click.IntRange(1, PAGE), default=50, show_default=True, help="At most so many.")
@views_option
@output_option
@watch_option
def list_operations(
    views: Views,
    stage: str | None,
    client: str | None,
    mnemonic: str | None,
    instance: str | None,
    limit: int,
    output: str,
    watch: float | None,
) -> None:
    """Show operations: live ones, and finished ones while they are retained."""
    columns = [
        Column("id", "operation"),
        Column("client_operation_id", "client operation"),
        Column("stage"),
        Column("priority", align="right"),
        Column("endpoint", "worker"),
        Column("time", "since", "right", duration),
        Column("dispatches", "runs", "right"),
        Column("result"),
    ]

    def ask() -> Answer:
        return views.operations(stage=stage, instance=instance, client=client, mnemonic=mnemonic, limit=limit)

    show(
        ask,
        output,
        lambda answer: [_listed(row, answer) for row in answer["operations"]],
        columns,
        footer_of=_footer,
        watch=watch,
    )


@command.command("show")
@click.argument("operation_id", metavar="OPERATION")
@click.option("--instance", metavar="NAME", help="Where to look for a client operation id [default: everywhere].")
@click.option("--output-tails", "--output", "tails", is_flag=True, help="Print the captured tails of its output.")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@views_option
@watch_option
def show_operation(
    views: Views, operation_id: str, instance: str | None, tails: bool, output: str, watch: float | None
) -> None:
    """Show one operation, by INSTANCE/op-N, op-N, N or its client operation id."""
    if tails:
        answer = views.operation(operation_id, instance=instance)["operation"]
        if output == "json":
            emit({name: answer[name] for name in ("id", "exit_code", "stdout_tail", "stderr_tail")}, output)
            return
        click.echo(answer["stdout_tail"], nl=False)
        click.echo(answer["stderr_tail"], nl=False, err=True)
        if not answer["stdout_tail"] and not answer["stderr_tail"]:
            note("no output" if answer["stage"] == "finished" else f"no output yet: it is {answer['stage']}")
        return
    show(
        lambda: views.operation(operation_id, instance=instance),
        output,
        lambda answer: in_full_words(answer["operation"]),
        footer_of=answer_age,
        watch=watch,
    )


@command.command()
@click.argument("operations", nargs=-1, metavar="[OPERATION]...")
@filter_options(LIVE)
@click.option("--all", "everything", is_flag=True, help="Every live operation of the instance.")
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME")
@click.option("--dry-run", is_flag=True, help="Say which operations it would be, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask, on a terminal either.")
@wait_options
@output_option
def cancel(**options: Any) -> None:
    """Cancel operations, by name or all that match the filters. A run is stopped; what is queued never runs."""
    _each(
        lambda instance, operation_id, client_operation_id: CancelRequested(
            instance, operation_id, client_operation_id
        ),
        "cancelled",
        LIVE,
        **options,
    )


@command.command()
@click.argument("operations", nargs=-1, metavar="[OPERATION]...")
@click.option("--priority", type=click.IntRange(-(2**31), 2**31 - 1), required=True, help="Higher goes first.")
@filter_options(("queued",))
@click.option("--all", "everything", is_flag=True, help="Every queued operation of the instance.")
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME")
@click.option("--dry-run", is_flag=True, help="Say which operations it would be, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask, on a terminal either.")
@wait_options
@output_option
def reprioritise(priority: int, **options: Any) -> None:
    """Give operations another priority, by name or all queued ones that match the filters. Their queued time stays."""
    _each(
        lambda instance, operation_id, client_operation_id: PriorityRequested(
            instance, operation_id, client_operation_id, priority
        ),
        "reprioritised",
        ("queued",),
        **options,
    )


def _each(
    fact_of: Callable[[str, int | None, str], Fact],
    what: str,
    stages: tuple[str, ...],
    *,
    operations: tuple[str, ...],
    stage: str | None,
    client: str | None,
    mnemonic: str | None,
    everything: bool,
    instance: str,
    dry_run: bool,
    yes: bool,
    wait: bool,
    timeout_s: float,
    output: str,
) -> None:
    filters = {"stage": stage, "client": client, "mnemonic": mnemonic}
    if bool(operations) == (everything or any(filters.values())):
        raise click.UsageError(
            "name operations, or choose them by --stage, --client, --mnemonic or --all; one of the two"
        )
    settings = load_settings()
    if operations:
        named = [_named(text, instance, fact_of) for text in dict.fromkeys(operations)]
    else:
        wanted = (stage,) if stage else stages
        found = Views(settings.views_address).every_operation(instance, client=client, mnemonic=mnemonic)
        named = [(row["id"], fact_of(instance, row["operation_id"], "")) for row in found if row["stage"] in wanted]
    if dry_run:
        note(f"would be {what}: {counted(named, 'operation')}")
        emit([{"target": target} for target, _ in named], output, ["target"])
        return
    if not operations:
        question = f"{counted(named, 'operation')} of instance {instance} will be {what}. Go on?"
        if named and not confirmed(question, yes=yes):
            raise click.Abort()
        note(f"{counted(named, 'operation')} of instance {instance} to be {what}")
    sys.exit(change(settings, instance, named, what=what, wait=wait, timeout_s=timeout_s, output=output))


def _named(text: str, instance: str, fact_of: Callable[[str, int | None, str], Fact]) -> tuple[str, Fact]:
    name = parse_operation(text)
    if name.instance is not None and name.instance != instance:
        raise click.UsageError(f"{text} is of instance {name.instance!r}: say --instance {name.instance}")
    return text, fact_of(instance, name.operation_id, name.client_operation_id)


def _footer(answer: Answer) -> str:
    more = ", more than are shown (--limit)" if answer["more"] else ""
    return f"{counted(answer['operations'], 'operation')}{more}; {answer_age(answer)}"


def _listed(row: Row, answer: Answer) -> dict[str, Any]:
    match row["stage"]:
        case "queued":
            result, time_us = row["requeue_cause"] and f"requeued: {row['requeue_cause']}", row["waiting_us"]
        case "cache_check":
            result, time_us = "asks the action cache", answer_now_us(answer) - row["queued_at_us"]
        case "forwarded":
            result, time_us = f"at {row['upstream']}", answer_now_us(answer) - row["queued_at_us"]
        case "executing":
            result = "accepted" if row["accepted"] else "placed"
            time_us = answer_now_us(answer) - row["dispatched_at_us"]
        case _:
            result = row["outcome"] + (f", exit {row['exit_code']}" if row["outcome"] == "completed" else "")
            time_us = answer_now_us(answer) - row["finished_at_us"]
    return {**row, "result": result, "time": max(0, time_us)}


def _client(client: Row) -> str:
    return client["client_operation_id"] + (f" (left: {client['left']})" if client["left"] else "")


def in_full_words(row: Row) -> Row:
    """An operation for people: instants as dates, durations readable, what is absent left out."""
    words: dict[str, Any] = {}
    for name, value in row.items():
        if value in (None, "", [], False) or name in ("stdout_tail", "stderr_tail", "operation_id"):
            continue
        if name in ("requirements", "asked_requirements", "env"):
            words[name] = pairs_shown([{"value": f"(secret {v.get('secret')})", **v} for v in value])
        elif name == "usage":
            words[name] = (
                f"wall {duration(value['wall_us'])}, cpu {duration(value['cpu_us'])}, peak {value['peak_memory_kib']} KiB"
            )
        elif name == "holders":
            words["held_most_inputs"] = ", ".join(f"{held['endpoint']} {size(held['bytes'])}" for held in value)
        elif name == "saved_bytes":
            words["saved"] = f"{size(value)} of its inputs, which the worker held"
        elif name == "clients":
            words[name] = ", ".join(_client(client) for client in value)
        elif name == "order":
            words[name] = pairs_shown({key: part for key, part in value.items() if part is not None})
        elif name == "argv":
            words[name] = " ".join(value)
        elif name.endswith("_at_us") or name == "queued_since_us":
            words[name.removesuffix("_us")] = time_of(value)
        elif name.endswith("_us"):
            words[name.removesuffix("_us")] = duration(value)
        else:
            words[name] = value
    if row["stdout_tail"] or row["stderr_tail"]:
        words["output"] = f"{len(row['stdout_tail'])} + {len(row['stderr_tail'])} characters; see --output"
    return words
