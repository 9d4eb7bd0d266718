"""Request frames written by the benchmarks, so that no client library is measured."""

import socket
import struct
import time
from collections.abc import Container
from dataclasses import dataclass

from crc32c import crc32c

_METADATA, _LIST_OFFSETS, _PRODUCE = 3, 2, 0
_LATEST = -1
_CORRELATION_ID = 7
_HEAD_BYTES = 8  # of a response: size and correlation id


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceFrames:
    """A Produce request with one record, and positions of fields in its response."""

    request: bytes
    error_position: int  # in the response including its size prefix
    base_offset_position: int


def produce_frames(topic: str, partition: int, record: bytes) -> ProduceFrames:
    """Builds a Produce request in version 9 with acks=all."""
    name = topic.encode()
    batch = _one_record_batch(record)
    body = b"\x00" + struct.pack(">hi", -1, 30_000)
    body += b"\x02" + _varint(len(name) + 1) + name
    body += b"\x02" + struct.pack(">i", partition) + _varint(len(batch) + 1) + batch + b"\0\0\0"
    before_error = 4 + 4 + 1 + 1 + len(_varint(len(name) + 1)) + len(name) + 1 + 4
    return ProduceFrames(
        request=_frame(_PRODUCE, 9, body, flexible=True),
        error_position=before_error,
        base_offset_position=before_error + 2,
    )


def knows_itself(port: int) -> bool:
    """Returns whether a broker responds to Metadata with at least one broker."""
    return _int32(_ask(port, METADATA_WITHOUT_TOPICS), 0) > 0


def leaders(port: int, topics: Container[str]) -> int:
    """Returns the number of partitions of these topics that have a leader."""
    return count_leaders(_ask(port, METADATA_WITH_TOPICS), topics)


def log_end_offset(port: int, topic: str, partition: int = 0) -> int:
    """Returns the log end offset of a partition; -1 if it is not available yet."""
    request, error_position = list_offsets_frames(topic, partition)
    error, _, offset = struct.unpack_from(">hqq", _ask(port, request), error_position - _HEAD_BYTES)
    return int(offset) if error == 0 else -1


def list_offsets_frames(topic: str, partition: int) -> tuple[bytes, int]:
    """Returns a ListOffsets request for the log end, and the error code position in responses."""
    name = topic.encode()
    body = struct.pack(">iih", -1, 1, len(name)) + name
    body += struct.pack(">iiq", 1, partition, _LATEST)
    error_position = _HEAD_BYTES + 4 + 2 + len(name) + 4 + 4
    return _frame(_LIST_OFFSETS, 1, body, flexible=False), error_position


def receive_frame(connection: socket.socket) -> bytes:
    """Reads a response including its size prefix."""
    head = _receive_exactly(connection, 4)
    return head + _receive_exactly(connection, _int32(head, 0))


def _ask(port: int, request: bytes) -> bytes:
    """Sends a request on a new connection; returns the body of the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        return receive_frame(connection)[_HEAD_BYTES:]


def _frame(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    client_id = b"bench"
    header = struct.pack(">hhih", api_key, version, _CORRELATION_ID, len(client_id)) + client_id
    message = header + (b"\x00" if flexible else b"") + body
    return struct.pack(">i", len(message)) + message


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        received += chunk
    return bytes(received)


def _one_record_batch(value: bytes) -> bytes:
    record = b"\x00\x00\x00" + _zigzag(-1) + _zigzag(len(value)) + value + b"\x00"
    record = _zigzag(len(record)) + record
    now_ms = time.time_ns() // 1_000_000
    # attributes, last offset delta, two timestamps, producer id, its epoch, sequence, count
    covered = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + record
    tail = struct.pack(">ibI", -1, 2, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(tail)) + tail


def count_leaders(answer: bytes, counted: Container[str]) -> int:
    brokers, position = _int32(answer, 0), 4
    for _ in range(brokers):
        position = _after_string(answer, position + 4) + 4  # node id, host, port
        position = _after_string(answer, position)  # rack
    position += 4  # controller id
    topics, position = _int32(answer, position), position + 4
    found = 0
    for _ in range(topics):
        name, position = position + 4, _after_string(answer, position + 2)  # after the error
        is_counted = answer[name:position].decode() in counted
        position += 1  # is internal
        partitions, position = _int32(answer, position), position + 4
        for _ in range(partitions):
            has_leader = _int32(answer, position + 6) >= 0  # after error and index
            found += is_counted and has_leader
            position = _after_int32s(answer, _after_int32s(answer, position + 10))
    return found


def _int32(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "big", signed=True)


def _after_string(data: bytes, position: int) -> int:
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    return position + 2 + max(length, 0)


def _after_int32s(data: bytes, position: int) -> int:
    return position + 4 + 4 * _int32(data, position)


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# Metadata version 1 says "all topics" with a null array, "none" with an empty one.
METADATA_WITH_TOPICS = _frame(_METADATA, 1, struct.pack(">i", -1), flexible=False)
METADATA_WITHOUT_TOPICS = _frame(_METADATA, 1, struct.pack(">i", 0), flexible=False)
