"""Encoding of coordinator records: type and key, version and value."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from pykbroker_protocol.compiler import MalformedMessage, decode, encode

if TYPE_CHECKING:
    from types import ModuleType

    from pykbroker.coordination.outcome import Write
    from pykbroker_protocol.message import Message

_NUMBER = struct.Struct(">h")
KEY_VERSION = 0


class RecordType(NamedTuple):
    key: type[Message]
    value: type[Message]


def record_types(*modules: ModuleType) -> dict[int, RecordType]:
    """Returns the pairs of `SomethingKey` and `SomethingValue` in these modules by record type."""
    return {
        key.record_type: RecordType(key, getattr(module, f"{name.removesuffix('Key')}Value"))
        for module in modules
        for name, key in vars(module).items()
        if name.endswith("Key")
    }


def encode_key(key: Message) -> bytes:
    return encode(key, KEY_VERSION, prefix=_NUMBER.pack(key.record_type))


def encode_write(write: Write) -> tuple[bytes, bytes | None]:
    if write.value is None:
        return encode_key(write.key), None
    version = write.value_version
    return encode_key(write.key), encode(write.value, version, prefix=_NUMBER.pack(version))


class UnknownRecord(Exception):
    """Raised for a record of an unknown type or version."""


def decode_record(
    types: dict[int, RecordType], key: bytes, value: bytes | None
) -> tuple[Message, Message | None]:
    """Returns key and value of a record; the value of a tombstone is None."""
    try:
        (number,) = _NUMBER.unpack_from(key)
        if number not in types:
            raise UnknownRecord(f"record type {number}")
        found = types[number]
        key_message = decode(found.key, KEY_VERSION, key, _NUMBER.size)
        if value is None:
            return key_message, None
        (version,) = _NUMBER.unpack_from(value)
        if version not in found.value.versions:
            raise UnknownRecord(f"{found.value.__name__} version {version}")
        return key_message, decode(found.value, version, value, _NUMBER.size)
    except (struct.error, MalformedMessage) as error:
        raise UnknownRecord(str(error)) from error
