"""Control records of the metadata log and its snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import (
    ZERO_UUID,
    Message,
    array,
    int16,
    int32,
    int64,
    nested,
    string,
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Voter(Message):
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("1+", default=ZERO_UUID)


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    version: int = int16("0+")
    leader_id: int = int32("0+")
    voters: Sequence[Voter] = array(Voter, "0+")
    granting_voters: Sequence[Voter] = array(Voter, "0+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    last_contained_log_timestamp: int = int64("0+")


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    k_raft_version: int = int16("0+")


class Endpoint(Message):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")


class KRaftVersionFeature(Message):
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class VotersRecordVoter(Message):
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")
    endpoints: Sequence[Endpoint] = array(Endpoint, "0+")
    k_raft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature, "0+")


class VotersRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    voters: Sequence[VotersRecordVoter] = array(VotersRecordVoter, "0+")
