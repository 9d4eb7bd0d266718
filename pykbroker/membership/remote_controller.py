"""Commands of this broker to an active controller of another process.

The broker itself creates topics and allocates producer ids. Administrative commands of clients are
forwarded instead (`request_forwarding`), so they are refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker.client.errors import error_of
from pykbroker.controller_access import ControllerFailure, refusal_of
from pykbroker.membership.topic_requests import create_topics_request, outcomes_of
from pykbroker.metadata.image import TopicImage
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pykbroker_protocol.messages.create_topics import CreateTopicsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykbroker.controller_access import ControllerChannel, NewTopic, QuorumStatus

CREATION_TIMEOUT_MS: Final = 30_000
"""The default of request.timeout.ms, the timeout of requests between brokers."""
ALLOCATION_SECONDS: Final = 5.0
"""InitProducerId waits so long for a block of ids; clients retry and have a longer timeout."""
FORWARDED: Final = Refusal(
    ErrorCode.NOT_CONTROLLER, "The active controller is another process; the request is forwarded."
)


class RemoteController:
    """Implements `controller_access.ControllerAccess` for a broker without its own controller."""

    def __init__(
        self, channel: ControllerChannel, *, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Returns topics without partitions: the metadata of this broker will contain them."""
        request = create_topics_request(
            topics, timeout_ms=CREATION_TIMEOUT_MS, validate_only=validate_only
        )
        try:
            response = await self._channel.request(
                request, CreateTopicsResponse, timeout_seconds=CREATION_TIMEOUT_MS / 1000
            )
        except ControllerFailure as failure:
            return [refusal_of(failure) for _ in topics]
        return [
            it if isinstance(it, Refusal) else TopicImage(name=it.name, id=it.topic_id)
            for it in outcomes_of(topics, response)
        ]

    async def allocate_producer_ids(self) -> range | Refusal:
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        try:
            response = await self._channel.request(
                request, AllocateProducerIdsResponse, timeout_seconds=ALLOCATION_SECONDS
            )
        except ControllerFailure as failure:
            return refusal_of(failure)
        if response.error_code:
            return Refusal(error_of(response.error_code))
        start, count = response.producer_id_start, response.producer_id_len
        if start < 0 or count <= 0:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"block of {count} ids from {start}")
        return range(start, start + count)

    # --- commands of clients, which are forwarded

    async def delete_topics(
        self, names_or_ids: Sequence[str | bytes]
    ) -> list[TopicImage | Refusal]:
        return [FORWARDED for _ in names_or_ids]

    async def create_partitions(
        self, topics: Sequence[Any], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        del validate_only
        return [FORWARDED for _ in topics]

    async def alter_configurations(
        self, changes: Sequence[Any], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        del validate_only
        return [FORWARDED for _ in changes]

    async def replace_configurations(
        self, replacements: Sequence[Any], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        del validate_only
        return [FORWARDED for _ in replacements]

    async def elect_leaders(
        self, partitions: Sequence[Any], election_type: object
    ) -> list[Refusal | None]:
        del election_type
        return [FORWARDED for _ in partitions]

    async def reassign_partitions(self, reassignments: Sequence[Any]) -> list[Refusal | None]:
        return [FORWARDED for _ in reassignments]

    async def update_features(
        self, updates: Sequence[Any], *, validate_only: bool = False
    ) -> Refusal | None:
        del updates, validate_only
        return FORWARDED

    async def register_broker(self, registration: Any) -> int | Refusal:
        """Refused: the membership of this broker registers it."""
        del registration
        return FORWARDED

    async def unregister_broker(self, broker_id: int) -> Refusal | None:
        del broker_id
        return FORWARDED

    async def describe_quorum(self) -> QuorumStatus | Refusal:
        return FORWARDED
