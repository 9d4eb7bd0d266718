"""The settings of each part of a broker, made from the settings of the broker."""

from __future__ import annotations

import base64
import socket
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings, MigrationPolicy
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker.coordination.transactions.settings import TransactionSettings
from pykbroker.descriptors import open_file_limit, shares_of
from pykbroker.metadata.image import GROUP_RESOURCE
from pykbroker.settings import Listener as Address
from pykbroker.settings import (
    connections_by_host,
    is_own_controller,
    other_controllers,
    resolve_group,
)
from pykbroker.transport.limits import SYSTEM_DEFAULT, ConnectionLimits
from pykbroker_storage.checkpoint import META_PROPERTIES_FILE, MalformedCheckpoint, MetaProperties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pykbroker.settings import Settings


NOTHING: Mapping[tuple[int, str], Mapping[str, str]] = MappingProxyType({})


KAFKAS_SEND_BUFFER_BYTES: Final = 102_400
"""Default of `socket.send.buffer.bytes`."""


def group_settings(settings: Settings) -> GroupSettings:
    return GroupSettings(
        session_timeout_ms_min=settings.group_min_session_timeout_ms,
        session_timeout_ms_max=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        members_max=settings.group_max_size,
        member_bytes_max=settings.group_member_max_bytes,
        all_members_bytes_max=settings.group_coordinator_members_max_bytes,
        offset_metadata_length_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )


def consumer_group_settings(
    settings: Settings, configurations: Mapping[tuple[int, str], Mapping[str, str]] = NOTHING
) -> ConsumerGroupSettings:
    """The settings of all groups, and of groups with a configuration of their own."""
    of_all = ConsumerGroupSettings(
        session_timeout_ms=settings.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        members_max=settings.group_consumer_max_size,
        regexes_max=settings.group_consumer_max_regexes,
        classic_members_max=settings.group_max_size,
        assignors=settings.group_consumer_assignors,
        assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        migration_policy=MigrationPolicy(settings.group_consumer_migration_policy.lower()),
    )
    by_group = {
        group_id: replace(of_all, **resolve_group(settings, overrides)._asdict())
        for (kind, group_id), overrides in configurations.items()
        if kind == GROUP_RESOURCE
    }
    return replace(of_all, by_group=by_group)


def transaction_settings(settings: Settings) -> TransactionSettings:
    return TransactionSettings(
        timeout_ms_max=settings.transaction_max_timeout_ms,
        timeout_check_interval_ms=(
            settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        id_expiration_ms=settings.transactional_id_expiration_ms,
        expiry_check_interval_ms=(
            settings.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        request_bytes_max=settings.socket_request_max_bytes,
        idle_ms_max=settings.connections_max_idle_ms,
        connections_max=min(settings.max_connections, shares_of(open_file_limit()).connections),
        connections_per_ip_max=settings.max_connections_per_ip,
        connections_per_ip_overrides=connections_by_host(settings.max_connections_per_ip_overrides),
        accept_backlog_max=settings.socket_listen_backlog_size,
        send_buffer_bytes=send_buffer_bytes(settings),
        receive_buffer_bytes=settings.socket_receive_buffer_bytes,
    )


def send_buffer_bytes(settings: Settings) -> int:
    """Leaves the size to the kernel for Kafka's default, which costs 25 % more CPU per byte."""
    size = settings.socket_send_buffer_bytes
    return SYSTEM_DEFAULT if size == KAFKAS_SEND_BUFFER_BYTES else size


def advertised(bound: Address, given: Iterable[Address]) -> Address:
    """The address that clients connect to: `advertised.listeners`, or the bound address."""
    for address in given:
        if address.name == bound.name:
            return Address(bound.name, address.host, address.port or bound.port)
    is_wildcard = bound.host in {"", "0.0.0.0", "::"}  # noqa: S104  # recognised, not bound
    return Address(bound.name, socket.gethostname() if is_wildcard else bound.host, bound.port)


def refuse_other_hosts(settings: Settings) -> str | None:
    """The reason why a node with its own controller does not start: other nodes are configured."""
    if not is_own_controller(settings):
        return None
    if settings.cordoned_log_dirs:
        return (
            "cordoned.log.dirs (--guest): this node is its own controller, no other broker could "
            "get the partitions; --roles broker joins a cluster"
        )
    servers = settings.controller_quorum_bootstrap_servers
    hosts = [server.rpartition(":")[0].strip("[]") for server in servers]
    return None if all(is_this_host(host) for host in hosts) else other_controllers(settings)


def is_this_host(name: str) -> bool:
    """Returns whether a name is an address that can be bound; an empty name is any address."""
    if not name:
        return True
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except (OSError, UnicodeError):
        return False
    return True


def cluster_id_in(path: str) -> str | None:
    """The cluster id in `meta.properties`; None if there is none or it cannot be read."""
    try:
        with open(f"{path}/{META_PROPERTIES_FILE}", "rb") as file:  # noqa: PTH123  # costs a start 3 ms
            return MetaProperties.decode(file.read()).cluster_id
    except (OSError, MalformedCheckpoint):
        return None  # opening the directory reports the error


def text_of(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")
