"""Metadata records about ACLs, client quotas, SCRAM credentials and delegation tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import (
    STRING,
    Message,
    array,
    boolean,
    float64,
    int8,
    int32,
    int64,
    octets,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class AccessControlEntryRecord(Message, record_type=18, versions="0", flexible="0+"):
    id: bytes = uuid("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("0+")
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class RemoveAccessControlEntryRecord(Message, record_type=19, versions="0", flexible="0+"):
    id: bytes = uuid("0+")


class EntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ClientQuotaRecord(Message, record_type=14, versions="0", flexible="0+"):
    entity: Sequence[EntityData] = array(EntityData, "0+")
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class UserScramCredentialRecord(Message, record_type=11, versions="0", flexible="0+"):
    name: str = string("0+")
    mechanism: int = int8("0+")
    salt: bytes = octets("0+")
    stored_key: bytes = octets("0+")
    server_key: bytes = octets("0+")
    iterations: int = int32("0+")


class RemoveUserScramCredentialRecord(Message, record_type=22, versions="0", flexible="0+"):
    name: str = string("0+")
    mechanism: int = int8("0+")


class DelegationTokenRecord(Message, record_type=10, versions="0", flexible="0+"):
    owner: str = string("0+")
    requester: str = string("0+")
    renewers: Sequence[str] = array(STRING, "0+")
    issue_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    expiration_timestamp: int = int64("0+")
    token_id: str = string("0+")


class RemoveDelegationTokenRecord(Message, record_type=26, versions="0", flexible="0+"):
    token_id: str = string("0+")
