"""Metadata and Describe requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.api_versions import ApiVersionsRequest
from pykbroker_protocol.messages.describe_cluster import DescribeClusterRequest
from pykbroker_protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pykbroker_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.apis.conversations.catalog import conversation
from tests.apis.conversations.fetching import filled

if TYPE_CHECKING:
    from tests.apis.transcript import Plain, Transcript

NO_SUCH_ID = bytes(range(1, 17))


def about(*names: str, **more: Any) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(**{"topics": topics, "allow_auto_topic_creation": False, **more})


def own_topics(broker: Transcript, answer: Plain) -> Plain:
    """Apache Kafka also has topics of other tests."""
    prefix = broker.prefix
    answer["topics"] = [it for it in answer["topics"] if (it["name"] or "").startswith(prefix)]
    return answer


@conversation
def metadata_of_topics_by_name(broker: Transcript) -> None:
    one, other = broker.topic("one", partitions=3), broker.topic("other")
    for version in range(14):
        creates = version < 4  # older versions always allow topic creation
        broker.ask(about(one.name, other.name, allow_auto_topic_creation=creates), version)
        broker.ask(about(other.name, other.name, allow_auto_topic_creation=creates), version)


@conversation
def metadata_of_all_topics_or_none(broker: Transcript) -> None:
    broker.topic("one", partitions=2)
    for version in range(14):
        creates = version < 4
        for note, topics in (("all", None), ("empty", ())):
            if topics is None and version == 0:
                continue
            request = about(topics=topics, allow_auto_topic_creation=creates)
            answer = broker.plain(broker.quietly(request, version))
            broker.note(f"Metadata v{version} {note}", own_topics(broker, answer))


@conversation
def metadata_of_unknown_topics(broker: Transcript) -> None:
    for version in (4, 8, 9, 12, 13):
        broker.ask(about("no-such-topic"), version)
        for name in ("", ".", "a b", "x" * 250):
            broker.ask(about(name), version, note=repr(name[:5]))


@conversation
def metadata_of_topics_by_id(broker: Transcript) -> None:
    topic = broker.topic()
    for version in (10, 11, 12, 13):
        for note, request in {
            "by id": MetadataRequestTopic(name=None, topic_id=topic.id),
            "unknown id": MetadataRequestTopic(name=None, topic_id=NO_SUCH_ID),
            "by both": MetadataRequestTopic(name=topic.name, topic_id=topic.id),
            "by name": MetadataRequestTopic(name=topic.name),
        }.items():
            broker.ask(about(topics=[request]), version, note=note)


@conversation
def metadata_with_operations(broker: Transcript) -> None:
    topic = broker.topic()
    for version in (8, 10, 11, 13):
        request = about(topic.name, include_topic_authorized_operations=True)
        if version <= 10:
            request = request.replace(include_cluster_authorized_operations=True)
        broker.ask(request, version)


@conversation
def metadata_requests_create_topics(broker: Transcript) -> None:
    for version in (3, 4, 9, 13):
        name = f"{broker.prefix}-{version}"
        with broker.known_difference("Automatic topic creation completes before the response"):
            broker.ask(about(name, allow_auto_topic_creation=True), version, note="not there")
        topic = broker.until_ready(name)
        broker.ask(about(topic.name), max(version, 4), note="there")
    for name in ("a b", "", "x" * 250):
        broker.ask(about(name, allow_auto_topic_creation=True), 9, note=repr(name[:9]))


@conversation
def partitions_are_described_in_pages(broker: Transcript) -> None:
    one = broker.topic("one", partitions=3)
    two = broker.topic("two", partitions=2)
    names = [TopicRequest(name=it) for it in (two.name, one.name)]
    whole = DescribeTopicPartitionsRequest(topics=names)
    broker.ask(whole, 0)
    for limit in (1, 2, 3, 4, 5, 6, 0, -1):
        page = broker.ask(whole.replace(response_partition_limit=limit), 0, note=f"limit {limit}")
        if page is not None and page.next_cursor is not None:
            cursor = Cursor(
                topic_name=page.next_cursor.topic_name,
                partition_index=page.next_cursor.partition_index,
            )
            broker.ask(
                whole.replace(response_partition_limit=limit, cursor=cursor), 0, note="next page"
            )
    for name, index in ((one.name, 1), (one.name, 5), (two.name, -1), ("zzz", 0), ("", 0)):
        cursor = Cursor(topic_name=name, partition_index=index)
        broker.ask(whole.replace(cursor=cursor), 0, note=f"cursor {index}")
    unknown = [TopicRequest(name=it) for it in ("no-such-topic", "a b", one.name, one.name)]
    broker.ask(whole.replace(topics=unknown), 0, note="unknown names")
    everything = broker.plain(broker.quietly(whole.replace(topics=()), 0))
    broker.note("all", own_topics(broker, everything))


@conversation
def the_cluster_is_described(broker: Transcript) -> None:
    for version in (0, 1, 2):
        for operations in (False, True):
            request = DescribeClusterRequest(include_cluster_authorized_operations=operations)
            broker.ask(request, version, note=str(operations))
            for endpoint_type in (1, 2, 0, 3) if version else ():
                typed = request.replace(endpoint_type=endpoint_type)
                broker.ask(typed, version, note=f"endpoint type {endpoint_type}")
    fenced = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    broker.ask(fenced, 2)


@conversation
def directories_are_described(broker: Transcript) -> None:
    topic, empty = filled(broker, partitions=2), broker.topic("empty")
    for version in range(1, 6):
        for request in (
            [(topic.name, (0, 1)), (empty.name, (0,))],
            [(topic.name, (1,))],
            [(topic.name, (7,)), ("no-such-topic", (0,))],
            [(topic.name, ())],
            [],
        ):
            topics = [DescribableLogDirTopic(topic=name, partitions=it) for name, it in request]
            broker.ask(DescribeLogDirsRequest(topics=topics), version)


@conversation
def coordinators_are_found(broker: Transcript) -> None:
    broker.quietly(FindCoordinatorRequest(key="g"), 0)
    broker.until_ready("__consumer_offsets", 4)
    for version in range(4):
        broker.ask(FindCoordinatorRequest(key="g"), version)
        broker.ask(FindCoordinatorRequest(key=""), version, note="an empty name")
    for version in (4, 5, 6):
        broker.ask(FindCoordinatorRequest(coordinator_keys=["g", "h", "g"]), version)
        broker.ask(FindCoordinatorRequest(coordinator_keys=[]), version)
        broker.ask(FindCoordinatorRequest(coordinator_keys=[""]), version, note="an empty name")
    for key_type in (3, 100, -1):
        for version, names in ((1, ()), (4, ("g",))):
            request = FindCoordinatorRequest(key="g" * (version < 4), coordinator_keys=names)
            broker.ask(request.replace(key_type=key_type), version, note=f"type {key_type}")


@conversation
def invalid_client_software_names(broker: Transcript) -> None:
    for version in (3, 4):
        for name, number in (("", "1"), ("a", ""), ("a b", "1"), ("-a", "1"), ("a", "1_0")):
            request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
            broker.ask(request, version, note=f"{name!r} {number!r}")


@conversation
def unsupported_versions_of_api_versions(broker: Transcript) -> None:
    for version in (5, 6, 32767):
        frame = bytes([0, 18]) + version.to_bytes(2) + bytes([0, 0, 0, 1, 255, 255, 0])
        broker.ask_frame(frame, f"ApiVersions v{version}")
        broker.ask_frame(frame + b"\0\1\2\3", f"ApiVersions v{version} with a body")


@conversation
def unknown_api_keys_and_versions(broker: Transcript) -> None:
    for key, version in ((4, 0), (94, 0), (500, 0), (-1, 0), (3, 14), (3, -1), (1, 19), (52, 0)):
        frame = key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True)
        broker.ask_frame(frame + bytes([0, 0, 0, 1, 255, 255, 0, 0, 0, 0]), f"key {key} v{version}")


@conversation
def malformed_frames(broker: Transcript) -> None:
    for note, frame in {
        "an empty frame": b"",
        "a cut header": bytes([0, 3, 0]),
        "a client id that is cut": bytes([0, 3, 0, 1, 0, 0, 0, 1, 0, 50]) + b"abc",
        "a body that is cut": bytes([0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 0, 0]),
        "a count beyond the frame": bytes([0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 0, 255, 255, 255]),
        "a name beyond the frame": bytes([0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 0, 0, 0, 1, 0, 99]),
        "a null name": bytes([0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 0, 0, 0, 1, 255, 255]),
    }.items():
        broker.ask_frame(frame, note)


@conversation
def shared_apis_have_equal_versions(broker: Transcript) -> None:
    ours = (*range(4), 10, *range(18, 24), *range(29, 36), *range(37, 42), *range(43, 47), 50, 55)
    ours += (60, 64, 74, 75)
    for version in range(5):
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        answer = broker.plain(broker.quietly(request, version))
        shared = [it for it in answer["api_keys"] if it["api_key"] in ours]
        broker.note(f"ApiVersions v{version}", shared)
