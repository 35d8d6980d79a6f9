"""`headway replay --from --to`: one range of the log, folded and checked, beside what stood at its two ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from events.events import Event
from projections import moment
from projections.table import Table
from streams.cli.output import duration, note, printable
from streams.cli.past import timeline_of
from streams.log import Log
from streams.moments import Moment, time_of
from streams.replay import replay
from streams.settings import Settings
from streams.timeline import Timeline

FIGURES = ("queued", "executing", "finished", "workers", "accepting", "draining", "paused")


@dataclass(slots=True)
class _Seen:
    """What the events of a range were."""

    by_kind: Counter[str] = field(default_factory=Counter)
    first_at_us: int | None = None
    last_at_us: int | None = None

    def see(self, table: Table, event: Event) -> None:
        self.by_kind[type(event).__name__] += 1
        self.last_at_us = event.at_us
        if self.first_at_us is None:
            self.first_at_us = event.at_us


async def replay_range(
    settings: Settings, log: Log, shard: int, begin: Moment | None, end: Moment | None
) -> dict[str, Any]:
    """Fold the events of a range from the log, on the rows that stood before it, and say what they were.

    Raises:
        NoSuchMoment: the log does not reach that far, or the range is behind damage in it.
        ClickException of usage: the range ends before it begins.
    """
    async with timeline_of(settings, log, shard) as timeline:
        from_seq = 1 if begin is None else timeline.seq_of(begin, first=True)
        to_seq = _last(timeline, end)
        if to_seq is not None and to_seq < from_seq:
            raise click.UsageError(f"the range ends at seq {to_seq}, before it begins at seq {from_seq}")
        table = timeline.table_at(from_seq - 1)
        before, seen = moment.figures(table), _Seen()
        replayed = await replay(log, shard, until_seq=to_seq, begin=table, seen=seen.see)
        damage = replayed.damage
        return {
            "shard": shard,
            "from_seq": from_seq,
            "to_seq": replayed.seq,
            "asked_to_seq": to_seq,
            "first_at_us": seen.first_at_us,
            "last_at_us": seen.last_at_us,
            "events": replayed.events,
            "by_kind": dict(sorted(seen.by_kind.items(), key=lambda item: (-item[1], item[0]))),
            "before": before,
            "after": moment.figures(replayed.table),
            "gaps": replayed.gaps,
            "chain_ok": damage is None,
            "chain": replayed.table.shard.chain.hex(),
            "damage": None
            if damage is None
            else {"offset": damage.offset, "after_seq": damage.seq, "code": damage.code, "message": str(damage)},
            "leader_epochs": [{"leader_epoch": epoch, "from_seq": seq} for epoch, seq in replayed.leaders],
            "stale_events": replayed.table.shard.stale_events,
            "seconds": round(replayed.seconds, 3),
            "events_per_s": replayed.events_per_s,
        }


def _last(timeline: Timeline, end: Moment | None) -> int | None:
    """The last event of a range; None where it reaches into damage, or to the end: it is folded until it is met."""
    if end is None:
        return None
    if timeline.damage is not None:
        if end.at_us is None:
            return None if (end.seq or 0) > timeline.last_seq else end.seq
        seq = timeline.seq_at(end.at_us)
        return None if seq == timeline.last_seq else seq
    return timeline.seq_of(end)


def print_range(report: Mapping[str, Any]) -> None:
    """A range for people."""
    said = [f"shard {report['shard']}: events {report['from_seq']} to {report['to_seq']}"]
    if report["first_at_us"] is not None:
        took = duration(report["last_at_us"] - report["first_at_us"])
        said.append(f"{time_of(report['first_at_us'])} to {time_of(report['last_at_us'])}, {took}")
    click.echo("; ".join(said))
    click.echo(f"  {report['events']} events folded at {report['events_per_s']} a second")
    whole = "whole" if report["chain_ok"] else "BROKEN"
    leaders = ", ".join(f"{leader['leader_epoch']} from seq {leader['from_seq']}" for leader in report["leader_epochs"])
    click.echo(f"  chain {whole}, gaps {report['gaps']}, leaders elected: {leaders or 'none'}")
    click.echo(f"  {'':<12} {'before':>10} {'after':>10}")
    for name in FIGURES:
        click.echo(f"  {name:<12} {report['before'][name]:>10} {report['after'][name]:>10}")
    for when in ("before", "after"):
        for hold in report[when]["holds"]:
            click.echo(printable(f"  held {when}: {hold['endpoint']} for {hold['id']}"))
    for kind, count in report["by_kind"].items():
        click.echo(f"  {kind:<24} {count:>10}")
    if report["damage"]:
        note(f"shard {report['shard']}: {report['damage']['message']}")
