"""Asks one broker whether it serves, and whether all that it holds is led: for whoever restarts it.

It runs every few seconds beside the broker, so it loads no event loop: one connection and two
questions.
"""

from __future__ import annotations

import argparse
import socket
from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker.address import Address
from pykbroker.cli.command_line.values import address
from pykbroker.cli.failure import CommandFailed, Refused
from pykbroker.cli.refusals import error_of
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
ANSWER_BYTES_MAX: Final = 128 * 1024 * 1024
SHOWN_MAX: Final = 5

Answer = TypeVar("Answer", bound="Message")


def check(options: Namespace) -> None:
    """One line that says who serves what, or the failure that says what does not."""
    asked = address_of(options.bootstrap)
    try:
        with socket.create_connection(asked, timeout=options.timeout_s) as connection:
            metadata = metadata_of(connection)
    except ConnectionRefusedError:
        raise CommandFailed(f"nobody listens at {asked}") from None
    except TimeoutError:
        raise CommandFailed(f"{asked} did not answer in {options.timeout_s:g} s") from None
    except (OSError, MalformedMessage, UnsupportedField) as reason:
        raise CommandFailed(f"{asked}: {reason}") from None
    print(verdict(metadata, node_in(metadata, asked, options.node_id)))


def address_of(text: str) -> Address:
    """The first of several: it is one broker whose health is asked for."""
    try:
        return address(text.partition(",")[0].strip())
    except argparse.ArgumentTypeError as reason:
        raise CommandFailed(f"--bootstrap: {reason}") from None


def metadata_of(connection: socket.socket) -> MetadataResponse:
    offers = ask(connection, ApiVersionsRequest(), ApiVersionsResponse, 0)
    refuse_if(offers.error_code)
    theirs = {it.api_key: it.max_version for it in offers.api_keys}
    version = min(theirs.get(MetadataRequest.api, 0), MetadataRequest.versions.last)
    request = MetadataRequest(topics=None if version else [], allow_auto_topic_creation=False)
    metadata = ask(connection, request, MetadataResponse, version)
    refuse_if(metadata.error_code)
    return metadata


def refuse_if(code: int) -> None:
    if code:
        raise Refused(error_of(code))


def ask(connection: socket.socket, request: Message, answer: type[Answer], version: int) -> Answer:
    frame = b"".join(write_request(request, version, 0, CLIENT_ID))
    connection.sendall(len(frame).to_bytes(4, "big") + frame)
    size = int.from_bytes(read_exactly(connection, 4), "big")
    if size > ANSWER_BYTES_MAX:
        raise MalformedMessage(f"an answer of {size} bytes: this is no broker")
    found = memoryview(read_exactly(connection, size))
    _, position = read_response_header(found, answer, version)
    return decode(answer, version, found, position)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = connection.recv(min(size - len(found), 1 << 20))
        if not more:
            raise ConnectionResetError("the connection was closed before the answer came")
        found += more
    return bytes(found)


def node_in(metadata: MetadataResponse, asked: Address, given: int | None) -> int | None:
    """Which broker was asked: the one told, the only one, or the one that is found there."""
    nodes = {it.node_id: Address(it.host, it.port) for it in metadata.brokers}
    if given is not None:
        if given not in nodes:
            raise CommandFailed(f"node {given} is not among the brokers of the cluster")
        return given
    if len(nodes) == 1:
        return next(iter(nodes))
    return next((node for node, at in nodes.items() if at == asked), None)


def verdict(metadata: MetadataResponse, node_id: int | None) -> str:
    """Raises CommandFailed with what is not led; of all brokers, if nobody knows who was asked."""
    if not metadata.brokers:
        raise CommandFailed("the cluster has no broker that serves")
    held = list(partitions_of(metadata, node_id))
    whose = "all nodes" if node_id is None else f"node {node_id}"
    leaderless = [name for name, is_led in held if not is_led]
    if leaderless:
        shown = ", ".join(leaderless[:SHOWN_MAX]) + (", …" if leaderless[SHOWN_MAX:] else "")
        raise CommandFailed(
            f"{len(leaderless)} of {len(held)} partitions of {whose} have no leader: {shown}"
        )
    return f"healthy: {whose} of cluster {metadata.cluster_id}, {len(held)} partitions, all led"


def partitions_of(metadata: MetadataResponse, node_id: int | None) -> Iterator[tuple[str, bool]]:
    """Those with a replica on the node, and whether somebody leads them."""
    for topic in metadata.topics:
        for it in topic.partitions:
            if node_id is None or node_id in it.replica_nodes:
                is_led = it.leader_id >= 0 and it.error_code != ErrorCode.LEADER_NOT_AVAILABLE
                yield f"{topic.name}-{it.partition_index}", is_led
