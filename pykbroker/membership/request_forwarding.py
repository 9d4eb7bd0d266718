"""Forwards requests of clients to the active controller in Envelopes (KIP-590)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker.client.errors import error_of
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.membership.topic_requests import create_topics_request, outcomes_of
from pykbroker.slices import in_slices
from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage, sliced_reader_of
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.frame import read_response_header, write_request_in_slices
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pykbroker_protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from pykbroker_protocol.principal import ANONYMOUS, encode_principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.clock import Clock
    from pykbroker.controller_access import ControllerChannel, ForwardedClient, NewTopic
    from pykbroker_protocol.message import Versions

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=Message)

TIMEOUT_SECONDS: Final = 60.0
"""The time for which Apache Kafka retries a forwarded request."""
CREATION_TIMEOUT_MS: Final = 30_000
"""The default of request.timeout.ms, the timeout of requests between brokers."""
CREATED_AT_ONCE_MAX: Final = 10_000
"""Bounds the memory of topics that are being created, also while no controller answers."""
CORRELATION_ID: Final = 0
"""An Envelope contains one request, so its response needs no other id."""
ELEMENTS_MAX: Final = 10_000_000
"""Bounds the elements of a response; the frame is already bounded by its size."""
UNKNOWN_ADDRESS: Final = bytes(4)


class EnvelopeForwarding:
    """Implements `controller_access.RequestForwarding`."""

    def __init__(self, channel: ControllerChannel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._principal = encode_principal(ANONYMOUS)
        self._creating: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._throttle = LogThrottle(lines_max=1)

    def versions_of(self, api_key: int) -> Versions | None:
        return self._channel.versions_of(api_key)

    async def forward(
        self,
        request: Message,
        response_type: type[Answer],
        *,
        version: int,
        client: ForwardedClient,
    ) -> Answer | ErrorCode:
        """Returns the response of the controller, or the error code of the Envelope.

        Raises ControllerUnavailable.
        """
        data = await in_slices(
            write_request_in_slices(request, version, CORRELATION_ID, client.client_id),
            begins_at_once=True,
        )
        envelope = EnvelopeRequest(
            request_data=b"".join(data),
            request_principal=self._principal,
            client_host_address=address_bytes(client.host),
        )
        response = await self._channel.request(
            envelope, EnvelopeResponse, timeout_seconds=TIMEOUT_SECONDS
        )
        if response.error_code:
            return error_of(response.error_code)
        try:
            return await read_response(response.response_data, response_type, version)
        except MalformedMessage as error:
            logger.error(  # noqa: TRY400 - the traceback does not name the cause
                "response of the active controller to %s version %d is malformed (%s)",
                ApiKey(request.api).name,
                version,
                error,
            )
            return ErrorCode.UNKNOWN_SERVER_ERROR

    # --- topics

    def begin_topic_creation(
        self, topics: Sequence[NewTopic], client: ForwardedClient | None
    ) -> None:
        """Requests topics in the background, as the client or, for None, as this broker.

        Topics that are already being requested are skipped.
        """
        left = CREATED_AT_ONCE_MAX - len(self._creating)
        new = [it for it in topics if it.name not in self._creating][:left]
        if not new:
            return
        self._creating.update(it.name for it in new)
        task = asyncio.create_task(self._create(new, client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(self, topics: Sequence[NewTopic], client: ForwardedClient | None) -> None:
        try:
            response = await self._request_topics(topics, client)
        except ControllerUnavailable as failure:
            self._log_refusals((it.name, Refusal(failure.code, str(failure))) for it in topics)
        else:
            if isinstance(response, ErrorCode):
                self._log_refusals((it.name, Refusal(response)) for it in topics)
            else:
                outcomes = outcomes_of(topics, response)
                self._log_refusals(
                    (topic.name, outcome)
                    for topic, outcome in zip(topics, outcomes, strict=True)
                    if isinstance(outcome, Refusal)
                    and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
                )
        finally:
            self._creating.difference_update(it.name for it in topics)

    async def _request_topics(
        self, topics: Sequence[NewTopic], client: ForwardedClient | None
    ) -> CreateTopicsResponse | ErrorCode:
        request = create_topics_request(topics, timeout_ms=CREATION_TIMEOUT_MS)
        if client is None:
            return await self._channel.request(
                request, CreateTopicsResponse, timeout_seconds=TIMEOUT_SECONDS
            )
        version = CreateTopicsRequest.versions.last
        offered = self.versions_of(ApiKey.CREATE_TOPICS)
        if offered is not None:
            version = max(CreateTopicsRequest.versions.first, min(version, offered.last))
        return await self.forward(request, CreateTopicsResponse, version=version, client=client)

    def _log_refusals(self, refusals: Iterable[tuple[str, Refusal]]) -> None:
        """Logs each reason once per minute, because clients retry every few milliseconds."""
        for name, refusal in refusals:
            reason = refusal.message or refusal.code.name
            suppressed = self._throttle.admit((name, reason), self._clock.monotonic())
            if suppressed is not None:
                logger.warning(
                    "%s: topic cannot be created automatically (%s); clients retry%s",
                    name,
                    reason,
                    suppressed_text(suppressed),
                )

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def read_response(
    data: bytes | memoryview | bytearray | None, response_type: type[Answer], version: int
) -> Answer:
    """Raises MalformedMessage."""
    if data is None:
        raise MalformedMessage("the Envelope contains no response")
    frame = memoryview(data)
    _, position = read_response_header(frame, response_type, version)
    slices = sliced_reader_of(response_type, version)(frame, position, ELEMENTS_MAX)
    return (await in_slices(slices, begins_at_once=True))[0]


def address_bytes(host: str) -> bytes:
    """Returns the bytes of an IP address; zeros for another name, which simulated hosts have."""
    from ipaddress import ip_address  # noqa: PLC0415 - a slow import that a start does not need

    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return UNKNOWN_ADDRESS
