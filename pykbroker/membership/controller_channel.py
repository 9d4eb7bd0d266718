"""Sends requests of this broker to the active controller, also after it has moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker.client.connection import time_limit
from pykbroker.client.connection_options import TIMEOUT_SECONDS
from pykbroker.client.connection_pool import ConnectionPool
from pykbroker.client.errors import ApiError, ClientError, Disconnected, InvalidRequest, TimedOut
from pykbroker.client.retries import Attempts
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.membership.controller_quorum import ForeignCluster
from pykbroker.membership.quorum_view import joined
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from pykbroker.membership.controller_quorum import ControllerQuorum
    from pykbroker.membership.quorum_view import QuorumLeader
    from pykbroker_protocol.message import Versions

Answer = TypeVar("Answer", bound=Message)

SILENCE_SECONDS_MAX: Final = 4.0
"""Two heartbeats without a response; the session of a broker is longer."""

_LISTS_OF_OUTCOMES: Final = ("topics", "results", "responses", "entries")
"""Responses without an error of their own have one in each element of such a list."""


class QuorumChannel:
    """Implements `controller_access.ControllerChannel`.

    Controllers execute the requests of a connection one after the other, so requests that must not
    wait for others, like heartbeats, have a channel of their own.
    """

    def __init__(
        self, quorum: ControllerQuorum, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._quorum = quorum
        self._timeout_seconds = timeout_seconds
        self._pool = ConnectionPool(quorum.options)
        self._is_closed = False
        self._unanswered_since: float | None = None
        """Monotonic time of the first request after the last response."""
        quorum.on_new_leader(self._leave_others)

    async def request(
        self,
        request: Message,
        response_type: type[Answer],
        *,
        version_max: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Sends to the active controller, and again until the timeout if it does not answer.

        A repeated request may have been executed before. Raises ControllerUnavailable.
        """
        options = self._quorum.options
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        attempts = Attempts(options, seconds)
        last_failure = ""
        try:
            async with time_limit(options.clock, seconds):
                while True:
                    outcome = await self._attempt(request, response_type, version_max, seconds)
                    if isinstance(outcome, Message):
                        return outcome
                    last_failure = outcome
                    await attempts.pause()
        except TimeoutError:
            self._replace_silent_connection()
            reasons = last_failure or joined(self._quorum.reasons) or "no response"
            text = f"no active controller answered in {seconds:g} s: {reasons}"
            raise ControllerUnavailable(text) from None

    def versions_of(self, api_key: int) -> Versions | None:
        """Returns the versions that the active controller offers; an empty range for none.

        None while no channel is connected to the active controller.
        """
        return self._quorum.versions_of(api_key)

    async def _attempt(
        self,
        request: Message,
        response_type: type[Answer],
        version_max: int | None,
        seconds: float,
    ) -> Answer | str:
        """Returns the response, or why the request must be sent again."""
        if self._is_closed:
            raise ControllerUnavailable("the connection to the controllers is closed")
        try:
            leader = await self._quorum.leader()
        except ForeignCluster as failure:
            raise ControllerUnavailable(str(failure)) from failure
        try:
            await self._pool.retain([leader.address])
            connection = await self._pool.connection_to(leader.address)
            self._quorum.note_versions(leader, connection.versions)
            if self._unanswered_since is None:
                self._unanswered_since = self._quorum.options.clock.monotonic()
            response = await connection.request(
                request, response_type, version_max=version_max, timeout_seconds=seconds
            )
            self._unanswered_since = None
        except (ApiError, InvalidRequest) as failure:  # the controller is too old or too new
            raise ControllerUnavailable(str(failure)) from failure
        except ClientError as failure:
            self._unanswered_since = None
            self._quorum.lost(leader)
            return str(failure)
        if is_not_controller(response):
            self._quorum.lost(leader)
            return f"{leader.address} is not the active controller"
        return response

    def _replace_silent_connection(self) -> None:
        """Closes a connection without any response for long.

        After an outage of the network, TCP can take minutes until it sends again.
        """
        since, now = self._unanswered_since, self._quorum.options.clock.monotonic()
        if since is not None and now - since >= SILENCE_SECONDS_MAX:
            self._unanswered_since = None
            for connection in self._pool.connections:
                connection.fail(TimedOut(f"{connection.address} does not respond"))

    def _leave_others(self, leader: QuorumLeader) -> None:
        """Ends requests to a leader that was deposed, which may hang; they are sent again."""
        for connection in self._pool.connections:
            if connection.address != leader.address:
                connection.fail(Disconnected(f"{connection.address} is not the leader any longer"))

    async def close(self) -> None:
        """Closes the connections; requests raise ControllerUnavailable."""
        self._is_closed = True
        await self._pool.close()


def is_not_controller(response: Message) -> bool:
    """Returns whether a controller refuses the request because it is not the active one."""
    code = getattr(response, "error_code", None)
    if code is not None:
        return bool(code == ErrorCode.NOT_CONTROLLER)
    return any(
        getattr(element, "error_code", None) == ErrorCode.NOT_CONTROLLER
        for name in _LISTS_OF_OUTCOMES
        for element in getattr(response, name, None) or ()
    )
