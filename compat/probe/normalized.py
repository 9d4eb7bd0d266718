"""An answer in plain words, so that those of two clusters can be laid side by side."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import ZERO_UUID, Message
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker_protocol.records.batch import RecordBatch

Normalized = Any
"""Lists, dicts and words."""

IGNORED_FIELDS = {
    "throttle_time_ms": "quotas are a matter of load",
    "error_message": "sentences for people are each broker's own",
    "batch_index_error_message": "sentences for people are each broker's own",
    "documentation": "sentences for people are each broker's own",
    "cluster_id": "clusters have their own",
    "finalized_features_epoch": "an offset in the cluster's own metadata log",
    "log_dir": "each has its directory",
    "total_bytes": "each has its disk",
    "usable_bytes": "each has its disk",
    "member_id": "ids are made up by the broker",
    "leader": "the member id of a group's leader",
    "host": "each has its address",
    "port": "each has its address",
    "api_keys": "what is served, and in which versions, is compared before anything is asked",
    "client_host": "each is reached from somewhere else",
}
_NAME_FIELDS = ("name", "topic", "topic_name", "group_id", "resource_name", "topic_id")
"""By which of its fields an element of a list is known."""
_NUMBER_FIELDS = ("index", "partition", "partition_index", "resource_type")
_NAMED_ELEMENT_FIELDS = {"config_source", "max_version", "max_version_level"}
"""What properties and features have, and nothing else that has a name."""
NEAR_NOW_MS = 24 * 3_600_000
_NAMES = {code.value: code.name for code in ErrorCode}
_NORMALIZED_FIELDS: dict[str, Callable[[Any], Normalized]] = {
    "session_id": lambda number: "a session" if number else 0,
    "producer_id": lambda number: "a producer id" if number >= 0 else number,
}


def normalized(message: Message, ids: dict[bytes, str]) -> Normalized:
    """Every field of an answer that says something about behaviour."""
    return {
        name: _value(name, getattr(message, name), ids)
        for name in message.defaults
        if name not in IGNORED_FIELDS
    }


def differences(
    path: str, left: Normalized, right: Normalized
) -> Iterator[tuple[str, Normalized, Normalized]]:
    """The innermost places at which two answers part; elements of lists are not counted."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for key, value in left.items():
            yield from differences(f"{path}.{key}".lstrip("."), value, right[key])
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            yield from differences(f"{path}[{_element_name(one, other)}]", one, other)
    elif isinstance(left, list) and isinstance(right, list):
        yield path, _missing_in(left, right), _missing_in(right, left)
    elif left != right:
        yield path, left, right


def _missing_in(one: list[Normalized], other: list[Normalized]) -> list[Normalized]:
    """What a list holds that another does not, or holds more often."""
    there = Counter(map(repr, other))
    alone = []
    for it in one:
        if there[repr(it)]:
            there[repr(it)] -= 1
        else:
            alone.append(it)
    return alone


def _element_name(one: Normalized, other: Normalized) -> str:
    """The name of a property or a feature; topics and groups are called as the questions want."""
    if (
        not isinstance(one, dict)
        or not isinstance(other, dict)
        or not one.keys() & _NAMED_ELEMENT_FIELDS
    ):
        return ""
    return str(one["name"]) if one["name"] == other.get("name") else ""


def _value(name: str, value: Any, ids: dict[bytes, str]) -> Normalized:  # noqa: PLR0911 (a table of kinds)
    if isinstance(value, Message):
        return normalized(value, ids)
    if name.endswith("error_code"):
        return _NAMES.get(value, value)
    if name in _NORMALIZED_FIELDS:
        return _NORMALIZED_FIELDS[name](value)
    if name in ("records", "unaligned_records") and value is not None:
        return [_batch(it) for it in _whole_batches(bytes(value))]
    if isinstance(value, (list, tuple)):
        return sorted((_value("", it, ids) for it in value), key=_sort_key)
    if isinstance(value, (bytes, memoryview)):
        return _bytes_text(bytes(value), ids)
    if isinstance(value, int) and abs(value - time.time() * 1_000) < NEAR_NOW_MS:
        return "now"
    return value


def _bytes_text(value: bytes, ids: dict[bytes, str]) -> str:
    if value == ZERO_UUID:
        return "no id"
    return ids.get(value, "an id") if len(value) == len(ZERO_UUID) else value.hex()


def _batch(batch: RecordBatch) -> Normalized:
    try:
        records: Normalized = [(it.offset, it.key, it.value, it.headers) for it in batch.records()]
    except CorruptBatch:
        records = "unreadable"
    return {
        "base_offset": batch.base_offset,
        "attributes": batch.attributes,
        "is_crc_valid": batch.is_crc_valid(),
        "records": records,
    }


def _whole_batches(records: bytes) -> Iterator[RecordBatch]:
    try:
        yield from iterate_batches(records)
    except TruncatedBatch:
        return


def _sort_key(value: Normalized) -> tuple[str, str]:
    """What a list names comes in any order."""
    if not isinstance(value, dict):
        return "", str(value)
    name = next((value[it] for it in _NAME_FIELDS if value.get(it)), "")
    numbers = (value.get(it, 0) for it in _NUMBER_FIELDS)
    return str(name), f"{max(numbers):012}"
