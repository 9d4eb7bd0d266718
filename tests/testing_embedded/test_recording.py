"""Recording sessions of stock clients with the proxy, and reading recordings."""

import asyncio
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykbroker import AsyncBroker, Broker
from pykbroker.cli.main import main
from pykbroker.testing.recording.proxy import Recorder
from pykbroker.testing.recording.relay import Passing
from pykbroker.testing.recording.session import NoRecording, SessionWriter, read_session
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.frame import read_request_header, write_request
from pykbroker_protocol.messages.metadata import MetadataRequest
from pykbroker_protocol.messages.sasl_authenticate import SaslAuthenticateRequest

pytestmark = [
    pytest.mark.usefixtures("sockets_left_open"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

SECONDS = 60
BROKER = ("kafka.example", 9092)


def passing(request: Any, version: int, *, is_request: bool = True, connection: int = 1) -> Passing:
    frame = b"".join(write_request(request, version, 7, "app"))
    return Passing(connection, BROKER, read_request_header(frame), frame, is_request)


def recorded(*frames: Passing) -> str:
    file = io.StringIO()
    writer = SessionWriter(file, [BROKER])
    for frame in frames:
        writer.add(frame)
    return file.getvalue()


@pytest.fixture
def session(tmp_path: Path) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        (tmp_path / "session.jsonl").write_text(text)
        return read_session(tmp_path / "session.jsonl")

    return read


# --- the file


def test_an_exchange_is_read_as_written(session: Callable[[str], Any]) -> None:
    asked, other = (
        passing(MetadataRequest(topics=None), 12),
        passing(MetadataRequest(topics=None), 9, connection=2),
    )
    answer = asked._replace(frame=b"\0\0\0\7answer", is_request=False)
    found = session(recorded(asked, other, answer))
    assert found.upstream == (BROKER,)
    first, second = found.exchanges
    assert (first.line, first.answered_line, first.connection) == (2, 4, 1)
    assert (first.header, first.request, first.answer) == (asked.header, asked.frame, answer.frame)
    assert (second.line, second.answered_line, second.answer) == (3, 0, None)


def test_a_line_has_readable_fields() -> None:
    lines = [
        json.loads(it) for it in recorded(passing(MetadataRequest(topics=None), 12)).splitlines()
    ]
    assert lines[0]["upstream"] == ["kafka.example:9092"]
    fields = {name: lines[1][name] for name in ("broker", "request", "version", "client_id")}
    assert fields == {
        "broker": "kafka.example:9092",
        "request": "Metadata",
        "version": 12,
        "client_id": "app",
    }


def test_sasl_credentials_are_not_recorded(session: Callable[[str], Any]) -> None:
    asked = passing(SaslAuthenticateRequest(auth_bytes=b"\0user\0secret"), 2)
    (found,) = session(recorded(asked)).exchanges
    assert b"secret" not in found.request
    assert found.header.api_key == ApiKey.SASL_AUTHENTICATE


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: not the first line"),
        ("[]", "line 1: not the first line"),
        ('{"recording": "other", "upstream": []}', "line 1: format is .other."),
        ('{"recording": "pykbroker-recording-1", "upstream": ["a"]}', "line 1: not the first line"),
        (recorded() + "nonsense", "line 2: not a recorded frame"),
        (recorded() + '{"connection": 1, "correlation_id": 1, "frame": "?"}', "line 2: not a"),
        (
            recorded()
            + '{"connection": 1, "correlation_id": 1, "broker": "a:1", "request": "", "frame": ""}',
            "line 2: not a recorded frame",
        ),
    ],
)
def test_a_malformed_recording_is_rejected_with_the_line_number(
    session: Callable[[str], Any], text: str, complaint: str
) -> None:
    with pytest.raises(NoRecording, match=complaint):
        session(text)


# --- the proxy


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics={"trucks": 2}) as broker:
        yield broker


@pytest.fixture
def proxy(kafka: Broker, tmp_path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The proxy's address, and a function that stops it and reads the recording."""
    file = tmp_path / "session.jsonl"
    command = ["proxy", "--record", str(file), "--upstream", kafka.bootstrap]
    process = subprocess.Popen(
        [sys.executable, "-m", "pykbroker", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    ready = process.stdout.readline()
    assert ready.startswith("pykbroker proxy ready bootstrap=127.0.0.1:")

    def end() -> Any:
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        assert said.startswith("recorded ")
        return read_session(file)

    yield ready.partition("=")[2].strip(), end
    process.kill()
    process.communicate()


def kafka_python(bootstrap: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("trucks", b"hello").get(SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        "trucks", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"hello"
    consumer.close()


def librdkafka(bootstrap: str) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("trucks", b"hello")
    assert producer.flush(SECONDS) == 0
    settings = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe(["trucks"])
    message = consumer.poll(SECONDS)
    assert message is not None
    assert message.value() == b"hello"
    consumer.close()


@pytest.mark.parametrize("client", [kafka_python, librdkafka])
def test_clients_work_through_the_proxy(
    proxy: tuple[str, Callable[[], Any]], client: Callable[[str], None]
) -> None:
    bootstrap, end = proxy
    client(bootstrap)
    session = end()
    asked = {it.header.api_key for it in session.exchanges}
    assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT} <= asked
    answered = [it for it in session.exchanges if it.answer is not None]
    assert all(it.answer[:4] == it.request[4:8] for it in answered)  # correlation ids


async def test_each_broker_of_the_cluster_gets_its_own_address(tmp_path: Path) -> None:
    async with AsyncBroker(topics=["trucks"]) as first, AsyncBroker() as second:
        upstream = [("127.0.0.1", first.port), ("127.0.0.1", second.port)]
        recorder = Recorder(tmp_path / "session.jsonl", upstream, "127.0.0.1", 0)
        await recorder.open()
        addresses = recorder.bootstrap.split(",")
        assert len(set(addresses)) == 2
        for address in addresses:
            reader, writer = await asyncio.open_connection(*address.split(":"))
            frame = b"".join(write_request(MetadataRequest(topics=None), 12, 7, "app"))
            writer.write(len(frame).to_bytes(4, "big") + frame)
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            port = int(address.partition(":")[2])
            assert port.to_bytes(4, "big") in answer
            writer.close()
        await recorder.close()
    assert [it.broker for it in read_session(tmp_path / "session.jsonl").exchanges] == upstream


async def test_an_unreachable_cluster_closes_client_connections(tmp_path: Path) -> None:
    async with AsyncBroker() as gone:
        port = gone.port
    recorder = Recorder(tmp_path / "session.jsonl", [("127.0.0.1", port)], "127.0.0.1", 0)
    await recorder.open()
    host, _, here = recorder.bootstrap.partition(":")
    reader, writer = await asyncio.open_connection(host, int(here))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(1)
    writer.close()
    await recorder.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--record", "/nowhere/a", "--upstream", "a:1"], "proxy: [Errno 2] No such file"),
        (["--record", "a", "--upstream", "a"], "proxy: --upstream: 'a' is not HOST:PORT"),
    ],
)
def test_a_proxy_that_cannot_start_prints_the_reason(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["proxy", *arguments]) == 2
    assert capsys.readouterr().err.startswith(complaint)
