"""Requests to the coordinator of a group or transactional id; retried while it moves or loads."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker.client.errors import ApiError, ConnectionFailed, error_of, only, raise_if_error
from pykbroker.client.retries import Recovery, recovery_from
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.client.cluster_client import ClusterClient

Response = TypeVar("Response", bound=Message)

TIMEOUT_SECONDS: Final = 15.0
"""The first group of a cluster waits until its coordinator topic is created."""


class CoordinatorType(IntEnum):
    """`key_type` of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator:
    """The coordinator of one group or transactional id; looked up before the first request."""

    def __init__(
        self,
        client: ClusterClient,
        key: str,
        coordinator_type: CoordinatorType = CoordinatorType.GROUP,
    ) -> None:
        self._client = client
        self._key = key
        self._type = coordinator_type
        self._node_id: int | None = None

    async def request(
        self,
        request: Message,
        response_type: type[Response],
        error_code_of: Callable[[Response], int],
        *,
        version_max: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Response:
        """Returns the response; it may have an error code that no retry at a coordinator helps."""
        attempts = self._client.attempts(TIMEOUT_SECONDS)
        while True:
            try:
                response = await self._client.request(
                    request,
                    response_type,
                    node_id=await self.node_id(),
                    version_max=version_max,
                    timeout_seconds=timeout_seconds,
                )
                error = error_of(error_code_of(response))
                if recovery_from(error) is not Recovery.FIND_COORDINATOR:
                    return response
                failure: ApiError | ConnectionFailed = ApiError(error)
            except ApiError as refused:
                if recovery_from(refused.code) is not Recovery.FIND_COORDINATOR:
                    raise
                failure = refused
            except ConnectionFailed as lost:
                failure = lost
            self._node_id = None
            if not await attempts.pause():
                raise failure

    async def node_id(self) -> int:
        """Returns the node id of the coordinator."""
        if self._node_id is None:
            request = FindCoordinatorRequest(key_type=self._type, coordinator_keys=[self._key])
            await self._client.metadata()  # the coordinator may be a broker that is new
            response = await self._client.request(request, FindCoordinatorResponse)
            found = only(response.coordinators, "coordinators")
            raise_if_error(found.error_code, found.error_message)
            self._node_id = found.node_id
        return self._node_id


async def responses_of_coordinators(
    client: ClusterClient,
    request: Message,
    response_type: type[Response],
    error_code_of: Callable[[Response], int],
) -> dict[int, Response]:
    """Requests all groups or transactions of each broker; returns the responses by node id."""
    metadata = await client.metadata()
    return {
        broker.node_id: await request_when_loaded(
            client, request, response_type, error_code_of, broker.node_id
        )
        for broker in metadata.brokers
    }


async def request_when_loaded(
    client: ClusterClient,
    request: Message,
    response_type: type[Response],
    error_code_of: Callable[[Response], int],
    node_id: int,
) -> Response:
    """Requests all groups or transactions that a broker coordinates, once they are loaded."""
    attempts = client.attempts(TIMEOUT_SECONDS)
    while True:
        response = await client.request(request, response_type, node_id=node_id)
        code = error_code_of(response)
        is_loading = error_of(code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not is_loading or not await attempts.pause():
            raise_if_error(code)
            return response
