"""The control port, used over sockets, with curl and with `pykbroker control`."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from compat.broker_process import BrokerProcess
from compat.missing_tool import find_program
from pykbroker.cli.main import main
from pykbroker.testing.control.fault_requests import FAULT_KINDS, parameters_of
from pykbroker.testing.control.http import BODY_BYTES_MAX, HEAD_BYTES_MAX
from pykbroker.testing.faults import Faults

pytestmark = pytest.mark.slow

SECONDS = 60
DOCS = Path(__file__).parents[2] / "docs"
CURL_EXAMPLES = [
    line
    for page in ("embedded.md", "cli.md")
    for line in (DOCS / page).read_text().splitlines()
    if line.startswith("curl ") and "localhost:9099" in line
]


class Served:
    """A broker process with a control port."""

    def __init__(self, node: BrokerProcess) -> None:
        self.bootstrap = node.bootstrap
        self.control = node.ready_line.partition("control=")[2].split()[0]
        self.port = int(self.control.rpartition(":")[2])

    def ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        body = None if document is None else json.dumps(document)
        connection.request(method, path, body)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found

    def ask_raw(self, request: bytes) -> bytes:
        """Sends bytes and returns all bytes until the port closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65536):
                answer += part
            return answer


@pytest.fixture(scope="module")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("control") / "data"
    arguments = ("--control", "127.0.0.1:0", "--topic", "trucks:2")
    with BrokerProcess(data, arguments=arguments) as node:
        yield Served(node)


@pytest.fixture
def served(_served: Served) -> Served:
    """The broker, reset."""
    assert _served.ask("POST", "/reset")[0] == 200
    return _served


@pytest.fixture
def command(served: Served, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        exit_code = main(["control", *words, "--control", served.control])
        captured = capsys.readouterr()
        return exit_code, captured.out + captured.err

    return run


def producer_of(served: Served) -> Any:
    from confluent_kafka import Producer

    settings = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "log_level": 0}
    return Producer({"bootstrap.servers": served.bootstrap, "enable.idempotence": True, **settings})


def produce(served: Served, value: str) -> None:
    producer = producer_of(served)
    producer.produce("trucks", value, partition=0)
    assert producer.flush(SECONDS) == 0


# --- faults


def test_a_fault_applies_to_a_stock_client_and_counts_hits(served: Served) -> None:
    asked = {"fault": "lose_answer", "api": "Produce", "topic": "trucks", "times": 1}
    status, fault = served.ask("POST", "/faults", asked)
    assert (status, fault["hits"], fault["is_due"]) == (201, 0, True)
    produce(served, "once")
    assert served.ask("GET", f"/faults/{fault['id']}")[1]["hits"] == 1
    _, found = served.ask("GET", "/topics/trucks/records")
    assert [it["value"] for it in found["records"]] == ["once"]


def test_a_fault_that_was_never_applied_is_reported(served: Served) -> None:
    fault = served.ask("POST", "/faults", {"fault": "drop", "api": "JoinGroup"})[1]
    path = f"/faults/{fault['id']}"
    status, refusal = served.ask("GET", f"{path}?hits=1&timeout_seconds=0.01")
    assert status == 409
    assert "applied 0 of 1 times" in refusal["error"]
    assert served.ask("GET", "/faults/check")[0] == 409
    assert served.ask("DELETE", path)[1]["hits"] == 0
    assert served.ask("GET", path)[0] == 404
    assert served.ask("GET", "/faults/check") == (200, [])


def test_every_fault_method_is_a_kind_of_fault() -> None:
    known = "refuse delay stall drop lose_answer cut_answer do_twice disk_full disk_error slow_disk"
    assert set(known.split()) <= set(FAULT_KINDS)
    assert not {"check", "clear", "fault_for"} & set(FAULT_KINDS)
    assert all(hasattr(Faults, word) for word in FAULT_KINDS)


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("refuse", ["api", "error", "topic", "partition", "client", "times"]),
        ("delay", ["api", "seconds", "topic", "partition", "client", "times"]),
        ("slow_disk", ["seconds", "topic", "times"]),
    ],
)
def test_a_fault_takes_the_arguments_of_its_method(word: str, names: list[str]) -> None:
    assert list(parameters_of(word)) == names


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "unknown fault None; known faults: "),
        ({"fault": "refus"}, "unknown fault 'refus'; known faults: "),
        ({"fault": ["drop"]}, "unknown fault ['drop']"),
        ({"fault": "__init__"}, "unknown fault '__init__'"),
        ({"fault": "clear"}, "unknown fault 'clear'"),
        ({"fault": "drop", "api": "Nix"}, "unknown API 'Nix'"),
        ({"fault": "drop", "topics": "a"}, "unknown arguments: topics; drop takes api"),
        ({"fault": "drop", "times": -1}, "times: expected an integer"),
        ({"fault": "drop", "times": True}, "times: expected an integer"),
        ({"fault": "drop", "topic": 7}, "topic: expected a string"),
        ({"fault": "delay", "api": "FETCH"}, "delay() missing"),
        (
            {"fault": "delay", "api": "FETCH", "seconds": "nan"},
            "seconds: expected seconds from 0 to",
        ),
        ({"fault": "delay", "api": "FETCH", "seconds": -1}, "seconds: expected seconds"),
        ({"fault": "refuse", "api": "FETCH", "error": "OOPS"}, "unknown error 'OOPS'"),
        ([], "the body must be an object"),
    ],
    ids=repr,
)
def test_an_invalid_fault_is_rejected(served: Served, asked: Any, message: str) -> None:
    status, refusal = served.ask("POST", "/faults", asked)
    assert status == 400
    assert refusal["error"].startswith(message)
    assert served.ask("GET", "/faults")[1] == []


# --- time, and the whole broker


def test_advancing_the_clock_expires_records(served: Served) -> None:
    written = served.ask("POST", "/topics/trucks/records", {"rows": ["old"]})
    assert written == (201, {"written": 1})
    before = served.ask("GET", "/clock")[1]["now_ms"]
    after = served.ask("POST", "/clock/advance", {"days": 8})[1]["now_ms"]
    assert after - before >= 8 * 86_400_000
    assert served.ask("GET", "/topics/trucks/records")[1]["count"] == 0


def test_the_clock_freezes_and_continues(served: Served) -> None:
    frozen = served.ask("POST", "/clock/freeze")[1]
    assert frozen["stands"]
    assert served.ask("GET", "/clock")[1]["now_ms"] == frozen["now_ms"]
    assert not served.ask("POST", "/clock/run")[1]["stands"]


@pytest.mark.parametrize(
    "span", [{"days": -1}, {"days": "many"}, {"years": 1}, {"days": 1e300}, {"days": None}, [8]]
)
def test_an_invalid_span_is_rejected(served: Served, span: Any) -> None:
    assert served.ask("POST", "/clock/advance", span)[0] == 400


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_records_survive_restart_and_crash(served: Served, how: str) -> None:
    produce(served, "kept")
    assert served.ask("POST", f"/{how}")[1] == {"bootstrap": served.bootstrap, "is_up": True}
    assert served.ask("GET", "/topics/trucks/records")[1]["count"] == 1
    produce(served, "more")


def test_connections_are_refused_in_an_outage(served: Served) -> None:
    host, _, port = served.bootstrap.partition(":")
    assert served.ask("POST", "/outage")[1]["is_up"] is False
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    status, refusal = served.ask("GET", "/topics")
    assert status == 409
    assert "in an outage: DELETE /outage" in refusal["error"]
    assert served.ask("POST", "/outage")[0] == 409
    assert served.ask("DELETE", "/outage")[1]["is_up"] is True
    assert served.ask("DELETE", "/outage")[0] == 409
    produce(served, "here again")


def test_a_reset_can_replace_the_topics(served: Served) -> None:
    asked = {"ships": 3, "last": {"partitions": 2, "config": {"cleanup.policy": "compact"}}}
    _, found = served.ask("POST", "/reset", {"topics": asked})
    assert {it["name"]: len(it["partitions"]) for it in found} == {"ships": 3, "last": 2}
    served.ask("POST", "/reset", {"topics": {"trucks": 2}})


# --- looking and writing


def test_records_have_the_json_format_of_the_command_line(served: Served) -> None:
    given = {
        "key": "k",
        "value_base64": "/w==",
        "partition": 1,
        "timestamp": 5,
        "headers": [{"name": "h", "value": "1"}],
    }
    assert served.ask("POST", "/topics/trucks/records", {"records": [given]})[0] == 201
    _, found = served.ask("GET", "/topics/trucks/records?partition=1")
    assert found["records"] == [{"topic": "trucks", "offset": 0, **given}]
    assert served.ask("GET", "/topics/trucks/records?max=0")[1] == {"count": 1, "records": []}


def test_records_with_a_count_waits_and_times_out(served: Served) -> None:
    produce(served, "first")
    assert served.ask("GET", "/topics/trucks/records?count=1")[1]["count"] == 1
    status, refusal = served.ask("GET", "/topics/trucks/records?count=2&timeout_s=0.01")
    assert status == 409
    assert "trucks has 1 of 2 records" in refusal["error"]


def test_timeline_story_and_offsets_are_returned(served: Served) -> None:
    produce(served, "first")
    assert any("connected with" in it["text"] for it in served.ask("GET", "/timeline")[1])
    assert "topic trucks (partitions: 2): 0: 0..1" in served.ask("GET", "/story")[1]["story"]
    assert served.ask("GET", "/groups/nobody/offsets") == (200, [])


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("GET", "/nowhere", None, 404),
        ("PUT", "/faults", None, 405),
        ("GET", "/faults/seven", None, 404),
        ("GET", "/topics/nix/records", None, 404),
        ("GET", "/topics/trucks/records?partition=x", None, 400),
        ("GET", "/topics/trucks/records?count=-1", None, 400),
        ("POST", "/topics/trucks/records", {"records": [7]}, 400),
        ("POST", "/topics/trucks/records", {"records": [{"value_base64": "?"}]}, 400),
        ("POST", "/topics/trucks/records", {"records": [{"partition": 9}]}, 409),
        ("POST", "/topics/trucks/records", {"rows": 7}, 400),
        ("POST", "/topics", {"a b": 1}, 409),
        ("POST", "/topics", {"a": "many"}, 400),
        ("POST", "/topics", 7, 400),
        ("POST", "/reset", {"topic": "x"}, 400),
    ],
)
def test_an_invalid_request_gets_an_error_status(
    served: Served, method: str, path: str, document: Any, status: int
) -> None:
    found, refusal = served.ask(method, path, document)
    assert (found, list(refusal)) == (status, ["error"])


RECORDS = "/topics/trucks/records"
NO_COUNT = "expected an integer from 0 to 2147483647"


@pytest.mark.parametrize(
    ("method", "path", "document", "expected"),
    [
        ("POST", RECORDS, {"records": [{"partition": "x"}]}, f"partition: {NO_COUNT}"),
        ("POST", RECORDS, {"records": [{"timestamp": "x"}]}, "timestamp: expected an integer"),
        ("POST", RECORDS, {"records": [{"timestamp": 10**23}]}, "timestamp: expected an integer"),
        ("POST", RECORDS, {"records": [{"headers": [5]}]}, "header: expected an object"),
        ("POST", RECORDS, {"records": [{"headers": 5}]}, "headers: expected a list"),
        ("POST", RECORDS, {"records": [{"headers": [{}]}]}, "name: expected a string"),
        ("POST", RECORDS, {"records": [{"key_base64": 5}]}, "key_base64: expected base64"),
        ("POST", RECORDS, {"records": "abc"}, "records: expected a list"),
        ("POST", RECORDS, {"rows": "abc"}, "rows: expected a list"),
        ("POST", RECORDS, {"rows": 5}, "rows: expected a list"),
        ("GET", f"{RECORDS}?partition=x", None, f"partition: {NO_COUNT}"),
        ("POST", "/clock/advance", {"days": [8]}, "days: expected a number"),
        ("POST", "/clock/advance", {"days": None}, "days: expected a number"),
        ("POST", "/clock/advance", {"days": "many"}, "days: expected a number"),
        ("POST", "/topics", {"a": {"partitions": "x"}}, f"partitions: {NO_COUNT}"),
        ("POST", "/topics", {"a": {"config": 5}}, "config: expected an object"),
        (
            "POST",
            "/topics",
            {"a": {"config": {"retention.ms": [5]}}},
            "retention.ms: expected a string",
        ),
        ("POST", "/topics", [5], "topic: expected a string"),
    ],
)
def test_an_invalid_value_is_reported_with_its_name(
    served: Served, method: str, path: str, document: Any, expected: str
) -> None:
    status, refusal = served.ask(method, path, document)
    assert (status, refusal["error"][: len(expected)]) == (400, expected)
    assert served.ask("GET", RECORDS)[1]["count"] == 0


# --- hostile input


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x00\x00\x00\x17nonsense\r\n\r\n", 400),
        (b"GET / SPDY/3\r\n\r\n", 400),
        (b"GET nothing HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
        (b"POST /reset HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /reset HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (b"POST /reset HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"POST /reset HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /reset HTTP/1.1\r\nContent-Length: 1\r\n\r\n{", 400),
        (b"POST /reset HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000, 400),
        (b"GET / HTTP/1.1\r\nOrigin: https://example.org\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: example.org:80\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: localhost:80\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200),
        (b"GET /%ff%00/\xff?%zz HTTP/1.1\r\n\r\n", 404),
    ],
    ids=lambda it: repr(it[:40]) if isinstance(it, bytes) else str(it),
)
def test_hostile_input_gets_an_error_status_and_the_port_keeps_serving(
    served: Served, request_bytes: bytes, status: int
) -> None:
    assert served.ask_raw(request_bytes).startswith(b"HTTP/1.1 %d " % status)
    assert served.ask("GET", "/")[0] == 200


@pytest.mark.parametrize(
    "request_bytes", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"]
)
def test_no_response_is_sent_after_the_client_disconnects(
    served: Served, request_bytes: bytes
) -> None:
    assert served.ask_raw(request_bytes) == b""


# --- other programs


def test_control_port_serves_curl(served: Served) -> None:
    curl = find_program("curl")
    asked = json.dumps({"rows": ["x" * 1_500_000]})  # so large that it asks for "100 Continue"
    for options, code in (
        (["-d", '{"fault": "drop", "api": "FETCH"}', f"{served.control}/faults"], 201),
        (["-X", "DELETE", f"{served.control}/faults"], 200),
        (["-d", "@-", f"{served.control}/topics/trucks/records"], 409),
    ):
        ran = subprocess.run(
            [curl, "-s", "-o", os.devnull, "-w", "%{http_code}", *options],
            input=asked,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        assert int(ran.stdout) == code


def test_the_curl_examples_of_the_pages_are_valid_requests(served: Served) -> None:
    curl = find_program("curl")
    fault_id = served.ask("POST", "/faults", {"fault": "drop", "api": "JoinGroup"})[1]["id"]
    assert len(CURL_EXAMPLES) > 10
    for example in CURL_EXAMPLES:
        words = shlex.split(example, comments=True)[1:]
        arguments = [
            word.replace("localhost:9099", served.control)
            .replace("/faults/1", f"/faults/{fault_id}")
            .replace("timeout_seconds=10", "timeout_seconds=0.01")
            for word in words
        ]
        ran = subprocess.run(
            [curl, "-s", *arguments], capture_output=True, text=True, timeout=SECONDS, check=True
        )
        found = json.loads(ran.stdout)
        error = found.get("error", "") if isinstance(found, dict) else ""
        # The examples that wait for hits or records time out here.
        assert not error or " of " in error, (example, error)


def test_the_command_adds_waits_for_and_removes_faults(
    served: Served, command: Callable[..., tuple[int, str]]
) -> None:
    exit_code, out = command("faults", "add", "lose_answer", "PRODUCE", "topic=trucks", "--json")
    (fault,) = json.loads(out)
    assert exit_code == 0
    waited = command("faults", "wait", str(fault["id"]), "--timeout", "0.01")
    assert waited[0] == 1
    assert waited[1].startswith("control faults wait: lose the response (PRODUCE, topic trucks)")
    assert command("faults", "check")[0] == 1
    producer = producer_of(served)
    producer.produce("trucks", "x", partition=0)
    producer.poll(0)
    assert command("faults", "wait", str(fault["id"]), "--timeout", "60")[0] == 0
    assert command("faults", "check")[0] == 0
    assert "lose the response" in command("faults", "list")[1]
    assert command("faults", "remove", str(fault["id"]))[0] == 0
    assert producer.flush(SECONDS) == 0
    assert command("faults", "remove", "--all") == (0, "ID  HITS  ACTIVE  FAULT\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("faults", "kinds"), " api topic partition client times "),
        (("clock", "show"), "+00:00\n"),
        (("clock", "advance", "8d"), "+00:00\n"),
        (("clock", "skew", "2h", "--back"), "+00:00\n"),
        (("clock", "freeze"), "(stopped)\n"),
        (("clock", "run"), "+00:00\n"),
        (("state",), " accepts connections\n"),
        (("reset", "--topic", "trucks:2"), "trucks           2\n"),
        (("restart",), " accepts connections\n"),
        (("crash",), " accepts connections\n"),
        (("timeline",), "topic trucks (partitions: 2): empty\n"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, tuple) else "",
)
def test_the_command_prints_the_result(
    command: Callable[..., tuple[int, str]], words: tuple[str, ...], expected: str
) -> None:
    exit_code, out = command(*words)
    assert exit_code == 0, out
    assert expected in out


def test_the_command_waits_for_records(
    served: Served, command: Callable[..., tuple[int, str]]
) -> None:
    served.ask("POST", "/topics/trucks/records", {"rows": ["first"]})
    assert json.loads(command("wait-for", "trucks")[1])["value"] == "first"
    exit_code, out = command("wait-for", "trucks", "--count", "2", "--timeout", "0.01")
    assert (exit_code, out.startswith("control wait-for trucks: trucks has 1 of 2")) == (1, True)


def test_the_command_begins_and_ends_an_outage(
    command: Callable[..., tuple[int, str]],
) -> None:
    assert command("outage", "begin")[1].endswith(" refuses connections\n")
    assert command("outage", "begin")[0] == 1
    assert command("outage", "end")[1].endswith(" accepts connections\n")


def test_an_unknown_fault_is_a_usage_error(command: Callable[..., tuple[int, str]]) -> None:
    exit_code, out = command("faults", "add", "refus")
    assert exit_code == 2
    assert out.startswith("control faults add: unknown fault 'refus'")


def test_a_refused_connection_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert main(["control", "state", "--control", f"127.0.0.1:{port}"]) == 2
    error = capsys.readouterr().err
    assert error == f"control state: cannot connect to 127.0.0.1:{port}: connection refused\n"


# --- off, and not open to others


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.168.0.1:80", "example.org:1"])
def test_only_loopback_addresses_are_accepted(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--control", address])
    assert ended.value.code == 2
    assert "is not a loopback address" in capsys.readouterr().err


def test_a_broker_without_control_port_does_not_import_it(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pykbroker.cli.command_line import read_command_line
from pykbroker.cli import serve
from pykbroker.settings import load_settings
options = read_command_line(["serve", "--data", sys.argv[1], "--listen", "127.0.0.1:0"])
async def start():
    settings = load_settings(*serve.given_properties(options, sys.argv[1]))
    broker = await serve.start_broker(options, settings)
    await broker.stop()
asyncio.run(start())
sys.exit(any(it.startswith(("pykbroker.testing", "http")) for it in sys.modules))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    assert subprocess.run(command, timeout=SECONDS, check=False).returncode == 0
