"""`headway verify`: an independent second reading of the log, and every fact decided again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from projections.redeciding import Divergence
from projections.verify.auditor import Range
from projections.verify.case import Finding
from projections.verify.catalogue import CATALOGUE
from streams.cli.main import CHECK_FAILED
from streams.cli.moments import MOMENT
from streams.cli.output import Column, emit, note, output_option, progress
from streams.cli.source import check_foldable, file_option, opened, shards_in
from streams.log import Log, bounds
from streams.moments import Moment
from streams.settings import load_settings
from streams.topics import EVENTS
from streams.verifying import Verified, verify

SHOWN = 20
WIDTH = 160
"""Characters of an event in a table; JSON has all of it."""


@click.command("verify")
@click.option("--shard", "shards", multiple=True, type=click.IntRange(min=0), help="Only this one [default: all].")
@file_option
@click.option("--facts/--no-facts", default=True, help="Hold events against the facts that are still there.")
@click.option("--redecide/--no-redecide", default=True, help="Decide each fact again with this build.")
@click.option("--from", "begin", type=MOMENT, help="Judge only from this event or time on; what is before is folded.")
@click.option("--to", "end", type=MOMENT, help="Read no further than this event or time.")
@click.option("--rules", is_flag=True, help="List each rule with what it judged.")
@click.option(
    "--most", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="Findings shown of each kind."
)
@output_option
def command(
    shards: tuple[int, ...],
    file: Path | None,
    facts: bool,
    redecide: bool,
    begin: Moment | None,
    end: Moment | None,
    rules: bool,
    most: int,
    output: str,
) -> None:
    """Say of every recorded decision whether it follows from the facts and the rules.

    A second reading of the log that shares no code with the decider judges each event by the rules in infra/docs/verifying.md; then this
    build decides each fact again and compares. Exit code 3 when something does not follow or diverges, with its seq.
    """
    judged = Range(
        None if begin is None else begin.seq,
        None if begin is None else begin.at_us,
        None if end is None else end.seq,
        None if end is None else end.at_us,
    )
    found = asyncio.run(_verify(shards, file, facts, redecide, judged))
    reports = [_report(verified, most) for verified in found]
    if output == "json":
        emit({"sound": all(verified.sound for verified in found), "shards": reports}, output)
    else:
        for verified, report in zip(found, reports, strict=True):
            _print(verified, report, rules)
    if not all(verified.sound for verified in found):
        sys.exit(CHECK_FAILED)


async def _verify(
    shards: tuple[int, ...], file: Path | None, facts: bool, redecide: bool, judged: Range
) -> list[Verified]:
    async with opened(load_settings(), file, client_id="headway-verify", read_damaged=True) as log:
        return [
            await _of_shard(log, shard, facts=facts, redecide=redecide, judged=judged)
            for shard in shards or await shards_in(log)
        ]


async def _of_shard(log: Log, shard: int, *, facts: bool, redecide: bool, judged: Range) -> Verified:
    check_foldable(log, shard)
    _, end = await bounds(log, (EVENTS, shard))
    with progress(f"verifying shard {shard}", end) as advance:
        return await verify(log, shard, facts=facts, redecide=redecide and facts, judged=judged, progress=advance)


def _report(verified: Verified, most: int) -> dict[str, Any]:
    audit = verified.audit
    judged = verified.judged()
    damage = audit.damage
    redecided = verified.redecided
    return {
        "shard": verified.shard,
        "sound": verified.sound,
        "events": audit.events,
        "facts": audit.facts,
        "facts_from_seq": audit.facts_from_seq,
        "facts_kept": verified.facts_kept,
        "stale_events": audit.stale,
        "builds": [{"from_seq": seq, "leader_epoch": epoch, "build": build} for seq, epoch, build in audit.elected],
        "findings": [_finding(finding) for finding in audit.findings[:most]],
        "finding_count": len(audit.findings),
        "damage": None if damage is None else _finding(damage),
        "cut_short": audit.cut_short,
        "damaged_files": verified.damaged_files,
        "judged": {rule.name: count for rule, count in zip(CATALOGUE, judged, strict=True)},
        "judged_nothing": [rule.name for rule, count in zip(CATALOGUE, judged, strict=True) if not count],
        "redecided": None
        if redecided is None
        else {
            "facts": redecided.judged.facts,
            "events": redecided.judged.events,
            "elections": redecided.judged.elections,
            "not_judged": redecided.judged.not_judged,
            "divergence_count": redecided.judged.divergences,
            "divergences": [_divergence(one) for one in redecided.divergences[:most]],
            "broken": redecided.broken or None,
        },
        "seconds": round(verified.seconds, 3),
        "events_per_s": verified.events_per_s,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    rule = CATALOGUE[finding.rule]
    return {
        "rule": rule.name,
        "rule_id": rule.id,
        "seq": finding.seq,
        "offset": finding.offset,
        "cause_offset": finding.cause_offset,
        "expected": finding.expected,
        "found": finding.found,
    }


def _divergence(one: Divergence) -> dict[str, Any]:
    return {
        "seq": one.seq,
        "offset": one.offset,
        "cause_offset": one.cause_offset,
        "difference": one.difference.name.lower(),
        "fact": one.fact_kind,
        "fields": list(one.fields),
        "recorded": str(one.recorded[one.at]) if one.at < len(one.recorded) else None,
        "decided": str(one.decided[one.at]) if one.at < len(one.decided) else None,
        "error": one.error or None,
        "build": one.build,
    }


def _cut(text: str | None) -> str:
    """What of an event stands in a table."""
    return "-" if text is None else text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _print(verified: Verified, report: dict[str, Any], rules: bool) -> None:
    audit, shard = verified.audit, verified.shard
    if report["findings"]:
        columns = [
            Column("seq", align="right"),
            Column("offset", align="right"),
            Column("rule"),
            Column("expected", show=_cut),
            Column("found", show=_cut),
        ]
        more = report["finding_count"] - len(report["findings"])
        emit(report["findings"], "table", columns, footer=f"and {more} more" if more else "")
    if rules:
        counts = [
            {"id": rule.id, "rule": rule.name, "judged": report["judged"][rule.name], "says": rule.says}
            for rule in CATALOGUE
        ]
        emit(counts, "table", ["id", "rule", Column("judged", align="right"), "says"])
    if report["redecided"] is not None and report["redecided"]["divergences"]:
        columns = [
            Column("seq", align="right"),
            Column("difference"),
            Column("fact"),
            Column("recorded", show=_cut),
            Column("decided", show=_cut),
        ]
        emit(report["redecided"]["divergences"], "table", columns)
    click.echo(f"shard {shard}: {_summary(verified)}")
    click.echo(f"  {_facts_said(verified)}")
    silent = report["judged_nothing"]
    if silent:
        click.echo(f"  {len(silent)} of {len(CATALOGUE)} rules judged nothing: {', '.join(silent)}")
    if audit.damage is not None:
        note(
            f"shard {shard}: the log is damaged at seq {audit.damage.seq}, offset {audit.damage.offset}: nothing from there on can be "
            f"judged; the {audit.events - audit.cut_short} events before it were"
            + (f", but for {audit.cut_short} of the fact that it cut short" if audit.cut_short else "")
        )
    for damaged in verified.damaged_files:
        note(f"shard {shard}: {damaged}")
    redecided = verified.redecided
    if redecided is not None:
        judged = redecided.judged
        click.echo(
            f"  decided again: {judged.facts} facts, {judged.events} events, {judged.divergences} divergences"
            + (f"; {judged.not_judged} facts are gone" if judged.not_judged else "")
        )
        if redecided.broken:
            note(f"shard {shard}: {redecided.broken}")


def _summary(verified: Verified) -> str:
    audit = verified.audit
    if audit.findings:
        ending = f"{len(audit.findings)} findings, the first at seq {audit.findings[0].seq}"
    elif audit.damage is not None or verified.damaged_files:
        ending = "what could be read of it follows; the log is damaged"
    elif audit.events:
        ending = "everything follows"
    else:
        ending = "nothing is recorded"
    return f"{audit.events} events of {audit.facts} facts judged, {verified.events_per_s} events/s: {ending}"


def _facts_said(verified: Verified) -> str:
    audit = verified.audit
    if not verified.facts_kept:
        return "without facts: what a fact itself caused is not held against it"
    if audit.facts_from_seq is None:
        return "no fact was there: what facts themselves caused is not held against them"
    if audit.facts_from_seq > 2:
        return f"facts are there from seq {audit.facts_from_seq} on; what older ones caused is not held against them"
    return (
        f"with all facts; {verified.waiting_facts} more came after the last one that was decided"
        if verified.waiting_facts
        else "with all facts"
    )
