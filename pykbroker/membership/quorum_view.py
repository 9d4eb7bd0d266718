"""The leader of the metadata quorum as far as this broker knows it, as a pure value.

Every response of a controller can name the leader, its epoch and the endpoints of controllers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.address import Address
from pykbroker.settings import InvalidSetting
from pykbroker_protocol.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pykbroker.settings import Settings

NO_LEADER = -1
UNKNOWN_EPOCH = 0
"""Controllers answer a Fetch in epoch 0 with the current epoch and leader."""

CONTROLLERS_MAX = 64
"""Bounds the endpoints that responses can add; a quorum has far fewer controllers."""

_VOTER = re.compile(r"(\d+)@(.+)")


class QuorumLeader(NamedTuple):
    """The leader of an epoch and its address."""

    id: int
    epoch: int
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """Configured addresses, and the leader of the newest known epoch."""

    seeds: tuple[Address, ...] = ()
    """Addresses of `controller.quorum.bootstrap.servers`."""
    endpoints: Mapping[int, Address] = field(default_factory=dict)
    """Controllers by node id, of `controller.quorum.voters` and of responses."""
    leader_id: int = NO_LEADER
    leader_epoch: int = UNKNOWN_EPOCH

    @property
    def leader(self) -> QuorumLeader | None:
        """None if no leader is known, or its address is not."""
        address = self.endpoints.get(self.leader_id)
        if address is None:
            return None
        return QuorumLeader(self.leader_id, self.leader_epoch, address)

    @property
    def addresses(self) -> list[Address]:
        """All addresses that discovery asks, without duplicates."""
        return list(dict.fromkeys((*self.seeds, *self.endpoints.values())))

    def observed(
        self,
        leader_id: int,
        leader_epoch: int,
        endpoints: Iterable[tuple[int, Address]] = (),
    ) -> QuorumView:
        """Returns the view after a response. An older epoch does not replace a newer one."""
        known = dict(self.endpoints)
        for node_id, address in endpoints:
            if node_id in known or len(known) < CONTROLLERS_MAX:
                known[node_id] = address
        if leader_epoch < self.leader_epoch:
            leader_id, leader_epoch = self.leader_id, self.leader_epoch
        elif leader_epoch == self.leader_epoch and leader_id == NO_LEADER:
            leader_id = self.leader_id
        return replace(self, endpoints=known, leader_id=leader_id, leader_epoch=leader_epoch)


def view_of_settings(settings: Settings) -> QuorumView:
    """Returns the view of a broker that has not received a response yet.

    Raises InvalidSetting for an address that cannot be parsed.
    """
    voters = dict(map(parse_voter, settings.controller_quorum_voters))
    seeds = map(parse_address, settings.controller_quorum_bootstrap_servers)
    return QuorumView(seeds=tuple(seeds), endpoints=voters)


def parse_voter(text: str) -> tuple[int, Address]:
    """Parses `id@host:port`."""
    found = _VOTER.fullmatch(text.strip())
    if found is None:
        raise InvalidSetting(f"controller.quorum.voters: {text!r} is not of the form id@host:port")
    return int(found[1]), parse_address(found[2])


def parse_address(text: str) -> Address:
    """Parses `host:port`; an IPv6 address is in brackets."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidSetting(f"controllers: {text!r} is not of the form host:port")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def joined(reasons: Mapping[Address, str]) -> str:
    """Returns the addresses that were tried, each with its reason, for a log line."""
    return ", ".join(f"{address} ({reason})" for address, reason in reasons.items())
