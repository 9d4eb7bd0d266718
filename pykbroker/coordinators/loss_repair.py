"""Repairs transactions after a power loss that took the end of a log.

A power loss may take the end of `__transaction_state` and keep later records of data partitions, or
the reverse. Transactional ids are then compared with the producer epochs and open transactions of
the data partitions led here (`after_loss`), before their coordinator serves requests. Open
transactions whose producer id no coordinator knows are aborted when all coordinators are loaded.

Only a broker that is alone repairs: all coordinators and data partitions are local there.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.coordination.transactions.states import PREPARED
from pykbroker.coordinators.coordinated_log import Status
from pykbroker.coordinators.producer_survey import ProducerSurvey
from pykbroker.coordinators.transaction_markers import Delivery, Progress
from pykbroker.internal_topics import TRANSACTION_STATE
from pykbroker.slices import in_slices, next_turn

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.transactions.outcome import Markers
    from pykbroker.coordination.transactions.registry import Transactions
    from pykbroker.coordinators.coordinated_log import CoordinatedLog
    from pykbroker.coordinators.coordinated_topic import CoordinatedTopic
    from pykbroker.coordinators.transaction_markers import MarkerWriter
    from pykbroker.partitions.partition_registry import Partitions

    TransactionLog = CoordinatedLog[Transactions]

logger = logging.getLogger(__name__)

IDS_PER_TURN = 200
"""Transactional ids that are compared before other work runs."""
RETRY_SECONDS = 1.0
"""After a failed write to `__transaction_state`; requests wait for it, or epochs would be stale."""
ABORTS_LOGGED_MAX = 20
"""Lines about aborted transactions of unknown producer ids; one more line counts the others."""


class LossRepair:
    """Surveys the data partitions led here and repairs transactions accordingly."""

    def __init__(
        self,
        partitions: Partitions,
        topic: CoordinatedTopic[Transactions],
        writer: MarkerWriter,
        clock: Clock,
    ) -> None:
        self._topic = topic
        self._writer = writer
        self._clock = clock
        self._partitions = partitions
        self._tasks: set[asyncio.Task[None]] = set()
        self.begin()

    def begin(self) -> None:
        """Surveys all partitions; called again when a log opens that could not be opened before."""
        self._survey = ProducerSurvey(self._partitions)
        self._surveying = self._begin(in_slices(self._survey.taken()))
        self._begin(self._repair(self._survey))

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- transactional ids

    async def reconcile_all(self, log: TransactionLog) -> None:
        """Writes the repaired states; `begin` delivers the markers of prepared transactions."""
        await self._until_surveyed()
        transactional_ids = list(log.state.transactions)
        for first in range(0, len(transactional_ids), IDS_PER_TURN):
            some = transactional_ids[first : first + IDS_PER_TURN]
            while not self.reconcile(log, some):
                await self._clock.sleep(RETRY_SECONDS)
            await next_turn()

    async def _until_surveyed(self) -> None:
        while not self._surveying.done():
            await asyncio.wait((self._surveying,))

    def reconcile(self, log: TransactionLog, transactional_ids: Sequence[str]) -> bool:
        """Returns False if the append failed."""
        if not self._survey or log.status not in (Status.LOADING, Status.ACTIVE):
            return True
        now_ms = self._clock.now_ms()
        outcome = log.state.reconcile(transactional_ids, self._survey.seen, now_ms)
        if log.status is Status.LOADING:
            outcome = replace(outcome, markers=())  # `begin` delivers them
        return not outcome.writes or log.repair(outcome)

    # --- producer ids that no transactional id has

    async def _repair(self, survey: ProducerSurvey) -> None:
        await self._until_surveyed()
        await self._topic.wait_until_loaded(None)
        for log in list(self._topic.active()):
            await self.reconcile_all(log)  # if it was loaded before this survey
        if survey is not self._survey:
            return
        if self._topic.is_whole:
            await self._abort_without_coordinator(survey)
        elif survey.open_ids:
            logger.warning(
                "transactions: not all partitions of %s are loaded; open transactions of %d "
                "producer ids may have no coordinator; see 'pykbroker transactions find-hanging'",
                TRANSACTION_STATE,
                len(survey.open_ids),
            )
        survey.keep_only(await self._producer_ids(only_prepared=True))

    async def _abort_without_coordinator(self, survey: ProducerSurvey) -> None:
        known = await self._producer_ids()
        aborted = 0
        for producer_id in survey.open_ids:
            markers = None
            if producer_id not in known:
                markers = survey.aborting_markers(producer_id)
            if markers is not None:
                self._abort(markers, is_logged=aborted < ABORTS_LOGGED_MAX)
                aborted += 1
                await next_turn()
        if aborted > ABORTS_LOGGED_MAX:
            logger.warning(
                "transactions: open transactions of other producers abort for the same reason: %d",
                aborted - ABORTS_LOGGED_MAX,
            )

    def _abort(self, markers: Markers, *, is_logged: bool) -> None:
        if is_logged:
            logger.warning(
                "%s-%d: open transaction of producer %d aborts (partitions: %d; no transactional "
                "id has this producer id; records are missing)",
                *markers.partitions[0],
                markers.producer_id,
                len(markers.partitions),
            )
        delivery = Delivery(markers, self._writer)
        if delivery.attempt() is Progress.LATER:
            self._begin(_until_done(delivery))

    async def _producer_ids(self, *, only_prepared: bool = False) -> set[int]:
        """Producer ids in use, and the next ids of prepared transactions."""
        found: set[int] = set()
        for log in list(self._topic.active()):
            transactions = list(log.state.transactions.values())
            for first in range(0, len(transactions), IDS_PER_TURN):
                for it in transactions[first : first + IDS_PER_TURN]:
                    if it.state in PREPARED or not only_prepared:
                        found |= {it.producer_id, it.next_producer_id}
                await next_turn()
        return found


async def _until_done(delivery: Delivery) -> None:
    await delivery.until_done()
