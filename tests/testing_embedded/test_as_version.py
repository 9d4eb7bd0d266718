"""Brokers that advertise the APIs and versions of an older release."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.apache import ApacheKafka
from compat.broker_process import BrokerProcess
from compat.suite.installation import installed
from compat.suite.manifest import stock_clients
from compat.wire import Closed, Wire
from pykbroker import Broker, CannotStart
from pykbroker.apis import APIS
from pykbroker.cli.main import main
from pykbroker.testing.profiles.offers import offer_as
from pykbroker.testing.profiles.releases import TABLE, UnknownVersion, release_named, releases
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_response_header, write_request
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pykbroker_protocol.messages.describe_cluster import DescribeClusterRequest
from pykbroker_protocol.messages.metadata import MetadataRequest

pytestmark = pytest.mark.slow

ASKED = ApiVersionsRequest(client_software_name="test", client_software_version="1")
TIMEOUT_SECONDS = 60


@pytest.fixture
def broker_as() -> Iterator[Any]:
    running: list[Broker] = []

    def start(version: str) -> Broker:
        broker = Broker(topics={"trucks": 2}, as_version=version)
        broker.start()
        running.append(broker)
        return broker

    yield start
    for broker in running:
        broker.stop()


def advertised(port: int, version: int) -> dict[int, tuple[int, int]]:
    with Wire(port) as wire:
        answer = wire.ask(ASKED, version)
    assert answer.error_code == 0
    return {it.api_key: (it.min_version, it.max_version) for it in answer.api_keys}


# --- the table


def test_the_table_has_valid_ranges() -> None:
    head, *rows = csv.reader(TABLE.read_text().splitlines())
    assert {len(row) for row in rows} == {len(head)}
    for name in head[1:]:
        release = release_named(name)
        for lowest, highest in (*release.apis.values(), *release.features.values()):
            assert 0 <= lowest <= highest
    known = {key.name for key in ApiKey}
    assert all(set(release.apis) <= known for release in releases().values())


@pytest.mark.parametrize(
    ("version", "api", "range_"),
    [
        ("0.11", "PRODUCE", (0, 3)),
        ("1.1", "FETCH", (0, 7)),
        ("2.4", "API_VERSIONS", (0, 3)),
        ("2.8.1", "PRODUCE", (0, 9)),
        ("3.9", "FETCH", (0, 17)),
        ("4.0", "FETCH", (4, 17)),
        ("4.3", "FETCH", (4, 18)),
        ("redpanda-24.3", "PRODUCE", (0, 7)),
    ],
)
def test_the_table_agrees_with_independent_sources(
    version: str, api: str, range_: tuple[int, int]
) -> None:
    assert release_named(version).apis[api] == range_


@pytest.mark.parametrize("version", ["0.10", "5.0", "two", "", "2"])
def test_an_unknown_version_is_rejected(version: str) -> None:
    with pytest.raises(
        UnknownVersion, match=r"unknown version .*; known versions: 0\.11, 1\.0, .*, redpanda-24\.3"
    ):
        offer_as(version)
    with pytest.raises(CannotStart, match="unknown version"):
        Broker(as_version=version).start()


# --- what is offered


@pytest.mark.parametrize("version", releases())
def test_ranges_are_within_those_of_the_release_and_of_the_broker(version: str) -> None:
    offer, theirs = offer_as(version), release_named(version).apis
    for key, api in offer.apis.items():
        lowest, highest = theirs[api.name.upper()]
        assert max(lowest, APIS[key].advertised.first) == api.advertised.first
        assert min(highest, APIS[key].served.last) == api.served.last
    ends = {key: api.served.last for key, api in APIS.items()}
    missing = {APIS[it].name.upper() for it in set(ends) - set(offer.apis)} & set(theirs)
    assert missing <= {
        # Their newest version is older than our oldest one.
        *("OFFSET_FOR_LEADER_EPOCH", "WRITE_TXN_MARKERS", "DESCRIBE_ACLS", "CREATE_ACLS"),
        *("DELETE_ACLS", "DESCRIBE_CONFIGS", "ALTER_REPLICA_LOG_DIRS", "DESCRIBE_LOG_DIRS"),
        *("CREATE_DELEGATION_TOKEN", "RENEW_DELEGATION_TOKEN", "EXPIRE_DELEGATION_TOKEN"),
        "DESCRIBE_DELEGATION_TOKEN",
    }


def test_the_newest_release_advertises_everything() -> None:
    newest = offer_as("4.3").apis
    assert {key: api.advertised for key, api in newest.items()} == {
        key: api.advertised for key, api in APIS.items()
    }


@pytest.mark.parametrize(
    ("version", "asked", "features", "finalized"),
    [
        ("3.2", 3, {}, {}),
        ("redpanda-24.3", 3, {}, {}),
        ("3.3", 3, {"metadata.version": (1, 7)}, {"metadata.version": 7}),
        ("3.9", 3, {"metadata.version": (1, 21)}, {"metadata.version": 21}),
        (
            "4.0",
            4,
            {
                "metadata.version": (7, 25),
                "kraft.version": (0, 0),
                "group.version": (0, 1),
                "transaction.version": (0, 2),
            },
            {"metadata.version": 25, "group.version": 1, "transaction.version": 2},
        ),
    ],
)
def test_the_features_of_the_release_are_advertised(
    broker_as: Any, version: str, asked: int, features: dict[str, Any], finalized: dict[str, Any]
) -> None:
    with Wire(broker_as(version).port) as wire:
        answer = wire.ask(ASKED, asked)
    found = {it.name: (it.min_version, it.max_version) for it in answer.supported_features}
    assert found == features
    assert {it.name: it.max_version_level for it in answer.finalized_features} == finalized
    assert (answer.finalized_features_epoch >= 0) == bool(features)


# --- what is refused


def test_a_newer_version_closes_the_connection(broker_as: Any) -> None:
    port = broker_as("2.8").port
    assert advertised(port, 3)[ApiKey.METADATA] == (0, 11)
    with Wire(port) as wire:
        assert wire.ask(MetadataRequest(topics=None), 11).brokers
        wire.send(MetadataRequest(topics=None), 12)
        with pytest.raises(Closed):
            wire.receive_frame()


def test_a_newer_api_closes_the_connection(broker_as: Any) -> None:
    port = broker_as("2.7").port
    assert ApiKey.DESCRIBE_CLUSTER not in advertised(port, 3)
    with Wire(port) as wire:
        wire.send(DescribeClusterRequest(include_cluster_authorized_operations=False), 0)
        with pytest.raises(Closed):
            wire.receive_frame()


@pytest.mark.parametrize(
    ("version", "rows"), [("2.3", []), ("2.4", [(18, 0, 3)]), ("3.8", [(18, 0, 3)])]
)
def test_an_unsupported_api_versions_request_is_answered_in_version_0(
    broker_as: Any, version: str, rows: list[tuple[int, int, int]]
) -> None:
    assert asked_too_much(broker_as(version)) == rows


def test_redpanda_lists_all_versions_in_that_response(broker_as: Any) -> None:
    kafka = broker_as("redpanda-24.3")
    rows = [(key, *range_) for key, range_ in advertised(kafka.port, 3).items()]
    assert asked_too_much(kafka) == rows


def asked_too_much(kafka: Broker) -> list[tuple[int, int, int]]:
    """The response to ApiVersions version 4 of a release that does not know it."""
    with Wire(kafka.port) as wire:
        wire.send_frame(b"".join(write_request(ASKED, 4, 7, "test")))
        frame = wire.receive_frame()
    _, position = read_response_header(frame, ApiVersionsResponse, 0)
    answer = decode(ApiVersionsResponse, 0, frame, position)
    assert isinstance(answer, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    return [(it.api_key, it.min_version, it.max_version) for it in answer.api_keys]


@pytest.mark.parametrize(("version", "is_off"), [("3.7", True), ("3.9", True), ("4.0", False)])
def test_consumer_groups_are_disabled_before_4_0(
    broker_as: Any, version: str, *, is_off: bool
) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="", member_epoch=0)
    with Wire(broker_as(version).port) as wire:
        code = wire.ask(request, 0).error_code
    assert (code == ErrorCode.UNSUPPORTED_VERSION) == is_off


# --- who works with it

with_clients = pytest.mark.usefixtures("sockets_left_open")
not_minding_sockets = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

VERSIONS = (
    "0.11",
    "1.1",
    "2.0",
    "2.4",
    "2.8",
    "3.0",
    "3.4",
    "3.6",
    "3.9",
    "4.0",
    "4.1",
    "redpanda-24.3",
)


@with_clients
@not_minding_sockets
@pytest.mark.parametrize("version", VERSIONS)
def test_kafka_python_writes_and_reads_in_a_group(broker_as: Any, version: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    kafka = broker_as(version)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    producer.send("trucks", b"hello").get(TIMEOUT_SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        "trucks",
        bootstrap_servers=kafka.bootstrap,
        group_id="readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_SECONDS * 1000,
    )
    assert next(consumer).value == b"hello"
    consumer.commit()
    consumer.close()
    assert sum(kafka.offsets("readers").values()) == 1


@with_clients
@not_minding_sockets
@pytest.mark.parametrize("version", VERSIONS)
def test_librdkafka_writes_in_a_transaction_and_reads_in_a_group(
    broker_as: Any, version: str
) -> None:
    from confluent_kafka import Consumer, Producer

    kafka = broker_as(version)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions(TIMEOUT_SECONDS)
    producer.begin_transaction()
    producer.produce("trucks", b"hello")
    producer.commit_transaction(TIMEOUT_SECONDS)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["trucks"])
    message = consumer.poll(TIMEOUT_SECONDS)
    assert message is not None
    assert message.value() == b"hello"
    consumer.close()


@with_clients
@not_minding_sockets
def test_a_client_that_needs_a_newer_api_reports_it(broker_as: Any) -> None:
    """A client that requires newer APIs fails with a clear error."""
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    admin = KafkaAdminClient(bootstrap_servers=broker_as("2.3").bootstrap)
    with pytest.raises((KafkaError, NotImplementedError, ValueError)):
        admin.describe_metadata_quorum()
    admin.close()


OLD_CLIENT = """
import sys
from kafka import KafkaConsumer, KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1])
print(*producer.config["api_version"])
producer.send("trucks", b"hello").get(60)
producer.close()
consumer = KafkaConsumer(
    "trucks", bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest"
)
assert next(consumer).value == b"hello"
consumer.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="kafka-python 2.0.2 imports on Python 3.11 and older only"
)
@pytest.mark.parametrize(
    ("version", "taken_for"),
    [("0.11", "0 11 0"), ("1.1", "1 1 0"), ("2.4", "2 4 0"), ("2.8", "2 5 0")],
)
def test_an_old_client_recognizes_the_release(broker_as: Any, version: str, taken_for: str) -> None:
    """kafka-python 2.0.2 infers the release from the APIs; 2.5 is the newest that it knows."""
    old = next(it for it in stock_clients() if (it.name, it.version) == ("kafka-python", "2.0.2"))
    python, *_ = installed(old)
    output = subprocess.run(
        [python, "-c", OLD_CLIENT, broker_as(version).bootstrap],
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_SECONDS,
        check=True,
    )
    assert output.stdout.strip() == taken_for


# --- ways to ask for it


def test_serve_takes_as_version(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", arguments=("--as-version", "2.8")) as node:
        assert advertised(node.port, 3)[ApiKey.FETCH] == (4, 12)


def test_serve_rejects_an_unknown_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--ephemeral", "--as-version", "8.2"]) == 2
    assert capsys.readouterr().err.startswith("serve: --as-version: unknown version '8.2'")


def test_a_broker_with_control_port_takes_as_version(tmp_path: Path) -> None:
    arguments = ("--as-version", "2.8", "--control", "127.0.0.1:0")
    with BrokerProcess(tmp_path / "data", arguments=arguments) as node:
        assert advertised(node.port, 3)[ApiKey.FETCH] == (4, 12)


def test_a_fork_advertises_the_same_release(broker_as: Any) -> None:
    with broker_as("2.8").fork() as other:
        assert advertised(other.port, 3)[ApiKey.FETCH] == (4, 12)


@pytest.mark.oracle
def test_the_newest_row_of_the_table_equals_what_apache_kafka_advertises(
    apache: ApacheKafka,
) -> None:
    host, _, port = apache.bootstrap.partition(":")
    with Wire(int(port), host=host) as wire:
        answer = wire.ask(ASKED, 4)
    release = release_named("4.3")
    found = {ApiKey(it.api_key).name: (it.min_version, it.max_version) for it in answer.api_keys}
    unknown = set(release.apis) ^ set(found)
    assert unknown <= {"GET_TELEMETRY_SUBSCRIPTIONS", "PUSH_TELEMETRY"}  # only with a receiver
    assert {name: release.apis[name] for name in found if name in release.apis} == found
    features = {it.name: (it.min_version, it.max_version) for it in answer.supported_features}
    assert features == release.features
