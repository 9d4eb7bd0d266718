"""Encodes and decodes records of the metadata log: three small numbers, then the message.

frame version  uvarint, always 1
record type    uvarint
version        uvarint
the message in that version
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from typing import TYPE_CHECKING

from pykbroker.metadata.features import METADATA_VERSION_LEVEL
from pykbroker_protocol.compiler import encode, reader_of
from pykbroker_protocol.message import Message
from pykbroker_protocol.metadata import cluster, security, topics
from pykbroker_protocol.varint import read_uvarint, uvarint

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FRAME_VERSION = 1

RECORD_TYPES: dict[int, type[Message]] = {
    message.record_type: message
    for module in (cluster, security, topics)
    for message in vars(module).values()
    if isinstance(message, type) and issubclass(message, Message) and message.record_type >= 0
}


class MalformedRecord(Exception):
    """A value in the metadata log is not a valid record; the message gives the reason."""


_VERSION_LEVELS: dict[type[Message], tuple[int, ...]] = {
    cluster.RegisterBrokerRecord: (7, 8, 17, 30),
    cluster.BrokerRegistrationChangeRecord: (7, 17, 30),
    topics.PartitionRecord: (17, 23),
    topics.PartitionChangeRecord: (17, 23),
}
"""The levels of metadata.version from which records have version 1, 2 and so on."""


@functools.cache
def record_version(message: type[Message], metadata_version: int) -> int:
    """Returns the version in which Apache Kafka of this metadata.version reads a record."""
    return bisect_right(_VERSION_LEVELS.get(message, ()), metadata_version)


def encode_record(record: Message, metadata_version: int = METADATA_VERSION_LEVEL) -> bytes:
    """Returns the value of a record in the version for the finalized metadata.version."""
    version = record_version(type(record), metadata_version)
    return _frame(record.record_type, version) + encode(record, version)


def decode_record(value: bytes) -> Message:
    try:
        frame_version, position = read_uvarint(value, 0)
        record_type, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise MalformedRecord(f"a value of {len(value)} bytes has no type and version") from None
    if frame_version != FRAME_VERSION:
        raise MalformedRecord(f"record frame version {frame_version} is not supported")
    record: Message = _reader(record_type, version)(value, position)[0]
    return record


@functools.cache
def _frame(record_type: int, version: int) -> bytes:
    return uvarint(FRAME_VERSION) + uvarint(record_type) + uvarint(version)


@functools.cache
def _reader(record_type: int, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    message = RECORD_TYPES.get(record_type)
    if message is None:
        raise MalformedRecord(f"record type {record_type} is not supported")
    if version not in message.versions:
        raise MalformedRecord(f"{message.__name__} version {version} is not supported")
    return reader_of(message, version)
