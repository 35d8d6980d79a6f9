"""The options of `headway worker run` about blobs, as one value."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from streams.settings import Settings
from streams.worker.blobs import BlobOptions, WorkerBlobs
from streams.worker.protocol import Identity

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BUDGET_KIB = 10 << 20
ANY_ADDRESS = ("0.0.0.0", "::")

_URL = re.compile(r"https?://[^\s/]+/?")


class Listening(click.ParamType):
    """`HOST:PORT`; the port 0 takes any free one."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Host and port; a usage error for anything else."""
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65_536):
            self.fail(f"{value!r} is not HOST:PORT, e.g. 10.0.0.5:8089 or [::1]:0", param, ctx)
        return host.removeprefix("[").removesuffix("]"), int(port)


class Url(click.ParamType):
    """`http://HOST:PORT`, or nothing."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The URL without a slash at its end; a usage error for anything else."""
        if value and _URL.fullmatch(value) is None:
            self.fail(f"{value!r} is not http://HOST:PORT", param, ctx)
        return str(value).rstrip("/")


class BlobChoice(NamedTuple):
    """What was chosen; a URL that is None is taken from the settings."""

    folder: Path
    budget_bytes: int
    listen: tuple[str, int]
    advertised_url: str
    store_url: str | None
    locality_url: str | None

    def opened(
        self, identity: Identity, settings: Settings, draw: Callable[[], int]
    ) -> AbstractAsyncContextManager[WorkerBlobs]:
        """The blobs of a worker, served until the context ends. Raises as `WorkerBlobs.at`."""
        host, port = self.listen
        store_url = (settings.blobs_url or "") if self.store_url is None else self.store_url
        locality_url = settings.views_address if self.locality_url is None else self.locality_url
        options = BlobOptions(host, port, self.advertised_url, store_url.rstrip("/"), locality_url)
        return WorkerBlobs.at(self.folder, self.budget_bytes, identity.instance, identity.endpoint, options, draw=draw)


def blob_options(command: Command) -> Command:
    """Add the options; the command gets them as `blobs`, None where no directory is named."""

    @functools.wraps(command)
    def collected(
        *arguments: Any,
        blobs_dir: Path | None,
        blobs_budget_kib: int,
        blobs_listen: tuple[str, int],
        blobs_advertise: str,
        blobs_url: str | None,
        locality_url: str | None,
        **others: Any,
    ) -> Any:
        choice: BlobChoice | None = None
        if blobs_dir is not None:
            if blobs_listen[0] in ANY_ADDRESS and not blobs_advertise:
                raise click.UsageError(
                    f"--blobs-listen {blobs_listen[0]} is no address that others could ask: name this machine's, "
                    "or give --blobs-advertise URL"
                )
            choice = BlobChoice(
                blobs_dir, blobs_budget_kib << 10, blobs_listen, blobs_advertise, blobs_url, locality_url
            )
        elif blobs_advertise or blobs_url:
            raise click.UsageError("--blobs-advertise and --blobs-url go with --blobs-dir")
        return command(*arguments, blobs=choice, **others)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected  # type: ignore[return-value]


_OPTIONS = (
    click.option(
        "--blobs-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Keep blobs here: inputs are fetched, outputs kept, both served to others [default: no blobs].",
    ),
    click.option(
        "--blobs-budget-kib",
        type=click.IntRange(min=1),
        default=DEFAULT_BUDGET_KIB,
        show_default=True,
        help="The most they take; above it the least recently used go.",
    ),
    click.option(
        "--blobs-listen",
        type=Listening(),
        default="127.0.0.1:0",
        show_default=True,
        help="Where they are served: an address that other workers can reach. Port 0: any free one.",
    ),
    click.option(
        "--blobs-advertise", type=Url(), default="", help="Where others reach them, if not by --blobs-listen."
    ),
    click.option("--blobs-url", type=Url(), help="The stable store [env HEADWAY_BLOBS_URL]."),
    click.option(
        "--locality-url",
        type=Url(),
        help="Who has which blob: the read side's views; empty: ask nobody [default: HEADWAY_VIEWS_URL].",
    ),
)
