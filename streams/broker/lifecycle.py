"""Bring a broker up, find it, bring it down: the order of the ways and what is said when one fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from streams.broker import cluster, engine, jvm
from streams.broker.endpoint import WAYS, BrokerEndpoint, BrokerFailed, BrokerSettings, Way
from streams.broker.probe import NoKafka, ask
from streams.broker.processes import is_own
from streams.broker.record import BrokerRecord, KafkaHome


def bring_up(
    home: Path,
    *,
    way: str | None = None,
    port: int | None = None,
    say: Callable[[str], None] = print,
    settings: BrokerSettings | None = None,
) -> BrokerEndpoint:
    """Return a broker that answers: the one `home` has, else one started by the first way that works.

    The order is cluster, docker, jvm. A way that fails is said in one line through `say` and the next is tried; with
    `way` only that one is, and its failure is the caller's. A home whose data were made by one of the local ways stays
    with it, since another would start with an empty log. `port` fixes the port of the docker and jvm ways.

    settings: what is taken from the process environment when None.
    Raises BrokerFailed with the reasons, the broker's own last errors among them.
    """
    settings = settings or BrokerSettings.from_environment(os.environ)
    if way is not None and way not in WAYS:
        raise BrokerFailed(f"{way!r} is no way to a broker; the ways are {', '.join(WAYS)}")
    place = KafkaHome(home)
    with place.locked():
        place.check_ours()
        record = place.read()
        failures: list[str] = []
        for candidate in WAYS if way is None else (way,):
            try:
                if candidate == "cluster":
                    return cluster.reach(place, settings)
                return _bring_up_here("docker" if candidate == "docker" else "jvm", place, record, port, settings, say)
            except BrokerFailed as failure:
                if way is not None:
                    raise BrokerFailed(f"{way}: {failure}") from failure
                failures.append(f"{candidate}: {failure}")
                if not _goes_without_saying(candidate, record, settings):
                    say(_one_line(failures[-1]))
    reasons = "\n".join(f"  {line}" for line in failures)
    raise BrokerFailed(
        f"no way to a Kafka broker is open on this machine:\n{reasons}\n",
        remedy="Name a cluster in HEADWAY_BOOTSTRAP_SERVERS, start a Docker engine, or install Java 17 "
        "(or: pip install 'headway[jvm]'). "
        "To try Headway without Kafka, on a log in memory that is lost at the end: --embedded",
    )


def _goes_without_saying(way: str, record: BrokerRecord | None, settings: BrokerSettings) -> bool:
    """Whether a way was no candidate in the first place: no cluster named, or the home belongs to the other local way."""
    if way == "cluster":
        return not settings.bootstrap_servers
    return record is not None and record.way != way


def _one_line(text: str) -> str:
    return " | ".join(part.strip() for part in text.splitlines())


def _bring_up_here(
    way: Way,
    place: KafkaHome,
    record: BrokerRecord | None,
    port: int | None,
    settings: BrokerSettings,
    say: Callable[[str], None],
) -> BrokerEndpoint:
    if record is not None and record.way != way:
        raise BrokerFailed(
            f"{place.home} holds the data of a broker brought up by the {record.way} way, which this way cannot serve; "
            "use another home, or `headway broker down --reset` to delete them"
        )
    found = _running(place, record, settings) if record is not None else None
    if found is None:
        start = engine.start if way == "docker" else jvm.start
        return start(place, record, port, settings, say)
    _require_answer(found, record, place)
    if port is not None and found.bootstrap_servers != f"127.0.0.1:{port}":
        raise BrokerFailed(
            f"the broker of {place.home} already runs at {found.bootstrap_servers}, not on port {port}; `headway broker down` first"
        )
    return found


def _running(place: KafkaHome, record: BrokerRecord, settings: BrokerSettings) -> BrokerEndpoint | None:
    if record.way == "docker":
        return engine.running(place, record, settings)
    mark = jvm.running(place, record)
    if mark is None:
        return None
    if mark != record.process:
        place.write(record.with_process(mark))
    return jvm.endpoint(place, record, mark)


def _require_answer(found: BrokerEndpoint, record: BrokerRecord | None, place: KafkaHome) -> None:
    """Check that what runs is ours and works. Raises BrokerFailed."""
    host, _, port = found.bootstrap_servers.partition(":")
    try:
        answer = ask(host, int(port), timeout_s=20)
    except NoKafka as error:
        raise BrokerFailed(
            f"the broker of {place.home} runs but does not answer ({error}); see {place.log}, or `headway broker down` and up"
        ) from error
    if record is not None and answer.cluster_id != record.cluster_id:
        raise BrokerFailed(
            f"at {found.bootstrap_servers} answers cluster {answer.cluster_id}, not {record.cluster_id} of {place.home}"
        )


def status(home: Path, *, settings: BrokerSettings | None = None) -> BrokerEndpoint | None:
    """Return the broker that `bring_up` would find without starting one, or None.

    That is the cluster of the settings, else the broker running in `home`. Raises BrokerFailed when the cluster does
    not answer, or the home's record or engine cannot be read.
    """
    settings = settings or BrokerSettings.from_environment(os.environ)
    place = KafkaHome(home)
    if settings.bootstrap_servers:
        return cluster.reach(place, settings)
    record = place.read()
    return _running(place, record, settings) if record is not None else None


def bring_down(
    home: Path,
    *,
    reset: bool = False,
    only_own: bool = False,
    say: Callable[[str], None] = print,
    settings: BrokerSettings | None = None,
) -> bool:
    """Stop the broker of `home`; True when one was stopped. Its data stay, and `bring_up` serves them again.

    With `reset` the data go too, for good. With `only_own` a broker process that this process did not start is left running, and
    `say` told so: the one this process started may have been stopped and another started since.

    A cluster is never touched. Raises BrokerFailed for a directory that this
    code did not make, and when the broker cannot be stopped.
    """
    settings = settings or BrokerSettings.from_environment(os.environ)
    place = KafkaHome(home)
    if not place.home.is_dir():
        return False
    with place.locked():
        if reset:
            place.check_ours()
        record = place.read()
        if record is None:
            return False
        if record.way == "docker":
            ran = engine.remove_container(place, record, settings)
            if reset:
                engine.delete_volume(place, record, settings)
        else:
            mark = jvm.running(place, record)
            if mark is not None and only_own and not is_own(mark):
                say(
                    f"jvm: the broker that runs in {place.home} now (pid {mark.pid}) was started by another process; it runs on"
                )
                return False
            ran = mark is not None
            if mark is not None:
                jvm.stop_process(place, mark, say)
            place.write(record.with_process(None))
        if reset:
            place.delete()
    return ran
