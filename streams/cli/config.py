"""`headway config show | set`: the configuration of an instance, validated before it is published."""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from events.config import canonical_config, parse_config
from events.facts import Configured
from streams.cli.changing import change, wait_options
from streams.cli.main import Failure
from streams.cli.output import Column, emit, note, output_option
from streams.cli.tables import answer_age, pairs_shown
from streams.settings import DEFAULT_INSTANCE, load_settings
from streams.views import Views


@click.group("config")
def command() -> None:
    """Show or set the configuration of an instance."""


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
    try:
        text = file.read()
    except UnicodeDecodeError as error:
        raise Failure(f"{file.name} is not UTF-8 text: {error}", code="HW-101", remedy="Save it as UTF-8") from error
    config = parse_config(text)
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
    """A configuration under the names that a file for `config set` has."""
    properties = config.get("supported_platform_properties") or {}
    shown = {**config, "supported_platform_properties": pairs_shown(properties)} if output != "json" else config
    emit(shown, output, [Column(name, name) for name in shown], footer=footer)
