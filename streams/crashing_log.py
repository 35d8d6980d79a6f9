"""`CrashingLog`: a log that lets its user die at one chosen call of the seam, for crash tests that try every such call.

It wraps another log (mostly a `MemoryLog`, which goes on living as the cluster would) and counts the calls that reach it. At call
number `at_call` the process "dies": `ProcessDied` is raised before or after the call took effect, and from then on nothing
reaches the log, not even what a `finally` would write. Run once without a crash to learn how many calls there are, then once for each:

    log = CrashingLog(cluster, Crash(at_call=7, when="after"))
    with pytest.raises(ProcessDied):
        await Decider(log, 0).run(stop)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from streams.log import Follower, Log, Outgoing, Partition, Record, Writer
from streams.topics import TopicSpec, TopicState

When = Literal["before", "after"]


class ProcessDied(BaseException):
    """The process is gone. Not an Exception, so that no error handling of the code under test can live on behind it."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Where to die: at the `at_call`-th call of the seam (from 0), before or after it took effect.

    With `of`, only calls of that name are counted: `Crash(2, "after", of="append")` dies after the third commit.
    """

    at_call: int
    when: When = "before"
    of: str | None = None


class CrashingLog:
    """A `Log` whose user dies at one call. `calls` are the names of those made so far, in order.

    Args:
        log: what it wraps; it lives on.
        crash: where to die; None never does.
        on_call: told the name of each call and how many of that name there were before, just before it is made: the place
            to order a fault of the wrapped log for this very call.
    """

    def __init__(
        self, log: Log, crash: Crash | None = None, *, on_call: Callable[[str, int], None] | None = None
    ) -> None:
        self._log = log
        self._crash = crash
        self._on_call = on_call
        self.calls: list[str] = []
        self.dead = False

    def is_dead(self) -> bool:
        """Whether the process has died."""
        return self.dead

    def before(self, name: str) -> None:
        """Count a call; die here when that is the one."""
        self._alive()
        self.calls.append(name)
        self._maybe_die("before")
        if self._on_call is not None:
            self._on_call(name, self.calls.count(name) - 1)

    def after(self) -> None:
        """The call counted last has taken effect; die here when that is the one."""
        self._maybe_die("after")

    def _alive(self) -> None:
        if self.dead:
            raise ProcessDied("nothing is done after death")

    def _maybe_die(self, when: When) -> None:
        crash = self._crash
        if crash is None or crash.when != when or crash.of not in (None, self.calls[-1]):
            return
        count = len(self.calls) if crash.of is None else self.calls.count(crash.of)
        if count - 1 == crash.at_call:
            self.dead = True
            raise ProcessDied(f"{when} call {len(self.calls) - 1}, {self.calls[-1]}")

    # -- the seam ---------------------------------------------------------------------------------------------------------

    async def follow(self, partitions: Mapping[Partition, int | None], *, committed: bool = True) -> Follower:
        """See `Log.follow`."""
        self.before("follow")
        follower = CrashingFollower(self, await self._log.follow(partitions, committed=committed))
        self.after()
        return follower

    async def open(self, transactional_id: str, *, timeout_ms: int = 10_000) -> Writer:
        """See `Log.open`."""
        self.before("open")
        writer = CrashingWriter(self, await self._log.open(transactional_id, timeout_ms=timeout_ms))
        self.after()
        return writer

    async def prepare(
        self, transactional_id: str, partitions: Iterable[Partition], *, timeout_ms: int = 10_000
    ) -> None:
        """See `Log.prepare`."""
        self.before("prepare")
        await self._log.prepare(transactional_id, partitions, timeout_ms=timeout_ms)
        self.after()

    async def publish(self, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
        """See `Log.publish`."""
        self.before("publish")
        offsets = await self._log.publish(partition, records)
        self.after()
        return offsets

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> list[str]:
        """See `Log.ensure_topics`."""
        self.before("ensure_topics")
        done = await self._log.ensure_topics(specs)
        self.after()
        return done

    async def describe_topics(self) -> dict[str, TopicState]:
        """See `Log.describe_topics`."""
        self.before("describe_topics")
        answer = await self._log.describe_topics()
        self.after()
        return answer

    async def cluster_id(self) -> str:
        """See `Log.cluster_id`."""
        self.before("cluster_id")
        answer = await self._log.cluster_id()
        self.after()
        return answer

    async def topic_id(self, topic: str) -> str:
        """See `Log.topic_id`."""
        self.before("topic_id")
        answer = await self._log.topic_id(topic)
        self.after()
        return answer

    async def trim(self, partition: Partition, before: int) -> None:
        """See `Log.trim`."""
        self.before("trim")
        await self._log.trim(partition, before)
        self.after()

    async def close(self) -> None:
        """Nothing: the wrapped log outlives this process."""


class CrashingFollower:
    """A `Follower` of a `CrashingLog`. Only calls that reach the log are counted."""

    def __init__(self, owner: CrashingLog, follower: Follower) -> None:
        self._owner, self._follower = owner, follower

    async def read(
        self, *, max_records: int = 2000, timeout_ms: int = 200, drain: bool = False
    ) -> dict[Partition, list[Record]]:
        """See `Follower.read`."""
        self._owner.before("read")
        found = await self._follower.read(max_records=max_records, timeout_ms=timeout_ms, drain=drain)
        self._owner.after()
        return found

    def seek(self, partition: Partition, offset: int) -> None:
        """See `Follower.seek`."""
        self._follower.seek(partition, offset)

    async def position(self, partition: Partition) -> int:
        """See `Follower.position`."""
        return await self._follower.position(partition)

    def pause(self, partition: Partition) -> None:
        """See `Follower.pause`."""
        self._follower.pause(partition)

    def resume(self, partition: Partition) -> None:
        """See `Follower.resume`."""
        self._follower.resume(partition)

    async def end_offset(self, partition: Partition) -> int:
        """See `Follower.end_offset`."""
        self._owner.before("end_offset")
        answer = await self._follower.end_offset(partition)
        self._owner.after()
        return answer

    async def beginning_offset(self, partition: Partition) -> int:
        """See `Follower.beginning_offset`."""
        self._owner.before("beginning_offset")
        answer = await self._follower.beginning_offset(partition)
        self._owner.after()
        return answer

    async def close(self) -> None:
        """See `Follower.close`; of a dead process, what the kernel does for it."""
        await self._follower.close()


class CrashingWriter:
    """A `Writer` of a `CrashingLog`."""

    def __init__(self, owner: CrashingLog, writer: Writer) -> None:
        self._owner, self._writer = owner, writer

    async def append(self, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        """See `Writer.append`."""
        self._owner.before("append")
        await self._writer.append(batches)
        self._owner.after()

    async def close(self) -> None:
        """See `Writer.close`. A dead process closes nothing in good order, so then this does nothing."""
        if not self._owner.dead:
            await self._writer.close()
