"""`headway locality holders | endpoint | stats`: which worker holds which blob, and what is known of an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from events.values import Digest
from streams.cli.output import Column, duration, output_option, show, shown, size, watch_option
from streams.cli.tables import answer_age, answer_now_us, counted
from streams.digests import InvalidDigest, digest_named
from streams.settings import DEFAULT_INSTANCE, load_settings
from streams.views import PAGE, Answer, Views


class DigestParameter(click.ParamType):
    """`HASH/SIZE`, as Headway prints digests, or `HASH-SIZE`."""

    name = "digest"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Digest:
        """The digest; a usage error where it is none."""
        if isinstance(value, Digest):
            return value
        try:
            return digest_named(value)
        except InvalidDigest as error:
            self.fail(str(error), param, ctx)


@click.group("locality")
def command() -> None:
    """Say which workers hold a blob, and what an endpoint holds.

    It is an index, folded from what workers reported. After a restart of the read side it answers as soon as it has been read to its end,
    after 30 s at the latest; from then until it is complete each answer says that it may be incomplete.
    """


@command.command()
@click.argument("digest", type=DigestParameter())
@click.option("--instance", metavar="NAME", help="Only endpoints of this instance [default: all].")
@output_option
@watch_option
def holders(digest: Digest, instance: str | None, output: str, watch: float | None) -> None:
    """Show who holds the blob with this digest (HASH/SIZE). Nobody is an answer too: exit code 0."""
    views = Views(load_settings().views_address)
    columns = [
        Column("endpoint"),
        Column("instance"),
        Column("boot_epoch", "boot epoch", "right"),
        Column("state"),
        Column("blobs_url", "fetch from"),
    ]
    show(
        lambda: views.locality_holders(str(digest), instance=instance),
        output,
        lambda answer: [{**row, "state": _state(row)} for row in answer["holders"]],
        columns,
        footer_of=lambda answer: _footer(f"{counted(answer['holders'], 'endpoint')} with {answer['digest']}", answer),
        watch=watch,
    )


@command.command()
@click.argument("name", metavar="NAME")
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME")
@click.option("--blobs", type=click.IntRange(0, PAGE), default=0, help="List so many of the blobs it holds.")
@click.option("--after", metavar="MARK", help="With --blobs: go on where a list ended; it says so with `--after`.")
@output_option
@watch_option
def endpoint(name: str, instance: str, blobs: int, after: str | None, output: str, watch: float | None) -> None:
    """Show what is known of an endpoint: its boot epoch, what it holds, and what waits for it. Exit code 4 when it is not known.

    An endpoint is known from its first connection until it has been away for never_reconnect_s. Unconfirmed is one that was not heard
    since the present leader took over: what it held still counts, until it comes back with another boot epoch or does not come back.
    """
    if after is not None and not blobs:
        raise click.UsageError("--after goes with --blobs")
    views = Views(load_settings().views_address)
    columns = [
        Column(field, title, show=shows)
        for field, title, shows in (
            ("endpoint", "endpoint", shown),
            ("instance", "instance", shown),
            ("state", "state", shown),
            ("boot_epoch", "boot epoch", shown),
            ("connection", "connection", shown),
            ("blobs_url", "fetch from", shown),
            ("blobs", "blobs", shown),
            ("pins", "pins of the action cache", shown),
            ("report_shown", "report", shown),
            ("unacknowledged_shown", "stable chunks unacknowledged", shown),
            ("mirror", "small-blob mirror", shown),
            ("flaps_shown", "flaps", shown),
            ("wipes_shown", "wipes", shown),
            ("garbage", "pairs to be cleaned up", shown),
            ("held", "holds", lambda value: "\n".join(value or ())),
        )
    ]

    show(
        lambda: views.locality_endpoint(instance, name, blobs=blobs or None, after=after),
        output,
        _endpoint_shown,
        columns if blobs else columns[:-1],
        footer_of=lambda answer: _footer(_listed(answer), answer),
        watch=watch,
    )


@command.command()
@output_option
@watch_option
def stats(output: str, watch: float | None) -> None:
    """Show how many endpoints, blobs and pins are known, by shard."""
    views = Views(load_settings().views_address)
    columns = [
        Column("shard", align="right"),
        Column("endpoints", align="right"),
        Column("connected", align="right"),
        Column("unconfirmed", align="right"),
        Column("pairs", align="right"),
        Column("pins", align="right"),
        Column("garbage", "to be cleaned", "right"),
        Column("unacknowledged", "unacknowledged chunks", "right"),
        Column("mirror_pending", "mirror pending", "right"),
        Column("mirror_pinned_bytes", "mirror pinned", "right", size),
        Column("stable_digests", "stable blobs", "right"),
    ]
    show(
        views.locality_stats,
        output,
        lambda answer: answer["by_shard"],
        columns,
        footer_of=lambda answer: _footer(f"{answer['stats'].get('pairs', 0)} pairs of endpoint and blob", answer),
        watch=watch,
    )


def _state(row: Mapping[str, Any]) -> str:
    """`confirmed, connected`, or what it lacks of that."""
    return f"{'confirmed' if row['confirmed'] else 'unconfirmed'}, {'connected' if row['connected'] else 'gone'}"


def _endpoint_shown(answer: Answer) -> dict[str, Any]:
    row, now_us = answer["endpoint"], answer_now_us(answer)

    def ago(at_us: int) -> str:
        return f"{duration(max(0, now_us - at_us))} ago"

    connection = f"{row['connection_id']}, since {ago(row['connected_at_us'])}"
    if not row["connected"]:
        connection = f"none, since {ago(row['disconnected_at_us'])}"
    report = "none in this connection"
    if row["report"]:
        kind = "full" if row["report_full"] else "delta"
        report = f"{row['report']} ({kind}), {row['report_chunks']} chunks, complete"
        if row["report_open"]:
            named = f"; {row['named_since']} blobs named by it" if row["report_full"] else ""
            report = f"{row['report']} ({kind}), {row['report_chunks']} chunks so far{named}"
    unacknowledged = f"{row['unacknowledged']} ({row['acknowledged']} acknowledged, {row['chunks_dropped']} given up)"
    mirror = f"{row['mirror_pending']} pending, {row['mirror_pinned']} pinned ({size(row['mirror_pinned_bytes'])})"
    flaps = str(row["flaps"])
    if row["flaps"]:
        flaps += f"; the last {ago(row['flapped_at_us'])}: {row['flap_changes']} changes in {duration(row['flap_within_us'])}"
    wipes = str(row["wipes"])
    if row["wipes"]:
        wipes += f"; the last {ago(row['wiped_at_us'])}: {row['wiped']}, of boot epoch {row['wiped_epoch']}"
    return {
        **row,
        "state": _state(row),
        "connection": connection,
        "report_shown": report,
        "unacknowledged_shown": unacknowledged,
        "mirror": mirror,
        "flaps_shown": flaps,
        "wipes_shown": wipes,
        "held": answer.get("blobs"),
    }


def _listed(answer: Answer) -> str:
    if "blobs" not in answer:
        return ""
    return f"{counted(answer['blobs'], 'blob')} listed" + (
        f", it holds more: --after {answer['next']}" if answer["more"] else ""
    )


def _footer(what: str, answer: Answer) -> str:
    said = [part for part in (what, answer_age(answer)) if part]
    if not answer["complete"]:
        left = ", ".join(
            f"shard {part['shard']}: {'?' if part['left'] is None else part['left']} offsets left"
            for part in answer["progress"]
        )
        said.append(f"INCOMPLETE: the index has not been read to its end yet ({left or 'the log has not answered'})")
    return "; ".join(said)
