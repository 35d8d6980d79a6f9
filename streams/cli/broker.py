"""`headway broker up | status | down`: the Kafka that everything else stands on."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from streams.broker import WAYS, BrokerEndpoint, BrokerFailed, BrokerSettings, bring_down, bring_up, status

NOT_FOUND = 4


def default_home(environ: dict[str, str]) -> Path:
    """Return the user's data directory for Headway (the XDG base directory rule)."""
    base = environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "headway"


home_option = click.option(
    "--home",
    envvar="HEADWAY_HOME",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the broker's data live [env HEADWAY_HOME; default: the user's data directory].",
)
bootstrap_option = click.option(
    "--bootstrap-servers",
    envvar="HEADWAY_BOOTSTRAP_SERVERS",
    metavar="HOST:PORT[,...]",
    help="A cluster that others run; makes the cluster way possible [env HEADWAY_BOOTSTRAP_SERVERS].",
)
output_option = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)


@click.group()
def broker() -> None:
    """Bring up a real Apache Kafka, find it, bring it down."""


@broker.command()
@home_option
@click.option(
    "--way",
    envvar="HEADWAY_BROKER",
    type=click.Choice(WAYS),
    help="Only this way, or an error [env HEADWAY_BROKER; default: cluster, docker, jvm, whichever works first].",
)
@click.option(
    "--port", type=click.IntRange(1024, 32767), help="The port on 127.0.0.1 [default: the home's, else a free one]."
)
@bootstrap_option
@output_option
def up(home: Path | None, way: str | None, port: int | None, bootstrap_servers: str | None, output: str) -> None:
    """Bring a broker up, or find the one that runs in this home. It stays when this command ends."""
    try:
        found = bring_up(_home(home), way=way, port=port, say=_say, settings=_settings(bootstrap_servers))
    except BrokerFailed as error:
        _fail(error, output)
    _show(found, output)


@broker.command(name="status")
@home_option
@bootstrap_option
@output_option
def show_status(home: Path | None, bootstrap_servers: str | None, output: str) -> None:
    """Tell which broker runs. Exit code 4 when none does."""
    place = _home(home)
    try:
        found = status(place, settings=_settings(bootstrap_servers))
    except BrokerFailed as error:
        _fail(error, output)
    if found is None:
        click.echo(f"no broker runs in {place}; `headway broker up` starts one", err=True)
        if output == "json":
            click.echo(json.dumps({"running": False, "home": str(place)}))
        sys.exit(NOT_FOUND)
    _show(found, output)


@broker.command()
@home_option
@click.option("--reset", is_flag=True, help="Delete its data too. There is no way back.")
@output_option
def down(home: Path | None, reset: bool, output: str) -> None:
    """Stop the broker of this home. Its data stay, unless --reset."""
    place = _home(home)
    try:
        ran = bring_down(place, reset=reset, say=_say, settings=_settings(None))
    except BrokerFailed as error:
        _fail(error, output)
    if output == "json":
        click.echo(json.dumps({"stopped": ran, "reset": reset, "home": str(place)}))
    else:
        what = "broker stopped" if ran else "no broker ran"
        click.echo(f"{what} in {place}" + ("; its data are deleted" if reset else ""))


def _home(home: Path | None) -> Path:
    return (home or default_home(dict(os.environ))).expanduser().absolute()


def _settings(bootstrap_servers: str | None) -> BrokerSettings:
    return replace(BrokerSettings.from_environment(os.environ), bootstrap_servers=bootstrap_servers)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _show(found: BrokerEndpoint, output: str) -> None:
    if output == "json":
        fields: dict[str, Any] = {
            "running": True,
            "kind": found.kind,
            "bootstrap_servers": found.bootstrap_servers,
            "version": found.version,
            "home": str(found.home),
            "pid": found.pid,
        }
        click.echo(json.dumps(fields))
    else:
        process = f", pid {found.pid}" if found.pid is not None else ""
        click.echo(f"Kafka {found.version} at {found.bootstrap_servers} ({found.kind}{process}), home {found.home}")


def _fail(error: BrokerFailed, output: str) -> NoReturn:
    if output == "json":
        click.echo(json.dumps({"error": error.code, "message": str(error)}), err=True)
    else:
        click.echo(f"error: {error}", err=True)
    sys.exit(1)


command = broker
"""What `headway broker` is (streams.cli.main)."""


if __name__ == "__main__":
    broker()
