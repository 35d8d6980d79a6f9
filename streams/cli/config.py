"""`headway config show | set | import | reference`: the configuration of an instance, validated before it is published."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import IO, Any

import click

from events.config import SchedulerConfig, canonical_config, parse_config
from events.config.reference import reference
from events.facts import Configured
from streams.cli.changing import change, wait_options
from streams.cli.main import Failure
from streams.cli.output import Column, emit, note, output_option
from streams.cli.tables import answer_age, pairs_shown
from streams.importing import Upstream, import_nativelink
from streams.settings import DEFAULT_INSTANCE, load_settings
from streams.views import Views


@click.group("config")
def command() -> None:
    """Show, set and import the configuration of an instance."""


@command.command("show")
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME")
@output_option
def show_config(instance: str, output: str) -> None:
    """Show the configuration in force; with -o json in the form that `config set` takes."""
    answer = Views(load_settings().views_address).instances(instance=instance)
    _show(answer["instances"][0]["config"], output, answer_age(answer))


@command.command("set")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME")
@click.option("--dry-run", is_flag=True, help="Validate it, print what would be in force, and change nothing.")
@wait_options
@output_option
def set_config(file: IO[str], instance: str, dry_run: bool, wait: bool, timeout_s: float, output: str) -> None:
    """Put the configuration in FILE (JSON; - is standard input) in force. Options it leaves out get their defaults."""
    _put(parse_config(_text_of(file)), instance, dry_run, wait, timeout_s, output)


@command.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--scheduler", metavar="NAME", default="", help="Which scheduler of the file [default: the only one].")
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME", help="The instance it is for.")
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable for ${NAME} in the file; without a value the environment's. Others are not expanded.",
)
@click.option("--upstream-instance", metavar="NAME", help="The instance that a grpc scheduler forwards to.")
@click.option("--upstream-bootstrap", metavar="SERVERS", help="Its Kafka cluster [default: this one].")
@click.option("--dry-run", is_flag=True, help="Validate it, print what would be in force, and change nothing.")
@wait_options
@output_option
def import_config(
    file: IO[str],
    scheduler: str,
    instance: str,
    variables: tuple[str, ...],
    upstream_instance: str | None,
    upstream_bootstrap: str | None,
    dry_run: bool,
    wait: bool,
    timeout_s: float,
    output: str,
) -> None:
    """Put a scheduler of NativeLink's configuration FILE (JSON5; - is standard input) in force.

    What has no meaning here is named on standard error, with the reason, and left out.
    """
    if upstream_bootstrap and not upstream_instance:
        raise click.UsageError("--upstream-bootstrap goes with --upstream-instance")
    imported = import_nativelink(
        _text_of(file),
        scheduler=scheduler,
        environment=_environment(variables),
        upstream=Upstream(upstream_instance, upstream_bootstrap) if upstream_instance else None,
    )
    for path, said in imported.notes:
        note(f"{path}: {said}")
    _put(imported.config, instance, dry_run, wait, timeout_s, output)


@command.command("reference")
def show_reference() -> None:
    """Print the reference of every option, in Markdown: what infra/docs/configuration.md holds."""
    click.echo(reference(), nl=False)


def _text_of(file: IO[str]) -> str:
    name = "standard input" if file.name in ("-", "<stdin>") else file.name
    try:
        text = file.read()
    except UnicodeDecodeError as error:
        raise Failure(f"{name} is not UTF-8 text: {error}", code="HW-101", remedy="Save it as UTF-8") from error
    if not text.strip():
        raise Failure(
            f"{name} is empty: a configuration is a JSON object",
            code="HW-101",
            remedy="`headway config show -o json` prints the one in force in the form to begin with",
        )
    return text


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for variable in variables:
        name, given, value = variable.partition("=")
        if not given:
            if name not in os.environ:
                raise click.UsageError(f"--env {name}: the environment has no such variable; write --env {name}=VALUE")
            value = os.environ[name]
        found[name] = value
    return found


def _put(config: SchedulerConfig, instance: str, dry_run: bool, wait: bool, timeout_s: float, output: str) -> None:
    if dry_run:
        note(f"valid; would be in force in instance {instance}:")
        _show(config.model_dump(mode="json"), output)
        return
    fact = Configured(instance, canonical_config(config))
    sys.exit(
        change(
            load_settings(),
            instance,
            [(instance, fact)],
            what="configured",
            wait=wait,
            timeout_s=timeout_s,
            output=output,
        )
    )


def _show(config: dict[str, Any], output: str, footer: str = "") -> None:
    """A configuration under the names that a file for `config set` has; nested ones by their path."""
    shown = config if output == "json" else dict(_flat(config, ""))
    emit(shown, output, [Column(name, name) for name in shown], footer=footer)


def _flat(config: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if name == "supported_platform_properties":
            yield path + name, pairs_shown(value)
        elif name == "modifications":
            yield path + name, "; ".join(_modification(item) for item in value)
        elif isinstance(value, dict):
            yield from _flat(value, f"{path}{name}.")
        elif isinstance(value, list):
            yield path + name, ", ".join(map(str, value))
        else:
            yield path + name, value


def _modification(item: dict[str, Any]) -> str:
    """One change in words: `replace OS=linux by OSFamily=Linux`."""
    what = item["name"] if item["value"] is None else f"{item['name']}={item['value']}"
    if item["kind"] != "replace":
        return f"{item['kind']} {what}"
    new = item["new_name"] if item["new_value"] is None else f"{item['new_name']}={item['new_value']}"
    return f"replace {what} by {new}"
