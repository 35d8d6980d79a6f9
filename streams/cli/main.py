"""`headway`: one command per noun, each in a module of its own that is imported only when it is asked for.

So `headway --help` is quick, and a noun whose module cannot be imported (an optional dependency, a broken checkout) says so
when it is used and leaves the others alone.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from importlib import metadata
from typing import Any, NamedTuple, NoReturn

import click
from click.formatting import HelpFormatter

from events.errors import HeadwayError
from streams.errors import StreamError
from streams.settings import Settings

OK, FAILED, USAGE, CHECK_FAILED, NOT_FOUND = 0, 1, 2, 3, 4
"""The exit codes. A check that failed (3) is not an error of the program: something was compared and differed."""

READER_GONE = 141
"""What a shell reports of a program that SIGPIPE ended: whoever read the output, `head` say, has read enough."""


class Noun(NamedTuple):
    """A command that is imported on demand: the module exports it as `command`."""

    module: str
    line: str


NOUNS: dict[str, Noun] = {
    "bench": Noun("bench", "Measure a part of Headway on this machine."),
    "blobs": Noun("blobs", "Run the stable store of blobs; put blobs into it and get them."),
    "broker": Noun("broker", "Bring up a real Apache Kafka, find it, bring it down."),
    "config": Noun("config", "Show, set and import the configuration of an instance."),
    "decide": Noun("decide", "Decide a file of facts in memory: JSON lines in, JSON lines out."),
    "decider": Noun("decider", "Run the decider of one or several shards."),
    "edges": Noun("edges", "Answer what the scheduler asks of the world: the action cache, other schedulers."),
    "events": Noun("events", "Read the event log."),
    "explain": Noun("explain", "Say why: what an operation waited for, what a hold was for, what became of a worker."),
    "export": Noun("export", "Export the log into files that can be read without a broker."),
    "hold": Noun("hold", "List the workers that are held, and for whom."),
    "hints": Noun("hints", "Load resource hints: what actions of a kind have needed before."),
    "import": Noun("importing", "Begin a log in an empty cluster from an export."),
    "instance": Noun("instance", "List instances, pause and resume their placing."),
    "locality": Noun("locality", "Say which workers hold a blob, and what an endpoint holds."),
    "operation": Noun("operation", "List, show, cancel and reprioritise operations."),
    "placements": Noun("placements", "Read where actions are placed, as JSON lines."),
    "publish": Noun("publish", "Publish facts from JSON lines."),
    "queue": Noun("queue", "List what waits, in dispatch order."),
    "replay": Noun("replay", "Fold the event log from its beginning, and check the state table against it."),
    "shadow": Noun("shadow", "Let another build decide beside the one that leads, and say where it differs."),
    "simulate": Noun("simulate", "Simulate a workload on the core, on a virtual clock."),
    "snapshot": Noun("snapshot", "List, write, verify and use snapshots of a shard's state."),
    "state-table": Noun("state_table", "Run the read side: the scheduler state table and its views."),
    "status": Noun("status", "Show the broker, the shards and how much is queued and running."),
    "topics": Noun("topics", "Plan and make the topics and the shard map."),
    "verify": Noun("verify", "Say of every recorded decision whether it follows from the facts and the rules."),
    "up": Noun("up", "Run everything on this machine: broker, topics, decider, read side."),
    "what-if": Noun("what_if", "Say what another configuration would have done with what was recorded."),
    "worker": Noun("worker", "List, drain, undrain and remove workers, or run one."),
}


class Failure(click.ClickException):
    """An error for a person: code and message on the first lines, the remedy on the last."""

    def __init__(self, message: str, *, code: str = "", remedy: str = "", exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.code, self.remedy, self.exit_code = code, remedy, exit_code

    def show(self, file: Any = None) -> None:
        """Print to standard error (or `file`)."""
        label = f"error [{self.code}]: " if self.code else "error: "
        click.echo(label + self.message, file=file, err=file is None)
        if self.remedy:
            click.echo(f"  {self.remedy}", file=file, err=file is None)


_EXIT_CODES = {
    "unknown-instance": NOT_FOUND,
    "not-found": NOT_FOUND,
    "not-exported": NOT_FOUND,
    "no-such-moment": NOT_FOUND,
    "damaged-export": CHECK_FAILED,
    "HW-204": CHECK_FAILED,
    "snapshot-unusable": CHECK_FAILED,
    "trim-refused": CHECK_FAILED,
}
"""By the code of the error, so that no command brings along what it does not use: 1, but for these."""


def failure_of(error: Exception) -> Failure:
    """What the command line says of one of Headway's own errors, and with which exit code."""
    if isinstance(error, StreamError):
        exit_code = _EXIT_CODES.get(error.code, FAILED)
        return Failure(error.message.rstrip(), code=error.code, remedy=error.remedy, exit_code=exit_code)
    code = error.code if isinstance(error, HeadwayError) else ""
    return Failure(str(error).removeprefix(f"{code}: "), code=code, exit_code=_EXIT_CODES.get(code, FAILED))


class Nouns(click.Group):
    """A group that imports a command when it is used, and turns Headway's errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every noun, whether it can be imported or not."""
        return sorted({*NOUNS, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a noun; None when there is no such noun.

        Raises Failure when its module cannot be imported.
        """
        known = super().get_command(ctx, cmd_name)
        if known is not None or cmd_name not in NOUNS:
            return known
        return load(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: HelpFormatter) -> None:
        """One line each, without importing any."""
        with formatter.section("Nouns"):
            formatter.write_dl([(name, NOUNS[name].line) for name in sorted(NOUNS)])

    def format_epilog(self, ctx: click.Context, formatter: HelpFormatter) -> None:
        """The environment variables and the exit codes."""
        with formatter.section("Environment"):
            formatter.write_dl(
                [(f"HEADWAY_{name.upper()}", field.description or "") for name, field in Settings.model_fields.items()]
            )
        with formatter.section("Exit codes"):
            formatter.write_text(
                "0 ok, 1 failure, 2 usage, 3 a check failed, 4 not found, 141 the output's reader has gone"
            )

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; ends quietly when the reader of its output has gone, also when that shows only at the end."""
        try:
            answer = super().main(*args, **extra)
        except SystemExit as ended:
            # Click's own exit code of a broken pipe is 1, as of a failure; a command that ended otherwise keeps its own.
            if reader_gone() and ended.code in (None, OK, FAILED):
                raise SystemExit(READER_GONE) from None
            raise
        if reader_gone():
            raise SystemExit(READER_GONE)
        return answer

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors of Headway become one message and an exit code."""
        # aiokafka logs every retry; what matters of it reaches us as an exception, and a person would take it for an error.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        try:
            return super().invoke(ctx)
        except (StreamError, HeadwayError) as error:
            raise failure_of(error) from error


def reader_gone() -> bool:
    """Write out what is still buffered for standard output; True when nobody reads it any more.

    Then it goes to the null device, so that the flush at the interpreter's exit finds nothing to complain about.
    """
    # Not sys.stdout: click puts a wrapper that hides broken pipes there when it has met one. The wrapped stream is `wrapped`.
    stream = getattr(sys.stdout, "wrapped", sys.stdout)
    if stream is None or stream.closed:
        return False
    gone = stream is not sys.stdout
    try:
        stream.flush()
    except BrokenPipeError:
        gone = True
    if gone:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    return gone


def load(noun: str) -> click.Command:
    """Import the command of a noun. Raises Failure when that is not possible, with the reason."""
    module = f"streams.cli.{NOUNS[noun].module}"
    try:
        command = importlib.import_module(module).command
    except (ImportError, AttributeError) as error:
        _cannot_load(noun, module, error)
    if not isinstance(command, click.Command):
        _cannot_load(noun, module, TypeError(f"its `command` is a {type(command).__name__}"))
    return command


def _cannot_load(noun: str, module: str, error: Exception) -> NoReturn:
    raise Failure(
        f"`headway {noun}` cannot be loaded: {module}: {error}",
        code="noun-not-loaded",
        remedy="Install Headway with all of its dependencies (infra/setup); the other commands are not affected",
    ) from error


def version() -> str:
    """The installed release of Headway."""
    return metadata.version("headway")


@click.command(cls=Nouns, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(version=version(), prog_name="headway")
def main() -> None:
    """Headway: a scheduler whose only truth is a Kafka log."""


if __name__ == "__main__":
    main()
