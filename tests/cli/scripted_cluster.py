"""Brokers on loopback that describe a scripted cluster: fenced, silent and lagging members."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from pykbroker.address import Address
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import body_position, read_request_header, write_response
from pykbroker_protocol.messages import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    list_offsets,
    metadata,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pykbroker_protocol.message import Message

LEADER_TIME_MS = 1_795_118_278_950
CONTROLLER = 100
REQUESTS: dict[int, type[Message]] = {
    ApiKey.API_VERSIONS: api_versions.ApiVersionsRequest,
    ApiKey.METADATA: metadata.MetadataRequest,
    ApiKey.LIST_OFFSETS: list_offsets.ListOffsetsRequest,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.DescribeConfigsRequest,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.DescribeLogDirsRequest,
    ApiKey.DESCRIBE_QUORUM: describe_quorum.DescribeQuorumRequest,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.DescribeClusterRequest,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.DescribeTopicPartitionsRequest,
}


@dataclass(kw_only=True)
class Member:
    """A broker. A silent one accepts connections and never responds."""

    rack: str | None = None
    is_fenced: bool = False
    is_silent: bool = False
    is_cordoned: bool = False
    fetch_age_ms: int | None = 100
    address: Address = field(default_factory=lambda: Address("127.0.0.1", 1))


@dataclass(kw_only=True)
class Replicas:
    """A partition with its replicas; `ends` has the log end offsets by broker."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    ends: Mapping[int, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class ScriptedCluster:
    members: dict[int, Member]
    topics: dict[str, list[Replicas]] = field(default_factory=dict)
    min_in_sync: int = 1
    page_max: int = 2000
    versions: dict[ApiKey, int | None] = field(default_factory=dict)
    """The last version of an API, if it is not the newest; None if the API is not offered."""
    silent_apis: frozenset[ApiKey] = frozenset()
    is_cursor_stuck: bool = False
    requests: list[tuple[int, ApiKey]] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        async with AsyncExitStack() as stack:
            for node_id, member in self.members.items():
                server = await asyncio.start_server(
                    partial(self._serve, node_id), "127.0.0.1", 0, family=socket.AF_INET
                )
                stack.callback(server.close)
                member.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
            yield self

    async def _serve(
        self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(size))
                header = read_request_header(frame)
                api = ApiKey(header.api_key)
                self.requests.append((node_id, api))
                if self.members[node_id].is_silent or api in self.silent_apis:
                    continue
                message = REQUESTS[api]
                position = body_position(header, frame, message)
                request = decode(message, header.api_version, frame, position)
                response = self._response(api, request, node_id)
                sent = b"".join(write_response(response, header.api_version, header.correlation_id))
                writer.write(len(sent).to_bytes(4, "big") + sent)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _response(self, api: ApiKey, request: Any, node_id: int) -> Message:  # noqa: PLR0911  # one per API
        match api:
            case ApiKey.API_VERSIONS:
                return self._api_versions()
            case ApiKey.METADATA:
                return self._metadata()
            case ApiKey.DESCRIBE_CLUSTER:
                return self._cluster(include_fenced=request.include_fenced_brokers)
            case ApiKey.DESCRIBE_QUORUM:
                return self._quorum()
            case ApiKey.DESCRIBE_LOG_DIRS:
                return self._log_dirs(node_id)
            case ApiKey.DESCRIBE_CONFIGS:
                return self._configs(request)
            case ApiKey.LIST_OFFSETS:
                return self._log_ends(request, node_id)
            case _:
                return self._partitions(request)

    def _api_versions(self) -> Message:
        offered = []
        for api, message in REQUESTS.items():
            last = self.versions.get(ApiKey(api), message.versions.last)
            if last is not None:
                offered.append(
                    api_versions.ApiVersion(
                        api_key=api, min_version=message.versions.first, max_version=last
                    )
                )
        feature = api_versions.FinalizedFeatureKey(
            name="metadata.version", min_version_level=1, max_version_level=30
        )
        return api_versions.ApiVersionsResponse(
            error_code=0, api_keys=offered, finalized_features=[feature]
        )

    def _cluster(self, *, include_fenced: bool) -> Message:
        return describe_cluster.DescribeClusterResponse(
            error_code=0,
            cluster_id="C",
            controller_id=1,
            brokers=[
                describe_cluster.DescribeClusterBroker(
                    broker_id=node_id,
                    host=it.address.host,
                    port=it.address.port,
                    rack=it.rack,
                    is_fenced=it.is_fenced,
                )
                for node_id, it in self.members.items()
                if include_fenced or not it.is_fenced
            ],
        )

    def _quorum(self) -> Message:
        leader = describe_quorum.ReplicaState(
            replica_id=CONTROLLER,
            log_end_offset=1000,
            last_fetch_timestamp=LEADER_TIME_MS,
            last_caught_up_timestamp=LEADER_TIME_MS,
        )
        observers = [
            describe_quorum.ReplicaState(
                replica_id=node_id,
                log_end_offset=990,
                last_fetch_timestamp=LEADER_TIME_MS - it.fetch_age_ms,
                last_caught_up_timestamp=LEADER_TIME_MS - it.fetch_age_ms,
            )
            for node_id, it in self.members.items()
            if it.fetch_age_ms is not None
        ]
        partition = describe_quorum.DescribeQuorumPartitionData(
            partition_index=0,
            error_code=0,
            leader_id=CONTROLLER,
            leader_epoch=7,
            high_watermark=999,
            current_voters=[leader],
            observers=observers,
        )
        topic = describe_quorum.DescribeQuorumTopicData(
            topic_name="__cluster_metadata", partitions=[partition]
        )
        return describe_quorum.DescribeQuorumResponse(error_code=0, topics=[topic])

    def _log_dirs(self, node_id: int) -> Message:
        directory = describe_log_dirs.DescribeLogDirsResult(
            error_code=0,
            log_dir="/data",
            topics=[],
            total_bytes=1000,
            usable_bytes=500,
            is_cordoned=self.members[node_id].is_cordoned,
        )
        return describe_log_dirs.DescribeLogDirsResponse(results=[directory])

    def _configs(self, request: describe_configs.DescribeConfigsRequest) -> Message:
        return describe_configs.DescribeConfigsResponse(
            results=[
                describe_configs.DescribeConfigsResult(
                    error_code=0,
                    error_message=None,
                    resource_type=it.resource_type,
                    resource_name=it.resource_name,
                    configs=[
                        describe_configs.DescribeConfigsResourceResult(
                            name="min.insync.replicas",
                            value=str(self.min_in_sync),
                            read_only=False,
                            is_sensitive=False,
                            synonyms=(),
                        )
                    ],
                )
                for it in request.resources
            ]
        )

    def _log_ends(self, request: list_offsets.ListOffsetsRequest, node_id: int) -> Message:
        assert request.replica_id == -2, "only replicas out of sync have a lag"
        return list_offsets.ListOffsetsResponse(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=it.partition_index,
                            error_code=0,
                            offset=self.topics[topic.name][it.partition_index].ends[node_id],
                        )
                        for it in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _partitions(
        self, request: describe_topic_partitions.DescribeTopicPartitionsRequest
    ) -> Message:
        names = [it.name for it in request.topics] or sorted(self.topics)
        rows = [(name, index) for name in names for index in range(len(self.topics[name]))]
        cursor = request.cursor
        if cursor is not None:
            rows = [it for it in rows if it >= (cursor.topic_name, cursor.partition_index)]
        page = rows[: min(self.page_max, request.response_partition_limit)]
        following = rows[len(page)] if len(rows) > len(page) else None
        if self.is_cursor_stuck:
            following = rows[0]
        return describe_topic_partitions.DescribeTopicPartitionsResponse(
            topics=[
                describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                    error_code=0,
                    name=name,
                    topic_id=bytes(16),
                    partitions=[self._partition(*it) for it in page if it[0] == name],
                )
                for name in dict.fromkeys(name for name, _ in page)
            ],
            next_cursor=None
            if following is None
            else describe_topic_partitions.Cursor(
                topic_name=following[0], partition_index=following[1]
            ),
        )

    def _partition(
        self, topic: str, index: int
    ) -> describe_topic_partitions.DescribeTopicPartitionsResponsePartition:
        found = self.topics[topic][index]
        return describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=found.leader,
            leader_epoch=3,
            replica_nodes=found.replicas,
            isr_nodes=found.in_sync,
            eligible_leader_replicas=found.eligible,
            last_known_elr=(),
            offline_replicas=found.offline,
        )

    def _metadata(self) -> Message:
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(
                    node_id=node_id, host=it.address.host, port=it.address.port
                )
                for node_id, it in self.members.items()
            ],
            topics=[
                metadata.MetadataResponseTopic(
                    error_code=0,
                    name=name,
                    partitions=[
                        metadata.MetadataResponsePartition(
                            error_code=ErrorCode.NONE
                            if it.leader >= 0
                            else ErrorCode.LEADER_NOT_AVAILABLE,
                            partition_index=index,
                            leader_id=it.leader,
                            replica_nodes=it.replicas,
                            isr_nodes=it.in_sync,
                        )
                        for index, it in enumerate(partitions)
                    ],
                )
                for name, partitions in self.topics.items()
            ],
        )
