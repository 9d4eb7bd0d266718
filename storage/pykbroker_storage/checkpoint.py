"""Encodes and decodes Kafka's small text files of log directories and partitions.

Offset checkpoints start with a version and a count of lines; the others have named values.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping, Sequence
from typing import Self, TypeAlias

from pykbroker_protocol.late_dataclass import dataclass

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
FIRST_DIRTY_FILE = "cleaner-offset-checkpoint"
META_PROPERTIES_FILE = "meta.properties"

CHECKPOINT_VERSION = 0
PARTITION_METADATA_VERSION = 0
META_PROPERTIES_VERSION = 1
ID_BYTES = 16

TopicPartition: TypeAlias = tuple[str, int]


class MalformedCheckpoint(ValueError):
    """The text of a checkpoint is malformed; the message names line and error."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encodes an offset checkpoint, with one offset per partition."""
    return encode_lines(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for number, line in decode_lines(data):
        topic, partition, offset = fields_of(line, number, 3)
        key = topic, number_in(partition, number)
        if key in offsets:
            raise MalformedCheckpoint(f"line {number} repeats {topic}-{partition}")
        offsets[key] = number_in(offset, number)
    return offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """The topic id of a partition folder; it differs if a topic is created again."""

    topic_id: bytes

    def encode(self) -> bytes:
        topic_id = _encode_id(self.topic_id)
        return f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {topic_id}".encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        values = _named_values(data, separator=":")
        _require_version(values, PARTITION_METADATA_VERSION)
        return cls(topic_id=_decode_id(values, "topic_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Cluster, node and id of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: bytes

    def encode(self) -> bytes:
        return "".join(
            f"{name}={_escape(value)}\n"
            for name, value in (
                ("version", str(META_PROPERTIES_VERSION)),
                ("cluster.id", self.cluster_id),
                ("node.id", str(self.node_id)),
                ("directory.id", _encode_id(self.directory_id)),
            )
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        values = {
            name: _unescape(value) for name, value in _named_values(data, separator="=").items()
        }
        _require_version(values, META_PROPERTIES_VERSION)
        node_id = _required(values, "node.id")
        if not _is_number(node_id):
            raise MalformedCheckpoint(f"node.id is {node_id!r}, not a number")
        return cls(
            cluster_id=_required(values, "cluster.id"),
            node_id=int(node_id),
            directory_id=_decode_id(values, "directory.id"),
        )


# Checkpoints with a version, a count of entries and one line per entry.


def encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join((str(CHECKPOINT_VERSION), str(len(entries)), *entries, "")).encode()


def decode_lines(data: bytes) -> Sequence[tuple[int, str]]:
    """Returns the entries with their line numbers; raises if their count is wrong."""
    lines = _text_of(data).splitlines()
    if not lines:  # Kafka creates its checkpoints empty
        return []
    if len(lines) < 2:
        raise MalformedCheckpoint("the version or the count of entries is missing")
    version, count = number_in(lines[0], 1), number_in(lines[1], 2)
    if version != CHECKPOINT_VERSION:
        raise MalformedCheckpoint(f"version {version} is unknown")
    entries = list(enumerate(lines))[2:]
    if len(entries) != count:
        raise MalformedCheckpoint(f"expected {count} entries, found {len(entries)}")
    return [(index + 1, line) for index, line in entries]


def fields_of(line: str, line_number: int, count: int) -> list[str]:
    fields = line.split()
    if len(fields) != count:
        raise MalformedCheckpoint(f"line {line_number} has {len(fields)} fields, expected {count}")
    return fields


def number_in(field: str, line_number: int) -> int:
    if not _is_number(field):
        raise MalformedCheckpoint(f"line {line_number}: {field!r} is not a number")
    return int(field)


# Files with named values.


def _named_values(data: bytes, *, separator: str) -> dict[str, str]:
    values = {}
    for number, line in enumerate(_text_of(data).splitlines(), 1):
        if not line.strip() or line.startswith(("#", "!")):
            continue
        name, found, value = line.partition(separator)
        if not found:
            raise MalformedCheckpoint(f"line {number} does not contain {separator!r}")
        values[name.strip()] = value.strip()
    return values


def _required(values: Mapping[str, str], name: str) -> str:
    value = values.get(name)
    if not value:
        raise MalformedCheckpoint(f"{name} is missing")
    return value


def _require_version(values: Mapping[str, str], version: int) -> None:
    found = _required(values, "version")
    if found != str(version):
        raise MalformedCheckpoint(f"version {found} is unknown")


def _encode_id(identifier: bytes) -> str:
    """Encodes 16 bytes as Kafka does: URL-safe base64 without padding."""
    assert len(identifier) == ID_BYTES, f"an id of {len(identifier)} bytes"
    return urlsafe_b64encode(identifier).rstrip(b"=").decode()


def _decode_id(values: Mapping[str, str], name: str) -> bytes:
    text = _required(values, name)
    try:
        identifier = urlsafe_b64decode(f"{text}==")
    except (NotBase64, ValueError):
        identifier = b""
    if len(identifier) != ID_BYTES:
        raise MalformedCheckpoint(f"{name} {text!r} is not a base64 id of {ID_BYTES} bytes")
    return identifier


def _escape(value: str) -> str:
    """Escapes separators with a backslash, like Java's properties writer."""
    return "".join(f"\\{letter}" if letter in "\\:=#!" else letter for letter in value)


def _unescape(value: str) -> str:
    letters = iter(value)
    return "".join(next(letters, "") if letter == "\\" else letter for letter in letters)


def _is_number(field: str) -> bool:
    digits = field.removeprefix("-")
    return digits.isascii() and digits.isdigit()


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"byte {error.start} is not valid UTF-8") from None
