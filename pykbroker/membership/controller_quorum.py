"""Finds the leader of the metadata quorum: the active controller."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pykbroker.address import Address
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.connection_pool import ConnectionPool
from pykbroker.client.errors import ApiError, ClientError, error_of
from pykbroker.membership.quorum_fetch import leader_in, probe_request
from pykbroker.membership.quorum_view import CONTROLLERS_MAX, QuorumLeader, QuorumView, joined
from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import NO_VERSIONS, Versions
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykbroker_protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pykbroker.client.broker_connection import BrokerConnection
    from pykbroker.client.connection_options import Connect
    from pykbroker.clock import Clock, Randomness
    from pykbroker.settings import Settings

logger = logging.getLogger(__name__)

BACKOFF_SECONDS: Final = 0.05
"""Pause after the first round without a leader; doubles with each round."""

BACKOFF_SECONDS_MAX: Final = 1.0
LOG_PERIOD_SECONDS: Final = 30.0


CONTROLLERS: Final = 2
"""Endpoint type of a DescribeCluster that lists the controllers (KIP-919)."""

CONTROLLERS_PERIOD_SECONDS: Final = 30.0
"""Controllers that start or move later are known after this time."""

RESPONSE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A Fetch returns at least one batch, and a batch of the metadata log has at most 8 MiB."""


def quorum_options(
    settings: Settings, *, connect: Connect, clock: Clock, randomness: Randomness
) -> ConnectionOptions:
    """Returns the options of connections to controllers."""
    return ConnectionOptions(
        client_id=f"broker-{settings.node_id}",
        timeout_seconds=settings.controller_quorum_request_timeout_ms / 1000,
        response_bytes_max=RESPONSE_BYTES_MAX,
        connect=connect,
        clock=clock,
        randomness=randomness,
    )


class ForeignCluster(Exception):
    """The controllers belong to another cluster; the message is for the operator."""


class ControllerQuorum:
    """The known controllers and their leader, shared by all connections of this broker to them."""

    def __init__(
        self, view: QuorumView, options: ConnectionOptions, *, cluster_id: str | None = None
    ) -> None:
        assert view.addresses, "there are no addresses of controllers"
        self.view = view
        self.cluster_id = cluster_id
        """Controllers of another cluster are refused; None accepts any."""
        self.options = options
        self.reasons: dict[Address, str] = {}
        """Why each address did not name a leader in the last round of discovery."""
        self._pool = ConnectionPool(options)
        self._discovering = asyncio.Lock()
        self._lost: QuorumLeader | None = None
        self._versions: tuple[QuorumLeader, Mapping[int, Versions]] | None = None
        self._throttle = LogThrottle(lines_max=1, period_seconds=LOG_PERIOD_SECONDS)
        self._asked: tuple[QuorumLeader | None, float] = None, 0.0
        self._on_new_leader: list[Callable[[QuorumLeader], None]] = []

    async def leader(self) -> QuorumLeader:
        """Returns the leader; asks all controllers, in rounds, until one of them names it.

        Raises ForeignCluster.
        """
        pause = BACKOFF_SECONDS
        while (leader := self._usable_leader()) is None:
            async with self._discovering:
                leader = self._usable_leader() or await self._ask_all()
                if leader is None:
                    self._log_silence()
                    await self.options.clock.sleep(pause)
                    pause = min(2 * pause, BACKOFF_SECONDS_MAX)
        return leader

    def on_new_leader(self, leave: Callable[[QuorumLeader], None]) -> None:
        """Calls a function for each new leader, until the quorum is closed."""
        self._on_new_leader.append(leave)

    def observed(
        self, leader_id: int, leader_epoch: int, endpoints: Iterable[tuple[int, Address]] = ()
    ) -> None:
        """Applies what a response says about the leader."""
        before = self.view
        self.view = view = before.observed(leader_id, leader_epoch, endpoints)
        if view.leader is not None and view.leader != before.leader:
            logger.info(
                "controllers: active controller is node %d at %s (epoch %d)",
                view.leader.id,
                view.leader.address,
                view.leader.epoch,
            )
            for leave in self._on_new_leader:
                leave(view.leader)

    def lost(self, leader: QuorumLeader) -> None:
        """The leader cannot be reached or has resigned: the next caller asks all controllers."""
        if leader == self.view.leader:
            self._lost = leader

    def note_versions(self, leader: QuorumLeader, versions: Mapping[int, Versions]) -> None:
        """Stores the versions that a leader offers, for all channels."""
        self._versions = leader, versions

    def versions_of(self, api_key: int) -> Versions | None:
        """Returns the versions that the leader offers; None until a channel is connected to it."""
        if self._versions is None or self._versions[0] != self._usable_leader():
            return None
        return self._versions[1].get(api_key, NO_VERSIONS)

    async def learn_controllers(self, connection: BrokerConnection, leader: QuorumLeader) -> None:
        """Asks a leader for all controllers, so that the others are known when it fails."""
        now = self.options.clock.monotonic()
        asked_leader, asked_at = self._asked
        if leader == asked_leader and now - asked_at < CONTROLLERS_PERIOD_SECONDS:
            return
        self._asked = leader, now
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
        )
        try:
            response = await connection.request(request, DescribeClusterResponse)
        except ApiError as failure:
            logger.debug("controllers: %s does not list them (%s)", leader.address, failure)
            return
        listed = response.brokers[:CONTROLLERS_MAX]
        endpoints = [(it.broker_id, Address(it.host, it.port)) for it in listed]
        self.observed(leader.id, leader.epoch, endpoints)

    def foreign(self, address: Address) -> ForeignCluster:
        return ForeignCluster(
            f"controller {address} does not belong to cluster {self.cluster_id}; check the "
            "addresses of the controllers and the data directory"
        )

    async def close(self) -> None:
        await self._pool.close()

    def _usable_leader(self) -> QuorumLeader | None:
        leader = self.view.leader
        return None if leader == self._lost else leader

    async def _ask_all(self) -> QuorumLeader | None:
        """Asks all addresses at the same time; returns the leader that the first of them names."""
        self._lost = None
        self.reasons = {}
        asking = [asyncio.ensure_future(self._ask(it)) for it in self.view.addresses]
        try:
            for answer in asyncio.as_completed(asking):
                await answer
                leader = self.view.leader
                if leader is not None and leader in [it.result() for it in asking if it.done()]:
                    return leader
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return None

    async def _ask(self, address: Address) -> QuorumLeader | None:
        """Returns the leader that this controller names, or notes the reason why it does not."""
        try:
            connection = await self._pool.connection_to(address)
            request = probe_request(self.cluster_id)
            response = await connection.request(request, FetchResponse)
        except ClientError as failure:
            self.reasons[address] = reason_without(address, str(failure))
            self._pool.discard(address)
            return None
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise self.foreign(address)
        if response.error_code:
            self.reasons[address] = error_of(response.error_code).name
            return None
        named = leader_in(response)
        self.observed(named.leader_id, named.leader_epoch, named.endpoints)
        leader = self.view.leader
        if leader is None:
            self.reasons[address] = (
                "knows no leader"
                if named.leader_id < 0
                else f"leader is node {named.leader_id}, whose address is not known"
            )
        return leader

    def _log_silence(self) -> None:
        suppressed = self._throttle.admit("silence", self.options.clock.monotonic())
        if suppressed is not None:
            logger.warning(
                "controllers: no active controller found: %s; retrying%s",
                joined(self.reasons),
                suppressed_text(suppressed),
            )


def reason_without(address: Address, text: str) -> str:
    """Returns an error text without the address, which the log line contains already."""
    for prefix in (f"cannot connect to {address}: ", f"{address}: ", f"{address} "):
        text = text.removeprefix(prefix)
    return text
