"""The coordinator of transactional ids whose partition this node leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.coordination.transactions.outcome import TransactionOutcome
from pykbroker.coordinators.coordinated_topic import CoordinatedTopic
from pykbroker.coordinators.transaction_markers import Delivery, Progress
from pykbroker.internal_topics import TRANSACTION_STATE
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.outcome import Outcome, Ticket
    from pykbroker.coordination.transactions.outcome import Markers, TopicPartition
    from pykbroker.coordination.transactions.registry import Transactions
    from pykbroker.coordination.transactions.settings import TransactionSettings
    from pykbroker.coordinators.coordinated_log import CoordinatedLog, DecisionObserver
    from pykbroker.coordinators.loss_repair import LossRepair
    from pykbroker.coordinators.remote_transactions import RemoteTransactions
    from pykbroker.coordinators.transaction_log import Verdicts
    from pykbroker.coordinators.transaction_markers import MarkerWriter
    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction

    TransactionLog = CoordinatedLog[Transactions]
    Decision = Callable[[Transactions, Ticket], TransactionOutcome]


class TransactionCoordinator:
    """Finds the state of a transactional id, and delivers the markers that it decides."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        markers: MarkerWriter,
        *,
        settings: TransactionSettings,
        verifies_partitions: bool = True,
        observer: DecisionObserver | None = None,
    ) -> None:
        self.settings = settings
        self.verifies_partitions = verifies_partitions
        """`transaction.partition.verification.enable`"""
        self.markers = markers
        self._remote: RemoteTransactions | None = None
        self._clock = clock
        self._transaction_version = 0
        self._partitions = partitions
        self._repair: LossRepair | None = None
        self._observer = observer
        self._topic = CoordinatedTopic(TRANSACTION_STATE, partitions, self._new_log)

    def reach_others(self, remote: RemoteTransactions | None) -> None:
        """Sets the requests to other brokers; None if this broker leads all partitions."""
        self._remote = self.markers.sender = remote

    # --- leadership

    def update_partitions(self, partition_count: int, *, transaction_version: int) -> None:
        self._transaction_version = transaction_version
        for log in self._topic:
            log.state.transaction_version = transaction_version
        self._topic.update_partitions(partition_count)

    def _new_log(self, partition: Partition) -> TransactionLog:
        """Imports the code of transactions with the first partition, to keep the start short."""
        from pykbroker.coordinators.transaction_log import (  # noqa: PLC0415  # see above
            new_transaction_log,
        )

        repair = self._repair
        log = new_transaction_log(
            partition,
            self._clock,
            self.settings,
            transaction_version=self._transaction_version,
            consequence=lambda outcome: self._deliver_markers(log, outcome),
            observer=self._observer,
            before_begin=None if repair is None else repair.reconcile_all,
        )
        return log

    def repair_losses(self) -> None:
        """Call after an unclean start and when a missing log opens, before `update_partitions`."""
        from pykbroker.coordinators.loss_repair import LossRepair  # noqa: PLC0415 - rarely needed

        if self._repair is None:
            self._repair = LossRepair(self._partitions, self._topic, self.markers, self._clock)
        else:
            self._repair.begin()

    async def close(self) -> None:
        if self._repair is not None:
            await self._repair.close()
        await self._topic.close()

    # --- serving

    def decide(
        self, transactional_id: str, decision: Decision, refused: Callable[[ErrorCode], Message]
    ) -> Message | asyncio.Future[Message]:
        """Returns the response to a request about a transactional id, or a future of it."""
        log = self._topic.find(transactional_id)
        if isinstance(log, ErrorCode):
            return refused(log)
        state = log.state
        return log.decide(lambda ticket: decision(state, ticket), refused)

    def join(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Verdicts | asyncio.Future[Verdicts]:
        """Adds partitions to a transaction for their leaders, or verifies that they belong to it.

        The leader of a partition calls it before it appends the first batch of a transaction.
        """
        if verify_only and not self.verifies_partitions:
            return dict.fromkeys(topic_partitions, ErrorCode.NONE)
        from pykbroker.coordinators.transaction_log import (  # noqa: PLC0415  # as its log
            ADDING_VERSION,
            VERIFYING_VERSION,
            verdicts_later,
            verdicts_of,
            verification_request,
        )

        request = verification_request(
            transactional_id, producer_id, producer_epoch, topic_partitions, verify_only=verify_only
        )
        version = VERIFYING_VERSION if verify_only else ADDING_VERSION
        if self._remote is not None and self.is_elsewhere(transactional_id):
            remote = self._remote.add_partitions(request, version=version)
            return asyncio.ensure_future(verdicts_later(remote))
        answer = self.add_partitions(request, version=version)
        if isinstance(answer, asyncio.Future):
            return asyncio.ensure_future(verdicts_later(answer))
        return verdicts_of(answer)

    def add_partitions(
        self, request: AddPartitionsToTxnTransaction, *, version: int
    ) -> Message | asyncio.Future[Message]:
        """Returns an `AddPartitionsToTxnResult`, or a future of it."""
        from pykbroker.coordination.transactions.add_partitions import (  # noqa: PLC0415  # as its log
            result_for,
        )

        now_ms = self._clock.now_ms()
        return self.decide(
            request.transactional_id,
            lambda transactions, ticket: transactions.add_partitions_to_txn(
                request, version=version, ticket=ticket, now_ms=now_ms
            ),
            lambda code: result_for(request, lambda _: code),
        )

    def is_elsewhere(self, transactional_id: str) -> bool:
        """Returns whether another broker coordinates this id, and can be asked."""
        return self._remote is not None and self.find(transactional_id) is ErrorCode.NOT_COORDINATOR

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Returns True if the next request of this id needs a new producer id."""
        log = self._topic.find(transactional_id)
        return not isinstance(log, ErrorCode) and log.state.needs_producer_id(transactional_id)

    def find(self, transactional_id: str) -> TransactionLog | ErrorCode:
        return self._topic.find(transactional_id)

    def active(self) -> Iterator[TransactionLog]:
        return self._topic.active()

    async def wait_until_loaded(self, seconds_max: float) -> None:
        await self._topic.wait_until_loaded(seconds_max)

    @property
    def is_loading(self) -> bool:
        return self._topic.is_loading

    # --- markers

    def _deliver_markers(self, log: TransactionLog, outcome: Outcome) -> None:
        """Delivers markers; few markers for partitions of this node are appended without a wait."""
        assert isinstance(outcome, TransactionOutcome)
        if len(outcome.markers) == 1:
            self._deliver(log, outcome.markers[0])
        elif outcome.markers:
            log.begin_work(self._deliver_in_slices(log, outcome.markers))

    async def _deliver_in_slices(self, log: TransactionLog, many: Sequence[Markers]) -> None:
        """Delivers the markers of many transactions and yields to requests between them."""
        for markers in many:
            self._deliver(log, markers)
            await asyncio.sleep(0)

    def _deliver(self, log: TransactionLog, markers: Markers) -> None:
        delivery = Delivery(markers, self.markers)
        progress = delivery.attempt()
        if progress is Progress.LATER:
            log.begin_work(self._deliver_rest(log, delivery))
        else:
            self._delivered(log, delivery, progress)

    async def _deliver_rest(self, log: TransactionLog, delivery: Delivery) -> None:
        self._delivered(log, delivery, await delivery.until_done())

    def _delivered(self, log: TransactionLog, delivery: Delivery, progress: Progress) -> None:
        if progress is Progress.DONE:
            log.write_if_active(log.state.markers_written(delivery.markers, self._clock.now_ms()))
            if self._repair is not None:  # before a request sees the completed state
                self._repair.reconcile(log, (delivery.markers.transactional_id,))
