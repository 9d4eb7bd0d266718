"""The view of the quorum and the steps of the metadata fetcher, as values."""

import pytest

from pykbroker.address import Address
from pykbroker.membership.quorum_fetch import (
    SNAPSHOT_BYTES_MAX,
    AnotherLeader,
    Append,
    LoadSnapshot,
    Retry,
    Step,
    Truncate,
    WrongCluster,
    next_step,
    snapshot_part_in,
)
from pykbroker.membership.quorum_view import (
    CONTROLLERS_MAX,
    QuorumLeader,
    QuorumView,
    parse_address,
    parse_voter,
    view_of_settings,
)
from pykbroker.metadata.snapshot import SnapshotName
from pykbroker.settings import InvalidSetting, load_settings
from pykbroker_protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    SnapshotId,
)
from pykbroker_protocol.messages.fetch_snapshot import (
    FetchSnapshotResponse,
    PartitionSnapshotPart,
    TopicSnapshotPart,
)
from pykbroker_protocol.messages.fetch_snapshot import SnapshotId as PartSnapshotId

A, B, C = (Address("127.0.0.1", port) for port in (1, 2, 3))
TOPIC_ID = (1).to_bytes(16, "big")
NAME = SnapshotName(10, 2)


# --- the view


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        ((2, 6), (2, 6)),
        ((-1, 6), (-1, 6)),
        ((2, 5), (2, 5)),
        ((-1, 5), (1, 5)),
        ((2, 4), (1, 5)),
    ],
)
def test_a_newer_epoch_replaces_the_leader_and_an_older_one_does_not(
    observed: tuple[int, int], expected: tuple[int, int]
) -> None:
    view = QuorumView(leader_id=1, leader_epoch=5, endpoints={1: A, 2: B}).observed(*observed)
    assert (view.leader_id, view.leader_epoch) == expected


def test_a_leader_needs_an_address() -> None:
    view = QuorumView(seeds=(C,)).observed(1, 5)
    assert view.leader is None
    assert view.observed(1, 5, [(1, A)]).leader == QuorumLeader(1, 5, A)


def test_discovery_asks_seeds_and_known_controllers_once() -> None:
    view = QuorumView(seeds=(C, A)).observed(1, 5, [(1, A), (2, B)])
    assert view.addresses == [C, A, B]


def test_the_number_of_controllers_is_bounded() -> None:
    endpoints = [(it, Address("127.0.0.1", it)) for it in range(2 * CONTROLLERS_MAX)]
    view = QuorumView().observed(1, 1, endpoints)
    assert len(view.endpoints) == CONTROLLERS_MAX
    moved = view.observed(1, 1, [(1, C)])
    assert moved.endpoints[1] == C


def test_voters_and_bootstrap_servers_are_read_from_the_settings() -> None:
    settings = load_settings(
        {
            "node.id": "1",
            "log.dirs": "unused",
            "controller.quorum.voters": "1@127.0.0.1:1",
        }
    )
    assert view_of_settings(settings).endpoints == {1: A}
    assert parse_voter("3000@[::1]:9093") == (3000, Address("::1", 9093))
    assert parse_address(" kafka.example:9093 ") == Address("kafka.example", 9093)


@pytest.mark.parametrize("text", ["", "host", "host:", ":9093", "host:port"])
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_address(text)


@pytest.mark.parametrize("text", ["host:9093", "a@host:9093", "1@host"])
def test_a_voter_without_id_or_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_voter(text)


# --- the next step after a response


def response_of(**more: object) -> FetchResponse:
    values = {"partition_index": 0, "error_code": 0, "high_watermark": 7, "records": b""}
    partition = PartitionData(aborted_transactions=(), **{**values, **more})  # type: ignore[arg-type]
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return FetchResponse(responses=[topic])


@pytest.mark.parametrize(
    ("response", "step"),
    [
        (response_of(records=b"batches"), Append(b"batches", 7)),
        (response_of(records=None), Append(b"", 7)),
        (
            response_of(diverging_epoch=EpochEndOffset(epoch=3, end_offset=5)),
            Truncate(3, 5),
        ),
        (response_of(snapshot_id=SnapshotId(end_offset=10, epoch=2)), LoadSnapshot(NAME)),
        (response_of(error_code=74), AnotherLeader("FENCED_LEADER_EPOCH")),
        (response_of(error_code=75), AnotherLeader("UNKNOWN_LEADER_EPOCH")),
        (response_of(error_code=6), AnotherLeader("NOT_LEADER_OR_FOLLOWER")),
        (response_of(error_code=8), Retry("BROKER_NOT_AVAILABLE")),
        (FetchResponse(error_code=104, responses=()), WrongCluster()),
        (FetchResponse(error_code=42, responses=()), Retry("INVALID_REQUEST")),
        (
            FetchResponse(responses=()),
            Retry("the response does not have the metadata partition"),
        ),
    ],
)
def test_each_response_leads_to_one_step(response: FetchResponse, step: Step) -> None:
    assert next_step(response) == step


# --- parts of a snapshot


def part_of(**more: object) -> FetchSnapshotResponse:
    values = {
        "index": 0,
        "error_code": 0,
        "snapshot_id": PartSnapshotId(end_offset=10, epoch=2),
        "size": 100,
        "position": 40,
        "unaligned_records": b"x" * 60,
        **more,
    }
    topic = TopicSnapshotPart(name="", partitions=[PartitionSnapshotPart(**values)])  # type: ignore[arg-type]
    return FetchSnapshotResponse(error_code=0, topics=[topic])


def test_the_requested_part_of_a_snapshot_is_accepted() -> None:
    part = snapshot_part_in(part_of(), NAME, 40)
    assert isinstance(part, PartitionSnapshotPart)
    assert len(part.unaligned_records) == 60


@pytest.mark.parametrize(
    "response",
    [
        part_of(position=0),
        part_of(snapshot_id=PartSnapshotId(end_offset=11, epoch=2)),
        part_of(unaligned_records=b""),
        part_of(unaligned_records=b"x" * 61),
        part_of(size=SNAPSHOT_BYTES_MAX + 1),
        part_of(size=-1),
        part_of(error_code=98),
        FetchSnapshotResponse(error_code=0, topics=[]),
    ],
)
def test_a_part_that_was_not_requested_is_refused(response: FetchSnapshotResponse) -> None:
    assert isinstance(snapshot_part_in(response, NAME, 40), Retry)
