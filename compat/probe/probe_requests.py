"""Generates requests from message declarations: a typical one, then boundary values per field."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker_protocol.message import BOOLEAN, BYTES, FLOAT64, RECORDS, STRING, UUID, Message
from pykbroker_protocol.records.builder import BatchBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker_protocol.message import Field, Kind

SKIPPED = {
    "UNREGISTER_BROKER": "would stop a cluster of one broker",
    "UPDATE_FEATURES": "cannot be reverted",
    "ADD_RAFT_VOTER": "would break a quorum of one voter",
    "REMOVE_RAFT_VOTER": "would break a quorum of one voter",
    "PUSH_TELEMETRY": "unrelated to broker behaviour",
    "GET_TELEMETRY_SUBSCRIPTIONS": "unrelated to broker behaviour",
}
"""APIs that are not compared, with the reason."""

NUMBERS: dict[str, int] = {
    "acks": -1,
    "timeout_ms": 1_000,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "replica_id": -1,
    "timestamp": -1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "resource_type": 2,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "transaction_timeout_ms": 10_000,
    "current_leader_epoch": -1,
    "leader_epoch": 0,
    "session_epoch": -1,
    "last_fetched_epoch": -1,
    "log_start_offset": -1,
    "count": 2,
    "response_partition_limit": 100,
    "retention_time_ms": -1,
    "endpoint_type": 1,
    "operation": 3,
    "permission_type": 3,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "resource_type_filter": 2,
}
"""Field values that differ from the declared defaults."""

MESSAGE_VALUES: dict[tuple[str, str], Any] = {
    ("WritableTxnMarker", "producer_id"): 1_000,
    ("WritableTxnMarker", "producer_epoch"): 0,
    ("MetadataRequestTopic", "topic_id"): bytes(16),
}
"""Field values for single messages, by message and field."""

CREATING = {"CreateTopicsRequest"}
"""Requests that name a topic that does not exist yet."""
JOINING = {"JoinGroupRequest", "ConsumerGroupHeartbeatRequest"}
"""Each of these requests uses its own group, because a join waits for existing members."""
TEXTS = {
    "value": "100000",
    "protocol_type": "consumer",
    "protocol_name": "range",
    "client_software_name": "compat",
    "client_software_version": "1",
}
MISSING = "missing"
LONG = "x" * 300
FOREIGN_ID = bytes(range(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTargets:
    """Topic and group that typical requests refer to; both clusters use the same names."""

    topic: str
    topic_id: bytes
    group: str
    new_name: str


class ProbeRequest(NamedTuple):
    """A request, with a note on how it differs from the typical one."""

    request: Message
    version: int
    note: str


def probe_requests(
    request: type[Message], version: int, targets: RequestTargets
) -> Iterator[ProbeRequest]:
    """Yields the typical request first, then requests that differ from it in one field."""
    builder = RequestBuilder(version, targets, creates=request.__name__ in CREATING)
    yield ProbeRequest(builder.message(request), version, "")
    for number, (path, value, note) in enumerate(builder.variations(request)):
        if request.__name__ in JOINING:
            other = replace(targets, group=f"{targets.group}-{number}")
            builder = RequestBuilder(version, other, creates=False)
        yield ProbeRequest(builder.message(request, path, value), version, note)


class RequestBuilder:
    """Builds requests of one version with at most one atypical field."""

    def __init__(self, version: int, targets: RequestTargets, *, creates: bool) -> None:
        self.version = version
        self.targets = targets
        self.creates = creates

    def message(
        self, message: type[Message], path: tuple[str, ...] = (), value: Any = None
    ) -> Message:
        values = {
            field.name: self._field(message, field, path, value)
            for field in message.fields
            if self.version in field.versions and self.version not in field.tagged
        }
        return message(**values)

    def _field(
        self, message: type[Message], field: Field, path: tuple[str, ...], value: Any
    ) -> Any:
        if path == (field.name,):
            return value
        below = path[1:] if path[:1] == (field.name,) else ()
        if field.struct is not None:
            one: Any = self.message(field.struct, below, value)
        else:
            one = self._typical(message, field)
        return [one] if field.is_array else one

    def _typical(self, message: type[Message], field: Field) -> Any:
        kind, name = field.kind, field.name
        if (message.__name__, name) in MESSAGE_VALUES:
            return MESSAGE_VALUES[message.__name__, name]
        if kind is STRING:
            return self._text(message.__name__, name)
        if kind is UUID and "topic" in name:
            return self.targets.topic_id
        if kind is UUID and field.is_array:
            return FOREIGN_ID
        if kind is RECORDS:
            return one_batch()
        return NUMBERS.get(name, 0 if field.is_array else field.default)

    def _text(self, message: str, name: str) -> str | None:
        if "config" in message.lower() and name in ("name", "configuration_keys"):
            return "retention.ms"
        if name in ("name", "topic", "topics", "topic_name", "topic_names", "resource_name"):
            return self.targets.new_name if self.creates else self.targets.topic
        if "group" in name or name in ("key", "coordinator_keys"):
            return self.targets.group
        if "transactional" in name:
            return f"{self.targets.group}-transaction"
        return TEXTS.get(name, "")

    def variations(
        self, message: type[Message], above: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], Any, str]]:
        for field in message.fields:
            if self.version not in field.versions or self.version in field.tagged:
                continue
            path = (*above, field.name)
            name = ".".join(path)
            if self.version in field.nullable:
                yield path, None, f"{name}=null"
            if field.is_array:
                yield path, [], f"{name}=[]"
                one = self._field(message, field, (), None)
                yield path, one * 2, f"{name} doubled"
            if field.struct is not None:
                yield from self.variations(field.struct, path)
            else:
                assert field.kind is not None
                for value in boundaries(field.kind, field.name):
                    shown = value if len(str(value)) < 40 else f"{len(value)} characters"
                    if value == MISSING:  # a name that no other request creates
                        value = f"{self.targets.topic}-missing"  # noqa: PLW2901 (see above)
                    yield path, [value] if field.is_array else value, f"{name}={shown!r}"


def boundaries(kind: Kind, name: str) -> list[Any]:
    """Returns boundary values. Large timeouts are omitted, because brokers would wait."""
    if kind in BOUNDARIES:
        return BOUNDARIES[kind]
    if name == "timeout_ms":  # with 1 ms the result would depend on timing
        return [-1, 0]
    if name.endswith("_ms") or name == "min_bytes":
        return [-1, 0, 1]
    bits = 8 * struct.calcsize(kind.letter)
    if kind.letter.isupper():
        return [0, 1, 2**bits - 1]
    return [-(2 ** (bits - 1)), -2, -1, 0, 1, 2, 2 ** (bits - 1) - 1]


def one_batch() -> bytes:
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, b"k", b"v")
    return builder.build()


BOUNDARIES: dict[Kind, list[Any]] = {
    BOOLEAN: [True, False],
    STRING: ["", MISSING, "no spaces", "größe", LONG],
    UUID: [bytes(16), FOREIGN_ID],
    BYTES: [b"", b"\0"],
    RECORDS: [b"", b"\0", one_batch()[:-3], one_batch() * 2],
    FLOAT64: [0.0, -1.0, 1e300],
}
