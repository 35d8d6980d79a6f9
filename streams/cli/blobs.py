"""`headway blobs`: the stable store of blobs as a service, and putting and getting blobs."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import sys
import tempfile
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import NamedTuple

import click

from events.reasons import FetchFailure
from events.values import Digest
from streams import log_lines
from streams.blobs.errors import BlobDirectoryUnusable, BlobMissing, SameDirectory, StoreFailed
from streams.blobs.fetching import BlobClient, FetchFailed
from streams.blobs.incoming import Incoming
from streams.blobs.locating import LocalityMap
from streams.blobs.naming import digest_named, name_of
from streams.blobs.serving import UPLOAD_SILENCE_S, BlobServer
from streams.blobs.stable import StableBlobPublisher, WorkersAsPeers
from streams.blobs.tiers import DurableTier, FolderTier, MemoryTier, TieredStore
from streams.cli.blob_options import Listening, Url
from streams.cli.main import FAILED, NOT_FOUND, Failure
from streams.cli.process import bootstrap_option
from streams.connection import connected
from streams.publisher import FactPublisher
from streams.settings import DEFAULT_INSTANCE, Settings, load_settings

DEFAULT_LISTEN = "127.0.0.1:8089"
DEFAULT_FAST_KIB = 1 << 20


@click.group("blobs")
def command() -> None:
    """Run the stable store of blobs; put blobs into it and get them."""


class _Serving(NamedTuple):
    folder: Path
    fast_dir: Path | None
    fast_kib: int
    listen: tuple[str, int]
    instances: tuple[str, ...]
    tag: str
    announces: bool
    locality_url: str | None
    upload_silence_s: float


@command.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The durable tier: blobs are on its disk (fsync) before they are announced.",
)
@click.option(
    "--fast-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The fast tier as a directory [default: in memory].",
)
@click.option(
    "--fast-memory-kib",
    type=click.IntRange(min=1),
    default=DEFAULT_FAST_KIB,
    show_default=True,
    help="The fast tier in memory: the largest blob, and all that wait to be durable.",
)
@click.option("--listen", type=Listening(), default=DEFAULT_LISTEN, show_default=True, help="Where it is served.")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    default=(DEFAULT_INSTANCE,),
    show_default=True,
    help="Whose workers are told what is stable; may be repeated.",
)
@click.option(
    "--store",
    type=click.Choice(["content", "ac"]),
    default="content",
    show_default=True,
    help="What the blobs are: content, or results of the action cache.",
)
@click.option("--announce/--no-announce", default=True, help="Tell workers what is stable; it needs the log.")
@click.option(
    "--locality-url",
    type=Url(),
    help="At the stop, ask there what only workers hold, and take it; empty: take nothing [default: HEADWAY_VIEWS_URL].",
)
@click.option(
    "--upload-silence-s",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    default=UPLOAD_SILENCE_S,
    show_default=True,
    metavar="SECONDS",
    help="An upload of which nothing comes for so long is given up (408), with the room that is kept for it.",
)
@bootstrap_option
@click.option(
    "--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), default="INFO", show_default=True
)
def serve(
    folder: Path,
    fast_dir: Path | None,
    fast_memory_kib: int,
    listen: tuple[str, int],
    instances: tuple[str, ...],
    store: str,
    announce: bool,
    locality_url: str | None,
    upload_silence_s: float,
    bootstrap_servers: str | None,
    log_level: str,
) -> None:
    """Serve a store of blobs until SIGTERM or Ctrl-C; its address is printed.

    A blob of at most 16 KiB is taken once it is durable; a larger one at once, and it becomes durable behind. What is durable is announced
    to the workers, which may then give up their copies. At the stop: no new blobs, everything made durable, what only workers hold is
    fetched from them and made durable as well, announced. A second signal stops it there and then.
    """
    log_lines.configure(log_level)
    settings = load_settings(bootstrap_servers=bootstrap_servers)
    tag = "" if store == "content" else store
    chosen = _Serving(
        folder, fast_dir, fast_memory_kib, listen, instances, tag, announce, locality_url, upload_silence_s
    )
    if asyncio.run(_serve(settings, chosen)):
        raise SystemExit(FAILED)


def draw() -> int:
    """64 random bits, never 0."""
    return secrets.randbits(64) or 1


async def _serve(settings: Settings, chosen: _Serving) -> bool:
    """Serve; True where the stop was cut short."""
    if chosen.fast_dir is not None and chosen.fast_dir.resolve() == chosen.folder.resolve():
        raise SameDirectory(str(chosen.folder))
    try:
        fast = MemoryTier(chosen.fast_kib << 10) if chosen.fast_dir is None else FolderTier(chosen.fast_dir)
        store = TieredStore(fast, DurableTier(chosen.folder))
    except OSError as error:
        raise BlobDirectoryUnusable(str(error)) from error
    try:
        async with AsyncExitStack() as stack:
            publisher: StableBlobPublisher | None = None
            if chosen.announces:
                log = await stack.enter_async_context(connected(settings, client_id="headway-blobs"))
                facts = await stack.enter_async_context(FactPublisher(log))
                for instance in chosen.instances:
                    facts.shard_of(instance)  # an unknown one is an error now, not at the first blob
                client = await stack.enter_async_context(BlobClient())
                address = settings.views_address if chosen.locality_url is None else chosen.locality_url
                peers: WorkersAsPeers | None = None
                if address and not chosen.tag:  # workers keep content; results are theirs to make again
                    peers = WorkersAsPeers(LocalityMap(address, client.session), client, chosen.instances)
                publisher = StableBlobPublisher(store, facts, chosen.instances, draw=draw, tag=chosen.tag, peers=peers)
            server = BlobServer(
                store,
                host=chosen.listen[0],
                port=chosen.listen[1],
                sink=store,
                upload_silence_s=chosen.upload_silence_s,
            )
            click.echo(await server.start())
            stack.push_async_callback(server.close)
            return await _until_stopped(store, publisher)
    finally:
        store.close()


async def _until_stopped(store: TieredStore, publisher: StableBlobPublisher | None) -> bool:
    first, second = asyncio.Event(), asyncio.Event()

    def asked() -> None:
        (second if first.is_set() else first).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    working = asyncio.create_task(store.flush_behind() if publisher is None else publisher.run())
    stop_asked = asyncio.create_task(first.wait())
    await asyncio.wait([working, stop_asked], return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        stop_asked.cancel()
        working.result()
    working.cancel()
    await asyncio.wait([working])
    store.stop_intake()
    stopping = asyncio.create_task(store.flush_until_done() if publisher is None else publisher.stop())
    abandoned = asyncio.create_task(second.wait())
    await asyncio.wait([stopping, abandoned], return_when=asyncio.FIRST_COMPLETED)
    abandoned.cancel()
    if stopping.done():
        stopping.result()
        return False
    stopping.cancel()
    await asyncio.wait([stopping])
    return True


_store_option = click.option("--blobs-url", type=Url(), help="The store [env HEADWAY_BLOBS_URL].")


@command.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_store_option
def put(files: tuple[Path, ...], blobs_url: str | None) -> None:
    """Put files into the store; prints the digest of each, as <hex>-<size>, and its name."""
    asyncio.run(_put(_store_url(blobs_url), files))


async def _put(url: str, files: tuple[Path, ...]) -> None:
    async with BlobClient() as client:
        for path in files:
            digest = await client.put_file(url, path)
            click.echo(f"{name_of(digest)}  {path}")


@command.command()
@click.argument("digest")
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file to write [default: standard output].",
)
@_store_option
def get(digest: str, target: Path | None, blobs_url: str | None) -> None:
    """Get a blob; what does not have this digest is not written to the file."""
    asked, url = digest_named(digest), _store_url(blobs_url)
    # Beside the target, so that it can be put in its place at once; and whole and right before anything of it is handed out.
    with tempfile.TemporaryDirectory(dir=None if target is None else target.absolute().parent) as folder:
        incoming, got = Incoming(asked, Path(folder)), Path(folder, "blob")
        try:
            asyncio.run(_get(url, asked, incoming))
            incoming.finish(got)
        finally:
            incoming.discard()
        if target is None:
            with open(got, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
        else:
            got.chmod(0o644)
            os.replace(got, target)


async def _get(url: str, digest: Digest, incoming: Incoming) -> None:
    try:
        async with BlobClient() as client, aclosing(client.pieces(url, digest)) as pieces:
            async for piece in pieces:
                incoming.write(piece)
    except FetchFailed as error:
        if error.failure is FetchFailure.NOT_FOUND:
            missing = BlobMissing(name_of(digest), f"the store at {url}")
            raise Failure(missing.message, code=missing.code, remedy=missing.remedy, exit_code=NOT_FOUND) from error
        raise StoreFailed(url, error.why) from error


def _store_url(given: str | None) -> str:
    url = given or load_settings().blobs_url
    if not url:
        raise click.UsageError("no store is named: give --blobs-url http://HOST:PORT, or set HEADWAY_BLOBS_URL")
    return url.rstrip("/")
