"""Handwritten frames of the benchmarks, decoded with the protocol package."""

from benchmarks import groups, wire
from pykbroker_protocol.compiler import decode, encode
from pykbroker_protocol.frame import body_position, read_request_header, write_response
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykbroker_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykbroker_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pykbroker_protocol.records.batch import RecordBatch


def test_produce_frame_contains_one_record_for_one_partition() -> None:
    request = wire.produce_frames("trucks", 3, b"position").request
    frame = request[4:]
    header = read_request_header(frame)
    position = body_position(header, frame, ProduceRequest)
    body = decode(ProduceRequest, header.api_version, frame, position)
    assert int.from_bytes(request[:4], "big") == len(frame)
    assert body.acks == -1
    ((topic,),) = (body.topic_data,)
    (partition,) = topic.partition_data
    assert (topic.name, partition.index) == ("trucks", 3)
    assert partition.records is not None
    batch = RecordBatch.parse(partition.records)
    assert batch.is_crc_valid()
    assert [record.value for record in batch.records()] == [b"position"]


def test_positions_of_error_and_offset_in_produce_responses() -> None:
    frames = wire.produce_frames("trucks", 3, b"position")
    partition = PartitionProduceResponse(index=3, error_code=6, base_offset=42)
    topic = TopicProduceResponse(name="trucks", partition_responses=(partition,))
    parts = write_response(ProduceResponse(responses=(topic,)), 9, 7)
    answer = bytes(4) + b"".join(parts)
    error, offset = frames.error_position, frames.base_offset_position
    assert int.from_bytes(answer[error : error + 2], "big") == 6
    assert int.from_bytes(answer[offset : offset + 8], "big") == 42


def test_metadata_requests_name_all_topics_or_none() -> None:
    for request, topics in (
        (wire.METADATA_WITH_TOPICS, None),
        (wire.METADATA_WITHOUT_TOPICS, ()),
    ):
        frame = request[4:]
        header = read_request_header(frame)
        body = decode(MetadataRequest, header.api_version, frame, header.body_position)
        assert (body.topics if body.topics is None else tuple(body.topics)) == topics


def test_leaders_of_the_given_topics_are_counted() -> None:
    broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092, rack="a")
    topics = tuple(
        MetadataResponseTopic(
            error_code=0,
            name=f"topic-{number}",
            partitions=tuple(
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=1 if index else -1,
                    replica_nodes=(1, 2),
                    isr_nodes=(1,),
                )
                for index in range(3)
            ),
        )
        for number in range(2)
    )
    answer = encode(MetadataResponse(brokers=(broker,), controller_id=1, topics=topics), 1)
    assert wire.count_leaders(answer, {"topic-0", "topic-1", "gone"}) == 4
    assert wire.count_leaders(answer, {"topic-1"}) == 2


def test_positions_of_errors_in_commit_and_list_offsets_responses() -> None:
    commit = groups.commit_frames("drivers", "trucks", 3)
    refused = OffsetCommitResponsePartition(partition_index=3, error_code=25)
    topic = OffsetCommitResponseTopic(name="trucks", partitions=[refused])
    answer = bytes(4) + b"".join(write_response(OffsetCommitResponse(topics=[topic]), 9, 7))
    assert int.from_bytes(answer[commit.error_position : commit.error_position + 2], "big") == 25
    _, position = wire.list_offsets_frames("trucks", 3)
    partition = ListOffsetsPartitionResponse(partition_index=3, error_code=6)
    listed = ListOffsetsTopicResponse(name="trucks", partitions=[partition])
    answer = bytes(4) + b"".join(write_response(ListOffsetsResponse(topics=[listed]), 1, 7))
    assert int.from_bytes(answer[position : position + 2], "big") == 6
