"""What a performance stands on: a home of its own, a broker in it, and the parts of Headway under a supervisor.

Everything it starts ends with it. The parts are killed by the kernel when this process dies (streams/supervisor.py); the broker is
stopped and its home removed on every way out but SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streams.broker import BrokerEndpoint, BrokerFailed, BrokerSettings, bring_down, bring_up
from streams.broker.ports import free_ports
from streams.kafka_log import KafkaLog
from streams.settings import Settings
from streams.supervisor import Part, Patience, Supervisor

DECIDER = "decider"
STATE_TABLE = "state-table"
WEB_PORTS = range(20_087, 30_087)
"""The views listen on the first free one from a random one on: two stages that begin at once would probe the same."""
ALONE: Mapping[str, list[str]] = {DECIDER: ["decider", "run", "--shard", "0", "--claim"]}
"""The only decider there is."""


@dataclass(slots=True)
class Stage:
    """A running performance: the log, the parts, and how to reach both."""

    home: Path
    broker: BrokerEndpoint
    prefix: str
    web_port: int
    log: KafkaLog
    supervisor: Supervisor
    running: asyncio.Task[None]

    def environment(self) -> dict[str, str]:
        """What a `headway` command needs to talk to this stage and no other."""
        return environment_of(self.home, self.broker, self.prefix, self.web_port)

    @property
    def views_address(self) -> str:
        """Where the state table of this stage answers."""
        return f"http://127.0.0.1:{self.web_port}"

    def check(self) -> None:
        """Raise what ended the supervisor, when something did."""
        if self.running.done():
            self.running.result()
            raise RuntimeError("the supervisor ended before its time")

    def kill(self, name: str) -> int:
        """SIGKILL a part and return its process id; the supervisor starts it again. Raises KeyError while it does not run."""
        process = self.supervisor.processes[name]
        os.kill(process.pid, signal.SIGKILL)
        return process.pid


def new_home(called: str = "demo") -> Path:
    """An empty directory for one performance."""
    return Path(tempfile.mkdtemp(prefix=f"headway-{called}-"))


def part_of_worker(name: str) -> str:
    """The name of the part that runs the worker process `name`."""
    return f"worker-{name}"


def environment_of(home: Path, broker: BrokerEndpoint, prefix: str, web_port: int) -> dict[str, str]:
    """This process's environment with the stage's own settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    return {
        **inherited,
        "HEADWAY_HOME": str(home),
        "HEADWAY_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "HEADWAY_TOPIC_PREFIX": prefix,
        "HEADWAY_WEB_PORT": str(web_port),
    }


def raise_broker(home: Path, settings: Settings, say: Callable[[str], None]) -> BrokerEndpoint:
    """A broker in `home`, or the cluster that the settings name. Raises BrokerFailed."""
    return bring_up(home, way=settings.broker, say=say, settings=BrokerSettings.from_environment(os.environ))


@asynccontextmanager
async def staged(
    home: Path,
    broker: BrokerEndpoint,
    workers: Mapping[str, list[str]],
    prepare: Callable[[KafkaLog], Awaitable[object]],
    say: Callable[[str], None],
    *,
    deciders: Mapping[str, list[str]] = ALONE,
    patience: Patience | None = None,
    called: str = "demo",
    read_side: bool = True,
) -> AsyncIterator[Stage]:
    """The parts of Headway, running; stopped at the end, those that read from others first.

    `prepare` is given the log before any part starts: topics must exist by then. On a cluster that others use too, the topics get a
    prefix of their own, which begins with what the performance is `called`. `workers` and `deciders` are the arguments of the
    `headway` command by name; `say` is told what the supervisor has to say, and `patience` is the supervisor's. Without `read_side`
    there is no state table.
    """
    prefix = f"{called}-{secrets.token_hex(3)}." if broker.kind == "cluster" else ""
    web_port = next(free_ports(secrets.choice(WEB_PORTS)))
    environment = environment_of(home, broker, prefix, web_port)
    parts = [
        *(Part(name, arguments, environment) for name, arguments in deciders.items()),
        *([Part(STATE_TABLE, ["state-table", "run"], environment)] if read_side else []),
        *(Part(part_of_worker(name), arguments, environment) for name, arguments in workers.items()),
    ]
    log = KafkaLog(broker.bootstrap_servers, prefix=prefix, client_id=f"headway-{called}")
    stop = asyncio.Event()
    try:
        await prepare(log)
        supervisor = Supervisor(parts, log_directory=home / "log", say=say, patience=patience)
        running = asyncio.create_task(supervisor.run(stop))
        try:
            yield Stage(home, broker, prefix, web_port, log, supervisor, running)
        finally:
            stop.set()
            with suppress(asyncio.CancelledError):
                await running
    finally:
        await log.close()


def strike(home: Path, say: Callable[[str], None], *, keep: bool) -> None:
    """Stop the broker of `home` and remove both; with `keep` the directory stays, and is named."""
    try:
        bring_down(home, reset=not keep, say=lambda line: None)
    except BrokerFailed as error:
        say(f"the broker of {home} could not be stopped: {error}")
        keep = True
    if keep:
        say(f"kept: {home} (logs of every part in log/)")
    else:
        shutil.rmtree(home, ignore_errors=True)


async def until(what: str, holds: Callable[[], bool], stage: Stage, *, timeout_s: float) -> None:
    """Wait until `holds()`. Raises TimeoutError with `what`; what ended the supervisor, if that happens first."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        stage.check()
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{what} did not happen within {timeout_s:g} s; the parts' logs are in {stage.home / 'log'}"
            )
        await asyncio.sleep(0.05)
