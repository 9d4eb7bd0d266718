"""Sends the in-sync sets that leaders propose to the active controller (AlterPartition)."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.client.errors import error_of
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.partitions.in_sync import InSyncChange, RefusalEffect
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.controller_access import ControllerChannel
    from pykbroker.partitions.in_sync import InSyncProposal, ProposalOutcome
    from pykbroker.partitions.leader_context import LeaderContext, Proposer
    from pykbroker_protocol.messages.alter_partition import PartitionResult

logger = logging.getLogger(__name__)

PROPOSALS_PER_REQUEST_MAX: Final = 1000
"""A response of this size is applied within 20 ms; the event loop serves other work then."""
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
PARTITIONS_NAMED_MAX: Final = 5
"""Partitions named in one log line; a broker that stops leaves the sets of thousands."""


class Unsent(NamedTuple):
    """A proposal, and the leader that has made it."""

    proposer: Proposer
    proposal: InSyncProposal
    in_sync: tuple[int, ...]
    """The in-sync set that the proposal changes."""

    @property
    def is_pending(self) -> bool:
        """False if newer metadata has replaced the proposal."""
        return self.proposer.is_pending(self.proposal)


class InSyncProposals:
    """One request at a time, with the proposals of many partitions.

    A proposal stays queued until the controller answers or newer metadata replaces it. The queue is
    bounded by the number of leader partitions.
    """

    def __init__(self, channel: ControllerChannel, context: LeaderContext, *, node_id: int) -> None:
        self._channel = channel
        self._context = context
        self._node_id = node_id
        self._unsent: dict[tuple[bytes, int], Unsent] = {}
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False

    def propose(self, proposer: Proposer, proposal: InSyncProposal) -> None:
        """Queues a proposal; its outcome goes to `proposer.settle_proposal`."""
        if self._is_closed:
            return
        key = proposer.partition.topic_id, proposer.partition.index
        self._unsent[key] = Unsent(proposer, proposal, proposer.partition.leadership.in_sync)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        pause_seconds = RETRY_SECONDS
        try:
            while self._unsent:
                for key in [key for key, it in self._unsent.items() if not it.is_pending]:
                    del self._unsent[key]
                sent = list(islice(self._unsent.values(), PROPOSALS_PER_REQUEST_MAX))
                if sent and not await self._send(sent):
                    await self._context.clock.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)
                else:
                    pause_seconds = RETRY_SECONDS
        except Exception:
            logger.exception("in-sync replicas: internal error; the next proposal is sent")
        finally:
            self._sending = None

    async def _send(self, sent: list[Unsent]) -> bool:
        """Returns False if some of the proposals have to be sent again, after a pause."""
        broker_epoch = self._context.own_epoch
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=broker_epoch, topics=rows_of(sent)
        )
        try:
            response = await self._channel.request(request, AlterPartitionResponse)
        except ControllerUnavailable as failure:
            logger.warning(
                "in-sync replicas: %d changes cannot be sent to the controller (%s); retrying",
                len(sent),
                failure,
            )
            return False
        if response.error_code != ErrorCode.NONE:
            logger.log(
                # The broker registers again; it then has no proposals or newer ones.
                logging.INFO
                if response.error_code == ErrorCode.STALE_BROKER_EPOCH
                else logging.WARNING,
                "in-sync replicas: %d changes rejected by the controller for broker epoch %d (%s); "
                "retrying",
                len(sent),
                broker_epoch,
                error_of(response.error_code).name,
            )
            return False
        return self._settle(sent, response)

    def _settle(self, sent: list[Unsent], response: AlterPartitionResponse) -> bool:
        rows = {
            (topic.topic_id, row.partition_index): row
            for topic in response.topics
            for row in topic.partitions
        }
        is_complete = True
        changes = Changes()
        for it in sent:
            partition = it.proposer.partition
            key = partition.topic_id, partition.index
            row = rows.get(key)
            if row is None:
                is_complete = False  # the controller left it out
                continue
            if self._unsent.get(key) is it:
                del self._unsent[key]
            outcome = outcome_of(row)
            effect = it.proposer.settle_proposal(it.proposal, outcome)
            if isinstance(outcome, InSyncChange):
                changes.note(str(partition), it.in_sync, outcome.in_sync)
            if effect is RefusalEffect.RETRY:
                is_complete = False
                self._unsent.setdefault(key, it)
            if effect is not None:
                log_refusal(it, row.error_code, effect)
        changes.log()
        return is_complete

    async def close(self) -> None:
        self._is_closed = True
        self._unsent.clear()
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending


def rows_of(sent: Iterable[Unsent]) -> list[TopicData]:
    by_topic: dict[bytes, list[PartitionData]] = defaultdict(list)
    for proposer, proposal, _ in sent:
        by_topic[proposer.partition.topic_id].append(
            PartitionData(
                partition_index=proposer.partition.index,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=broker, broker_epoch=epoch)
                    for broker, epoch in proposal.in_sync
                ],
                leader_recovery_state=proposal.leader_recovery_state,
                partition_epoch=proposal.partition_epoch,
            )
        )
    return [TopicData(topic_id=topic, partitions=rows) for topic, rows in by_topic.items()]


def outcome_of(row: PartitionResult) -> ProposalOutcome:
    if row.error_code != ErrorCode.NONE:
        return error_of(row.error_code)
    return InSyncChange(
        leader=row.leader_id,
        leader_epoch=row.leader_epoch,
        in_sync=tuple(row.isr),
        partition_epoch=row.partition_epoch,
        leader_recovery_state=row.leader_recovery_state,
    )


def log_refusal(unsent: Unsent, code: int, effect: RefusalEffect) -> None:
    consequence = {
        RefusalEffect.DROP: "proposed again after the next fetch",
        RefusalEffect.AWAIT_METADATA: "waiting for newer metadata",
        RefusalEffect.RETRY: "retrying",
    }
    logger.info(
        "%s: in-sync replicas %s rejected by the controller (%s); %s",
        unsent.proposer.partition,
        list(unsent.proposal.replicas),
        error_of(code).name,
        consequence[effect],
    )


class Changes:
    """Changed in-sync sets of one response, logged in one line for each group of replicas."""

    def __init__(self) -> None:
        self._added: dict[int, list[str]] = defaultdict(list)
        self._removed: dict[int, list[str]] = defaultdict(list)

    def note(self, partition: str, before: Iterable[int], now: Iterable[int]) -> None:
        for replica in {*now} - {*before}:
            self._added[replica].append(partition)
        for replica in {*before} - {*now}:
            self._removed[replica].append(partition)

    def log(self) -> None:
        for replica, partitions in self._added.items():
            logger.info("in-sync replicas: broker %d joined %s", replica, listed(partitions))
        for replica, partitions in self._removed.items():
            logger.warning(
                "in-sync replicas: broker %d left %s (it lags for longer than "
                "replica.lag.time.max.ms); these partitions are under-replicated",
                replica,
                listed(partitions),
            )


def listed(partitions: list[str]) -> str:
    """Returns the first names of a list, and the number of all."""
    if len(partitions) <= PARTITIONS_NAMED_MAX:
        return ", ".join(partitions)
    named = ", ".join(partitions[:PARTITIONS_NAMED_MAX])
    return f"{len(partitions)} partitions ({named}, …)"
