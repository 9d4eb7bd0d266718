"""The command `health`: checks one broker with an ApiVersions and a Metadata request.

Container runtimes run it every few seconds, so it imports no event loop.
"""

from __future__ import annotations

import argparse
import socket
from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker.address import Address
from pykbroker.cli.command_line.values import address
from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.cli.output import counted
from pykbroker.client.errors import ApiError, error_of
from pykbroker_protocol.compiler import MalformedMessage, UnsupportedField, decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_response_header, write_request
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from pykbroker_protocol.message import Message

CLIENT_ID: Final = "pykbroker-health"
RESPONSE_BYTES_MAX: Final = 128 * 1024 * 1024
SHOWN_MAX: Final = 5

Response = TypeVar("Response", bound="Message")


def check(options: Namespace) -> None:
    """Prints one line if the broker is healthy, raises CommandFailed with the reason if not."""
    broker = broker_address(options.bootstrap)
    try:
        with socket.create_connection(broker, timeout=options.timeout_seconds) as connection:
            metadata = metadata_of(connection)
    except ConnectionRefusedError:
        raise CommandFailed(f"cannot connect to {broker}: connection refused") from None
    except TimeoutError:
        raise CommandFailed(f"{broker} did not respond in {options.timeout_seconds:g} s") from None
    except (OSError, MalformedMessage, UnsupportedField) as reason:
        raise CommandFailed(f"{broker}: {reason}") from None
    print(health_line(metadata, find_node(metadata, broker, options.node_id)))


def broker_address(text: str) -> Address:
    """Returns the first of several addresses: the check is about one broker."""
    try:
        return address(text.partition(",")[0].strip())
    except argparse.ArgumentTypeError as reason:
        raise CannotBegin(f"--bootstrap: {reason}") from None


def metadata_of(connection: socket.socket) -> MetadataResponse:
    supported = call(connection, ApiVersionsRequest(), ApiVersionsResponse, 0)
    raise_if_error(supported.error_code)
    max_versions = {it.api_key: it.max_version for it in supported.api_keys}
    version = min(max_versions.get(MetadataRequest.api, 0), MetadataRequest.versions.last)
    request = MetadataRequest(topics=None if version else [], allow_auto_topic_creation=False)
    metadata = call(connection, request, MetadataResponse, version)
    raise_if_error(metadata.error_code)
    return metadata


def raise_if_error(code: int) -> None:
    if code:
        raise CommandFailed(str(ApiError(error_of(code))))


def call(
    connection: socket.socket, request: Message, response: type[Response], version: int
) -> Response:
    frame = b"".join(write_request(request, version, 0, CLIENT_ID))
    connection.sendall(len(frame).to_bytes(4, "big") + frame)
    size = int.from_bytes(read_exactly(connection, 4), "big")
    if size > RESPONSE_BYTES_MAX:
        raise MalformedMessage(
            f"response of {size} bytes exceeds the limit of {RESPONSE_BYTES_MAX}"
        )
    body = memoryview(read_exactly(connection, size))
    _, position = read_response_header(body, response, version)
    return decode(response, version, body, position)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = connection.recv(min(size - len(found), 1 << 20))
        if not more:
            raise ConnectionResetError("connection closed before the response")
        found += more
    return bytes(found)


def find_node(metadata: MetadataResponse, broker: Address, given: int | None) -> int | None:
    """Returns the given node id, that of the only broker, or that of the advertised address."""
    nodes = {it.node_id: Address(it.host, it.port) for it in metadata.brokers}
    if given is not None:
        if given not in nodes:
            raise CommandFailed(f"node {given} is not in the cluster")
        return given
    if len(nodes) == 1:
        return next(iter(nodes))
    return next((node for node, advertised in nodes.items() if advertised == broker), None)


def health_line(metadata: MetadataResponse, node_id: int | None) -> str:
    """Raises CommandFailed if partitions have no leader. Checks all nodes if `node_id` is None."""
    if not metadata.brokers:
        raise CommandFailed("the cluster has no live broker")
    has_leader = dict(leader_states(metadata, node_id))
    nodes = "all nodes" if node_id is None else f"node {node_id}"
    leaderless = [name for name, is_led in has_leader.items() if not is_led]
    if leaderless:
        shown = ", ".join(leaderless[:SHOWN_MAX]) + (", …" if leaderless[SHOWN_MAX:] else "")
        raise CommandFailed(
            f"partitions of {nodes} without a leader: "
            f"{len(leaderless)} of {len(has_leader)} ({shown})"
        )
    partitions = f"{counted(len(has_leader), 'partition')}, 0 without a leader"
    return f"healthy: {nodes} of cluster {metadata.cluster_id}, {partitions}"


def leader_states(metadata: MetadataResponse, node_id: int | None) -> Iterator[tuple[str, bool]]:
    """Yields partitions with a replica on the node, and whether they have a leader."""
    for topic in metadata.topics:
        for it in topic.partitions:
            if node_id is None or node_id in it.replica_nodes:
                is_led = it.leader_id >= 0 and it.error_code != ErrorCode.LEADER_NOT_AVAILABLE
                yield f"{topic.name}-{it.partition_index}", is_led
