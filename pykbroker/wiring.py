"""What each part of a broker needs of its settings and surroundings, made from the broker's."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker.settings import Listener as Address
from pykbroker.settings import connections_by_host
from pykbroker.transport.limits import ConnectionLimits
from pykbroker_storage.checkpoint import META_PROPERTIES_FILE, MalformedCheckpoint, MetaProperties

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.settings import Settings


def group_settings(settings: Settings) -> GroupSettings:
    return GroupSettings(
        session_timeout_ms_min=settings.group_min_session_timeout_ms,
        session_timeout_ms_max=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        members_max=settings.group_max_size,
        offset_metadata_length_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )


def consumer_group_settings(settings: Settings) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        session_timeout_ms=settings.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        members_max=settings.group_consumer_max_size,
        classic_members_max=settings.group_max_size,
        assignors=settings.group_consumer_assignors,
        assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        request_bytes_max=settings.socket_request_max_bytes,
        idle_ms_max=settings.connections_max_idle_ms,
        connections_max=settings.max_connections,
        connections_per_ip_max=settings.max_connections_per_ip,
        connections_per_ip_overrides=connections_by_host(settings.max_connections_per_ip_overrides),
        accept_backlog_max=settings.socket_listen_backlog_size,
        send_buffer_bytes=settings.socket_send_buffer_bytes,
        receive_buffer_bytes=settings.socket_receive_buffer_bytes,
    )


def advertised(bound: Address, given: Iterable[Address]) -> Address:
    """What clients are told of a bound listener: what was given, else where it is bound."""
    for address in given:
        if address.name == bound.name:
            return Address(bound.name, address.host, address.port or bound.port)
    is_wildcard = bound.host in {"", "0.0.0.0", "::"}  # noqa: S104  # recognised, not bound
    return Address(bound.name, socket.gethostname() if is_wildcard else bound.host, bound.port)


def cluster_id_in(path: str) -> str | None:
    """The cluster that a directory belongs to already."""
    try:
        return MetaProperties.decode(Path(path, META_PROPERTIES_FILE).read_bytes()).cluster_id
    except (OSError, MalformedCheckpoint):
        return None  # opening the directory says what is wrong with it


def text_of(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")
