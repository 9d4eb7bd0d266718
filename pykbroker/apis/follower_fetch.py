"""Fetches of followers: they read up to the log end, and acknowledge the records before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.fetch_operation import FetchOperation
from pykbroker.partitions.isolation import Reader
from pykbroker.partitions.reading import read
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from pykbroker.apis.fetch_sessions import FetchSession
    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.reading import Fetched
    from pykbroker_protocol.messages.fetch import (
        EpochEndOffset,
        FetchPartition,
        FetchRequest,
        FetchResponse,
    )


class FollowerFetch(FetchOperation):
    """The state of a fetch request of another broker."""

    __slots__ = ("broker_epoch", "is_noted", "replica")

    def __init__(
        self, request: FetchRequest, call: Call, session: FetchSession | None, replica: int
    ) -> None:
        super().__init__(request, call, session, Reader.FOLLOWER, needs_leader=True)
        self.replica = replica
        self.broker_epoch = request.replica_state.replica_epoch
        self.is_noted = False
        """True after the first read: a second read, after a wait, shows no newer progress."""

    def read(
        self, partition: Partition, requested: FetchPartition
    ) -> Fetched | Refusal | EpochEndOffset:
        """Reads after it has noted the progress, so that the response has the new watermark."""
        leader, offset = partition.leader, requested.fetch_offset
        epoch = requested.current_leader_epoch
        refusal = self.epoch_refusal(partition, requested) or leader.refusal_of_fetch(
            self.replica, self.broker_epoch, names_leader_epoch=epoch >= 0
        )
        if refusal is not None:
            return refusal
        if requested.last_fetched_epoch >= 0:
            divergence = self.divergence(partition, requested)
            if divergence is not None:
                return divergence
        log = partition.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if not self.is_noted:
            leader.note_fetch(
                self.replica,
                fetch_offset=offset,
                log_start_offset=requested.log_start_offset,
                broker_epoch=self.broker_epoch,
            )
        return read(
            partition,
            offset,
            bytes_max=self.bytes_for(requested),
            isolation=self.isolation,
            first_batch_whole=self.is_first,
            reader=Reader.FOLLOWER,
        )

    async def wait_and_answer(self, missing: int) -> FetchResponse:
        self.is_noted = True
        return await super().wait_and_answer(missing)
