"""What a leader does: become the owner of a shard, decide facts, write what they cause, and start over where that failed.

Deciding is synchronous and per fact; a batch is only how many facts share a transaction. Where a fact cannot be decided, or the log
will never take what it causes, the facts before it are committed, the state (which `decide` leaves half-changed when it raises) is
rebuilt from the log, and the fact is rejected with its key parked. The steps, and what stands in the log if the process dies at
each of them, are listed in streams/README.md.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from events.codec import EventEncoder, decode_fact, key_text
from events.decide import REFUSED_BY_THE_LOG, decide, elect, reject_undecidable
from events.facts import Configured, Unreadable
from events.indexing import build_indexes
from events.outbox import outbox
from events.reasons import RejectReason
from events.state import Shard
from streams.errors import Fenced, LogUnavailable, Refused
from streams.health import DeciderStats
from streams.holders import prefers, sets_preference
from streams.log import Follower, Log, Outgoing, Partition, Record, Writer
from streams.log_lines import say
from streams.own_holders import OwnHolders
from streams.recovery import DamagedLog, Fold, check_identity, fold_to_end, fold_to_seq, without_collection
from streams.snapshots.recovering import start_of
from streams.topics import EVENTS, FACTS
from streams.transaction import CLOSE_AT_BYTES, MOST_FACTS, CloudEventsHeaders, Transaction

COMMIT_TIMEOUT_MS: Final = 10_000
FIRST_FACTS: Final = 100
_SAY_WAITING_AFTER_S: Final = 2.0
_LONGEST_ERROR: Final = 400

_log = logging.getLogger("headway.decider")


def transactional_id(shard: int) -> str:
    """The one id that every decider of a shard opens; whoever opened it last owns the shard."""
    return f"headway-decider-{shard}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is done at once.

    Args:
        most_facts: facts in one read and so at most in one transaction (8,000 lowered throughput, 500 doubled the broker's CPU).
        close_at_bytes: encoded bytes after which a transaction is closed.
        commit_timeout_ms: how long one transaction may take before its outcome counts as unknown.
        poll_ms: how long a read waits for facts, so also how long a stop may take.
        first_facts: the most in the first transaction after a takeover: what has waited longest is not to wait for all the others, too.
        gather_us: the least between two transactions of few facts where they follow each other, see `streams.pacing`; 0 where a
            transaction costs next to nothing (in memory).
    """

    most_facts: int = MOST_FACTS
    close_at_bytes: int = CLOSE_AT_BYTES
    commit_timeout_ms: int = COMMIT_TIMEOUT_MS
    poll_ms: int = 200
    first_facts: int = FIRST_FACTS
    gather_us: int = 0


class Leadership:
    """The owner of one shard, from its LeaderElected until it is fenced or gives up. Made by `Leadership.open`."""

    def __init__(
        self,
        log: Log,
        number: int,
        shard: Shard,
        chain: bytes,
        writer: Writer,
        events: Follower,
        holders: OwnHolders,
        *,
        limits: Limits,
        stats: DeciderStats,
        monotonic_us: Callable[[], int],
    ) -> None:
        self._log = log
        self.number = number
        self.shard = shard
        self.writer = writer
        self._events = events
        self._holders = holders
        self._will_prefer = False  # the next fact's configuration is the first that asks for holders
        self._chain = chain  # of the last event that is known to be committed
        self._seq = shard.seq  # the same event's
        self._limits = limits
        self._stats = stats
        self._monotonic_us = monotonic_us
        self._headers = CloudEventsHeaders(number)
        self._encoder = EventEncoder()

    @classmethod
    async def open(
        cls,
        log: Log,
        fold: Fold,
        events: Follower,
        facts: Follower,
        writer: Writer,
        holders: OwnHolders,
        *,
        build: str,
        limits: Limits,
        stats: DeciderStats,
        monotonic_us: Callable[[], int],
    ) -> Leadership:
        """Become the owner with a writer that was just opened: fold the rest, append LeaderElected, read it back.

        `fold` is what this process has folded so far; it is used up.

        Raises:
            OtherLog: the events belong to another cluster or to other topics.
            DamagedLog: an event does not follow from those before it.
            Fenced, OutcomeUnknown, LogUnavailable: as the log says.
        """
        number = fold.number
        events.resume(fold.partition)
        with without_collection():
            await fold_to_end(fold, events, monotonic_us=monotonic_us)
            found = {
                "cluster_id": await log.cluster_id(),
                "facts_topic_id": await log.topic_id(FACTS),
                "events_topic_id": await log.topic_id(EVENTS),
            }
            check_identity(fold.shard, **found)
            if not fold.shard.live:  # a standby's is
                build_indexes(fold.shard)
        # Before the election is written: what comes from here on was published for this leader or a later one.
        facts_end = await facts.end_offset((FACTS, number))
        elected = elect(fold.shard, leader_epoch=fold.shard.leader_epoch + 1, build=build, facts_end=facts_end, **found)
        leadership = cls(
            log,
            number,
            fold.shard,
            fold.chain,
            writer,
            events,
            holders,
            limits=limits,
            stats=stats,
            monotonic_us=monotonic_us,
        )
        transaction = leadership._new_transaction()
        transaction.add(elected, outbox(fold.shard, elected), None)
        await leadership._commit(transaction)
        await leadership._read_back(transaction.events, fold)
        events.pause(fold.partition)
        stats.leader_epoch = fold.shard.leader_epoch
        await holders.want(prefers(fold.shard))
        return leadership

    async def decide(self, records: Sequence[Record]) -> None:
        """Decide facts, which follow directly on the shard's position, and commit everything they cause.

        Raises:
            Fenced, OutcomeUnknown, LogUnavailable: this leadership is over; what was not committed is not in the log.
            DamagedLog: the log changed under a rebuild.
        """
        if records[0].offset <= self.shard.position:
            raise RuntimeError(
                f"shard {self.number}: fact {records[0].offset} was read, but facts up to {self.shard.position} are decided"
            )
        at, holders = 0, self._holders
        while at < len(records):
            await holders.reach(self._seq, self._chain)
            at = await self._decide_some(records, at, len(records))
            await holders.want(self._will_prefer or prefers(self.shard))
        self._stats.batches += 1

    async def _decide_some(self, records: Sequence[Record], start: int, end: int) -> int:
        """Decide facts from `start` on in one transaction, at most to `end`; returns the index after the last one settled."""
        began_us = self._monotonic_us()
        transaction, at, failure = self._fill(records, start, end)
        self._stats.decide_us += self._monotonic_us() - began_us
        if transaction.facts:
            try:
                await self._commit(transaction)
            except Refused as refusal:
                if at - start > 1:
                    # Which one it was shows when they go one by one; the state holds all of them, so it is rebuilt first.
                    await self._rebuild()
                    for single in range(start, at):
                        await self._decide_some(records, single, single + 1)
                    return at
                at, failure = start, refusal
        if failure is not None:
            await self._reject(records[at], failure)
            at += 1
        return at

    def _fill(self, records: Sequence[Record], start: int, end: int) -> tuple[Transaction, int, Exception | None]:
        """Decide until the transaction is full, `end` is reached or a fact fails; the index returned is that of the next fact.

        After a failure the state is of no use, and the transaction holds the facts before the failed one.
        """
        shard, transaction, close_at = self.shard, self._new_transaction(), self._limits.close_at_bytes
        holders, wanted = self._holders.asked, self._holders.wanted
        self._will_prefer = False
        at = start
        try:
            while at < end:
                offset, at_us, key, value, headers = records[at]
                fact = decode_fact(value, headers)
                if not wanted and type(fact) is Configured and sets_preference(fact.config_json):
                    # Its own pass may ask already: what endpoints hold is made from the log first.
                    self._will_prefer = True
                    break
                events = decide(
                    shard,
                    fact,
                    offset=offset,
                    append_us=at_us,
                    key=key_text(key),
                    holders=holders,
                )
                transaction.add(events, outbox(shard, events, fact), records[at])
                at += 1
                if transaction.size_bytes >= close_at:
                    break
        except Exception as failure:
            return transaction, at, failure
        return transaction, at, None

    async def _reject(self, record: Record, failure: Exception) -> None:
        """Write a fact off: an event that says why, its bytes to the dead letters, its key parked.

        Raises:
            Refused: not even that is taken by the log; only a limit below the shipped topic table does this.
        """
        key = key_text(record.key)
        say(
            _log,
            logging.ERROR,
            "a fact cannot be decided",
            shard=self.number,
            offset=record.offset,
            key=key,
            error=str(failure),
            traceback="".join(traceback.format_exception(failure)),
        )
        self._stats.undecidable += 1
        await self._rebuild()
        if isinstance(failure, Refused) and failure.limit_bytes is not None:
            sizes = f"{failure.size_bytes} bytes, the limit is {failure.limit_bytes}"
            error = f"{REFUSED_BY_THE_LOG}{failure.topic}: {sizes}"
        else:
            error = f"{type(failure).__name__}: {failure}"
        try:
            fact = decode_fact(record.value, record.headers)
        except Exception as unread:
            # The decoder is what failed: raised again, it would stop this decider and each one after it.
            said = f"{type(unread).__name__}: {unread}"
            fact = Unreadable(RejectReason.UNDECIDABLE, value=said[:_LONGEST_ERROR], key=key)
        events = reject_undecidable(
            self.shard,
            fact,
            offset=record.offset,
            append_us=record.at_us,
            key=key,
            error=error[:_LONGEST_ERROR],
        )
        self._holders.see(events)
        transaction = self._new_transaction()
        transaction.add(events, outbox(self.shard, events, fact), record)
        await self._commit(transaction)

    async def _rebuild(self) -> None:
        """Replace the state by the fold of what is committed.

        Raises:
            Fenced: another leader wrote in the meantime.
        """
        self._holders.discard()
        divergence = self.shard.divergence
        contradicted = 0 if divergence is None else divergence.seq
        with without_collection():
            dropped = self._stats.snapshots_dropped
            fold = await start_of(self._log, self.number, dropped=dropped, contradicted=contradicted)
            self._events.seek(fold.partition, fold.next_offset or await self._events.beginning_offset(fold.partition))
            self._events.resume(fold.partition)
            self.shard = fold.shard
            await fold_to_seq(fold, self._events, self._seq, monotonic_us=self._monotonic_us)
            if fold.chain != self._chain:
                raise Fenced(transactional_id(self.number))
            build_indexes(fold.shard)
        self._events.pause(fold.partition)
        self._stats.rebuilds += 1

    def _new_transaction(self) -> Transaction:
        return Transaction(self.number, self.shard.leader_epoch, self._chain, self._headers, self._encoder)

    async def _commit(self, transaction: Transaction) -> None:
        """Append one transaction; the leader's own position in the log advances only when it is committed."""
        loop = asyncio.get_running_loop()
        began_us = self._monotonic_us()
        self._waiting = loop.call_later(_SAY_WAITING_AFTER_S, self._say_waiting, began_us)
        try:
            await self.writer.append(transaction.batches())
        finally:
            self._waiting.cancel()
        self._chain = transaction.chain
        self._seq = transaction.last_seq
        self._holders.committed(self._seq, self._chain, len(transaction.events))
        self._stats.committed(
            facts=transaction.facts,
            events=len(transaction.events),
            placements=len(transaction.placements),
            commands=len(transaction.commands),
            dead_letters=len(transaction.dead_letters),
            size_bytes=transaction.size_bytes,
            took_us=self._monotonic_us() - began_us,
            seq=self._seq,
            position=max(self._stats.position, transaction.position),
        )

    def _say_waiting(self, began_us: int) -> None:
        waited_s = round((self._monotonic_us() - began_us) / 1_000_000)
        say(
            _log,
            logging.WARNING,
            f"waiting for the log since {waited_s} s",
            shard=self.number,
            seq=self._seq,
            deadline_ms=self._limits.commit_timeout_ms,
        )
        self._waiting = asyncio.get_running_loop().call_later(_SAY_WAITING_AFTER_S, self._say_waiting, began_us)

    async def _read_back(self, sent: Sequence[Outgoing], fold: Fold) -> None:
        """Read the own LeaderElected as every other reader will, directly behind the last event that was folded.

        A record in between would be one that this state lacks: the log then holds the same seq twice and nobody may go on.

        Raises:
            DamagedLog: there is one.
            LogUnavailable: it does not come.
        """
        partition: Partition = fold.partition
        began_us, found = self._monotonic_us(), 0
        while found < len(sent):
            for record in (await self._events.read(timeout_ms=100)).get(partition, ()):
                if found == len(sent) or record.value != sent[found].value:
                    raise DamagedLog(
                        partition,
                        record.offset,
                        self._seq,
                        RuntimeError("another record stands where this leader's LeaderElected was to be read"),
                    )
                found += 1
            waited_ms = (self._monotonic_us() - began_us) // 1000
            if found < len(sent) and waited_ms > self._limits.commit_timeout_ms:
                raise LogUnavailable(
                    f"reading LeaderElected back from {partition[0]}[{partition[1]}]",
                    address=f"event {self._seq}",
                    waited_ms=waited_ms,
                )
