"""Registers this broker with the active controller and keeps its session alive by heartbeats.

`lifecycle` decides what is sent; this module sends it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, assert_never

from pykbroker.client.errors import error_of
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.membership.lifecycle import (
    Heartbeat,
    Lifecycle,
    Nothing,
    Phase,
    Registration,
    Timing,
    Wait,
    answered,
    checked,
    directory_failed,
    failed,
    has_registration_timed_out,
    next_request,
    ready,
    refused,
    registered,
    rejected,
    returning,
    sent,
    stepping_aside,
    stopping,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from pykbroker_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pykbroker.clock import Clock
    from pykbroker.controller_access import ControllerChannel
    from pykbroker.membership.lifecycle import Metadata

logger = logging.getLogger(__name__)

REGISTRATION_TIMEOUT_SECONDS: Final = 10.0
HEARTBEAT_TIMEOUT_SECONDS_MAX: Final = 2.0
"""A request without a response ends after this time, so that a stop does not wait longer."""

FINAL_REFUSALS: Final = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors of a registration that repeating it does not remove."""


class RegistrationRefused(Exception):
    """The controller does not register this broker; the message is for the operator."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Membership:
    """A task that sends registrations and heartbeats, from `start` to `close`."""

    def __init__(
        self,
        channel: ControllerChannel,
        registration: BrokerRegistrationRequest,
        *,
        metadata: Callable[[], Metadata],
        timing: Timing,
        clock: Clock,
        cordoned: Callable[[], Collection[bytes] | None] = lambda: None,
    ) -> None:
        """`registration` contains the epoch of the last clean shutdown.

        `cordoned` returns the cordoned directories, or None if the cluster does not support them.
        """
        self._channel = channel
        self._registration = registration
        self._metadata = metadata
        self._clock = clock
        self._cordoned = cordoned
        self._state = Lifecycle(timing=timing, due_at=clock.monotonic())
        self._changed = asyncio.Event()
        self._watchers: list[asyncio.Event] = []
        self._subscribers: list[Callable[[Lifecycle], None]] = []
        self._task: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """Why the task has ended, if it was not by a shutdown."""

    @property
    def broker_epoch(self) -> int:
        """UNKNOWN_EPOCH before the first registration."""
        return self._state.broker_epoch

    @property
    def phase(self) -> Phase:
        return self._state.phase

    def subscribe(self, deliver: Callable[[Lifecycle], None]) -> None:
        """Calls `deliver` with the present state and with each later one."""
        self._subscribers.append(deliver)
        deliver(self._state)

    # --- what the broker calls

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def until_registered(self) -> int:
        """Returns the broker epoch. Raises RegistrationRefused."""
        await self._until(lambda: self._state.phase is not Phase.REGISTERING)
        return self._state.broker_epoch

    async def until_unfenced(self) -> None:
        """Reports to the controller that this broker can serve. Raises RegistrationRefused."""
        self._move(ready(self._state, self._clock.monotonic()))
        await self._until(lambda: self._state.phase not in {Phase.FENCED, Phase.REGISTERING})

    async def until_failed(self) -> Exception:
        """Returns the reason when the membership ends without a request to stop."""
        await self._until(lambda: self.failure is not None, raises=False)
        if self.failure is None:  # the broker is stopping
            await asyncio.Event().wait()
        assert self.failure is not None
        return self.failure

    def step_aside(self) -> None:
        """Asks the controller to fence this broker, which moves the leaderships."""
        self._move(stepping_aside(self._state, self._clock.monotonic()))

    def return_to_service(self) -> None:
        """Asks for unfencing after `step_aside`."""
        self._move(returning(self._state, self._clock.monotonic()))

    async def report_failed_directory(self, directory_id: bytes) -> None:
        """Returns when the controller knows that this log directory is offline."""
        self._move(directory_failed(self._state, directory_id, self._clock.monotonic()))
        await self._until(lambda: directory_id in self._state.reported_directories, raises=False)

    async def leave(self) -> None:
        """Returns when the controller has moved the leaderships, or at once if it cannot."""
        if self._task is None or self._task.done():
            return
        self._move(stopping(self._state, self._clock.monotonic()))
        if self._state.phase is Phase.LEAVING:
            logger.info("membership: controlled shutdown began; leaderships move to other brokers")
            await asyncio.wait((self._task,))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # --- the task

    async def _run(self) -> None:
        try:
            while True:
                self._move(checked(self._state, self._clock.monotonic()))
                now = self._clock.monotonic()
                request = next_request(
                    self._state,
                    self._metadata(),
                    now,
                    previous_epoch=self._registration.previous_broker_epoch,
                )
                match request:
                    case Registration():
                        await self._register(request)
                    case Heartbeat():
                        await self._send_heartbeat(request)
                    case Wait():
                        await self._wait(request.until - now)
                    case Nothing():
                        return
                    case _:
                        assert_never(request)
        except RegistrationRefused as failure:
            self.failure = failure
        except Exception as failure:
            logger.exception("membership: internal error; the broker stops")
            self.failure = failure
        finally:
            self._notify()

    async def _register(self, request: Registration) -> None:
        message = self._registration.replace(previous_broker_epoch=request.previous_epoch)
        try:
            response = await self._channel.request(
                message, BrokerRegistrationResponse, timeout_seconds=REGISTRATION_TIMEOUT_SECONDS
            )
        except ControllerUnavailable as failure:
            logger.debug("membership: registration failed (%s); retrying", failure)
            self._move(failed(self._state, self._clock.monotonic()))
            return
        now = self._clock.monotonic()
        if response.error_code:
            self._note_refusal(error_of(response.error_code), now)
            return
        self._move(registered(self._state, response.broker_epoch, now))
        logger.info(
            "membership: registered broker %d (epoch %d); it is fenced until it is ready",
            message.broker_id,
            response.broker_epoch,
        )

    def _note_refusal(self, code: ErrorCode, now: float) -> None:
        is_first = self._state.refused_since is None
        self._move(refused(self._state, now))
        broker_id = self._registration.broker_id
        if code in FINAL_REFUSALS or has_registration_timed_out(self._state, now):
            raise RegistrationRefused(
                code,
                f"the controller refused to register broker {broker_id}: {code.name}"
                f" ({code.sentence})",
            )
        if not is_first:
            return
        if code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            logger.info(
                "membership: another process is registered as broker %d; retrying until its "
                "session expires",
                broker_id,
            )
        else:
            logger.warning("membership: registration refused (%s); retrying", code.name)

    async def _send_heartbeat(self, request: Heartbeat) -> None:
        cordoned = self._cordoned() if request.is_caught_up else None
        sent_at = self._clock.monotonic()
        message = BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=request.epoch,
            current_metadata_offset=request.offset,
            want_fence=request.asks_for_fencing,
            want_shut_down=request.asks_for_shutdown,
            offline_log_dirs=sorted(request.offline_directories),
            cordoned_log_dirs=None if cordoned is None else sorted(cordoned),
        )
        self._move(sent(self._state))
        timeout = min(self._state.timing.session / 2, HEARTBEAT_TIMEOUT_SECONDS_MAX)
        try:
            response = await self._channel.request(
                message, BrokerHeartbeatResponse, timeout_seconds=timeout
            )
        except ControllerUnavailable as failure:
            logger.debug("membership: heartbeat failed (%s); retrying", failure)
            self._move(failed(self._state, self._clock.monotonic()))
            return
        now = self._clock.monotonic()
        if response.error_code:
            code = error_of(response.error_code)
            logger.warning("membership: heartbeat refused (%s)", code.name)
            self._move(rejected(self._state, code, now))
            return
        state = answered(
            self._state,
            is_fenced=response.is_fenced,
            should_shut_down=response.should_shut_down,
            reported_directories=request.offline_directories,
            sent_at=sent_at,
            now=now,
        )
        self._move(state)

    async def _wait(self, seconds: float) -> None:
        """Waits, at most until the state changes."""
        self._changed.clear()
        alarm = self._clock.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            alarm.cancel()

    # --- changes of the state

    def _move(self, state: Lifecycle) -> None:
        before, self._state = self._state, state
        if state is before:
            return
        if state.phase is not before.phase:
            log_transition(before, state)
        for deliver in self._subscribers:
            deliver(state)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        for watcher in self._watchers:
            watcher.set()

    async def _until(self, is_reached: Callable[[], bool], *, raises: bool = True) -> None:
        """Waits for a state. If the task ends before, raises its failure or returns."""
        watcher = asyncio.Event()
        self._watchers.append(watcher)
        try:
            while not is_reached():
                if self._task is None or self._task.done() or self.failure is not None:
                    if raises and self.failure is not None:
                        raise self.failure
                    return
                watcher.clear()
                await watcher.wait()
        finally:
            self._watchers.remove(watcher)


def log_transition(before: Lifecycle, after: Lifecycle) -> None:
    match before.phase, after.phase:
        case Phase.FENCED, Phase.UNFENCED:
            logger.info("membership: unfenced (epoch %d)", after.broker_epoch)
        case Phase.UNFENCED, Phase.FENCED:
            is_late = after.lapsed_at >= before.session_ends_at
            logger.warning(
                "membership: %s; producers get NOT_LEADER_OR_FOLLOWER until the controller "
                "unfences the broker",
                f"no heartbeat was answered for {after.timing.session:g} s"
                if is_late
                else "the controller has fenced the broker",
            )
        case ((Phase.FENCED | Phase.UNFENCED), Phase.REGISTERING):
            logger.warning(
                "membership: the controller has no registration with epoch %d; registering again",
                before.broker_epoch,
            )
        case Phase.LEAVING, Phase.STOPPED:
            logger.info("membership: controlled shutdown ended")
        case _:
            pass
