"""Asks a coordinator; one that has moved, or still reads what it knows, is asked again."""

from __future__ import annotations

import asyncio
import time
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker.cli.client import Disconnected
from pykbroker.cli.failure import Refused
from pykbroker.cli.refusals import error_of, raise_if_refused
from pykbroker.cli.topic_lookup import BACKOFF_S
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.cli.client import Client

Answer = TypeVar("Answer", bound=Message)

PATIENCE_S: Final = 15.0  # a cluster that has never seen a group makes its topic first
PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Coordinated(IntEnum):
    """What has a coordinator, by the number that stands for it in the protocol."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator:
    """Whoever answers for a group or a transactional id; looked for when it is first needed."""

    def __init__(self, client: Client, name: str, kind: Coordinated = Coordinated.GROUP) -> None:
        self._client = client
        self._name = name
        self._kind = kind
        self._node_id: int | None = None

    async def ask(
        self,
        request: Message,
        answer: type[Answer],
        error_code_of: Callable[[Answer], int],
        *,
        version_max: int | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """The coordinator's answer, which may be a refusal, but none that passes by itself."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                node_id = await self.node_id()
                response = await self._client.ask(
                    request, answer, node_id=node_id, version_max=version_max, timeout_s=timeout_s
                )
                if error_of(error_code_of(response)) not in PASSING:
                    return response
                raise_if_refused(error_code_of(response))
            except Refused as refused:
                if refused.code not in PASSING or time.monotonic() > deadline:
                    raise
            except Disconnected:
                if time.monotonic() > deadline:
                    raise
            self._node_id = None
            await asyncio.sleep(BACKOFF_S)

    async def node_id(self) -> int:
        """Where the coordinator is now."""
        if self._node_id is None:
            request = FindCoordinatorRequest(key_type=self._kind, coordinator_keys=[self._name])
            await self._client.metadata()  # brokers come and go
            response = await self._client.ask(request, FindCoordinatorResponse)
            found = response.coordinators[0]
            raise_if_refused(found.error_code, found.error_message)
            self._node_id = found.node_id
        return self._node_id


async def ask_when_loaded(
    client: Client,
    request: Message,
    answer: type[Answer],
    error_code_of: Callable[[Answer], int],
    node_id: int,
) -> Answer:
    """The answer of one broker about all that it coordinates, once it has read what that is."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        response = await client.ask(request, answer, node_id=node_id)
        code = error_code_of(response)
        is_loading = error_of(code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not is_loading or time.monotonic() > deadline:
            raise_if_refused(code)
            return response
        await asyncio.sleep(BACKOFF_S)
