"""The suite itself: manifests, client programs, relay, reference client, reports."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from compat.broker_process import BrokerProcess
from compat.suite import html_report, junit_report, markdown_report, terminal
from compat.suite.actor import Actor, CannotError
from compat.suite.commands import COMMANDS, required_features
from compat.suite.line_process import ClientError, LineProcess, ProgramFailedError
from compat.suite.manifest import BadManifestError, read_manifest
from compat.suite.recording import FRAMES_MAX, Frame, Recording, malformed
from compat.suite.reference_client import ReferenceClient
from compat.suite.relay import Relays, Which
from compat.suite.results import Cell, Outcome, Results, ShownFrame
from compat.wire import Closed, Wire
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]
README = CHECKOUT.joinpath("compat/README.md").read_text()
MANIFEST = """
name = "fake"
language = "Python"
run = ["{python}", "{here}/program.py"]
[versions."1"]
why = "a test"
[cannot]
"produce.headers" = "no headers"
"open_producer.acks=0" = "always waits for acks"
"""
PROGRAM = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    match command["do"]:
        case "hello": answer = {"ok": {"client": "fake", "version": "1"}}
        case "list_topics": answer = {"error": {"code": 36, "text": "there"}}
        case "list_groups": answer = {"error": {"code": "TIMED_OUT", "text": "late"}}
        case "describe_cluster": sys.exit(3)
        case "begin": print("no answer", flush=True); continue
        case "commit_transaction": continue
        case _: answer = {"ok": {}}
    print(json.dumps({"id": command["id"], **answer}), flush=True)
"""


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Actor]:
    manifest = tmp_path / "client.toml"
    manifest.write_text(MANIFEST)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (client,) = read_manifest(manifest)
    process = LineProcess(client, [sys.executable, str(program)], tmp_path / "errors")
    yield Actor("fake", process, "127.0.0.1:1", float("inf"), [])
    process.end()


# --- manifests


def test_unknown_command_option_in_a_manifest_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "client.toml"
    file.write_text(MANIFEST + '"produce.colour" = "none"\n')
    with pytest.raises(BadManifestError, match=r"produce\.colour"):
        list(read_manifest(file))


def test_readme_documents_every_command_and_option() -> None:
    for command, options in COMMANDS.items():
        assert f"`{command}`" in README, command
        for option in options:
            assert re.search(rf"\b{option}\b", README), f"{command}.{option}"


def test_required_features_are_named_as_in_manifests() -> None:
    features = required_features(
        "open_producer", {"acks": "0", "idempotent": False, "linger_ms": None}
    )
    assert features == {"open_producer", "open_producer.acks", "open_producer.acks=0"}
    record = {"topic": "t", "headers": [["h", None]], "key": None}
    assert "produce.headers" in required_features("produce", {"records": [record]})
    assert "produce.key" not in required_features("produce", {"records": [record]})


# --- programs


def test_numeric_error_codes_are_converted_to_names(fake: Actor) -> None:
    assert fake.refused("list_topics", "a").code == "TOPIC_ALREADY_EXISTS"
    assert fake.refused("list_groups", "a").code == "TIMED_OUT"
    with pytest.raises(ClientError, match="TIMED_OUT: late"):
        fake.do("list_groups", "a")


def test_commands_with_missing_features_are_not_sent(fake: Actor) -> None:
    with pytest.raises(CannotError, match="always waits for acks"):
        fake.open_producer(acks="0")
    fake.open_producer(acks="1")


def test_error_of_an_exited_program_contains_its_exit_code(fake: Actor) -> None:
    with pytest.raises(ProgramFailedError, match="exited with code 3"):
        fake.do("describe_cluster", "a")


def test_program_with_an_invalid_response_is_killed(fake: Actor) -> None:
    with pytest.raises(ProgramFailedError, match="invalid response"):
        fake.do("begin", "p")
    assert not fake.process.is_running


def test_program_without_a_response_is_killed(fake: Actor) -> None:
    fake.begin_to("commit_transaction", "p")
    with pytest.raises(ProgramFailedError, match="did not respond"):
        fake.process.receive(0.05)
    assert not fake.process.is_running


# --- the relay


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("relayed") / "data") as node:
        yield node


def ask_for_metadata(port: int) -> tuple[str, int]:
    with Wire(port) as wire:
        (node,) = wire.ask(MetadataRequest(topics=[]), 12).brokers
        return node.host, node.port


def test_relay_replaces_broker_addresses_and_records_frames(broker: BrokerProcess) -> None:
    address = ("127.0.0.1", broker.port)
    with Relays() as relays:
        relay = relays.open([address])
        here = relay.address_of(address)
        assert ask_for_metadata(here[1]) == here
        request, response = relay.recording.frames
        assert (request.api, request.is_request, request.client_id) == ("Metadata", True, "test")
        assert f"port: {broker.port}" in "\n".join(response.explanation())
        assert not malformed(relay.recording.frames)
        relay.close()


def test_recording_keeps_the_last_frames_and_counts_all_requests() -> None:
    recording = Recording()
    fetch = Frame(
        at_seconds=0.0,
        connection=1,
        api_key=ApiKey.FETCH,
        version=12,
        correlation_id=1,
        is_request=True,
        size=0,
        content=b"",
    )
    for number in range(FRAMES_MAX + 5):
        recording.keep(replace(fetch, correlation_id=number))
    recording.keep(replace(fetch, is_request=False))
    assert len(recording.frames) == FRAMES_MAX
    assert recording.requests == {ApiKey.FETCH: FRAMES_MAX + 5}


@pytest.mark.parametrize("which", Which)
def test_relay_closes_a_connection_in_the_middle_of_a_frame(
    broker: BrokerProcess, which: Which
) -> None:
    address = ("127.0.0.1", broker.port)
    with Relays() as relays:
        relay = relays.open([address])
        relay.cut(ApiKey.METADATA, which, after_bytes=7)
        with pytest.raises(Closed):
            ask_for_metadata(relay.address_of(address)[1])
        assert relay.cuts_done == 1
        assert ask_for_metadata(relay.address_of(address)[1])
        relay.close()


def test_relay_closes_connections_to_an_unreachable_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Relays() as relays:
        relay = relays.open([("127.0.0.1", port)])
        with pytest.raises(Closed):
            ask_for_metadata(relay.address_of(("127.0.0.1", port))[1])
        relay.close()


def test_reference_client_reads_its_own_records(broker: BrokerProcess) -> None:
    reference = ReferenceClient("127.0.0.1", broker.port)
    reference.create_topic("seen", 2, {"retention.ms": "1000000"})
    offset = reference.write("seen", [{"key": b"k", "value": None}, {"value": b"v"}], partition=1)
    assert offset == 0
    found = reference.records("seen", 1)
    assert [(it.offset, it.key, it.value) for it in found] == [(0, b"k", None), (1, None, b"v")]
    reference.close()


# --- reports


def cell(client: str, outcome: Outcome, **more: Any) -> Cell:
    return Cell(client=client, scenario="one", broker="PyKBroker 1", outcome=outcome, **more)


def results() -> Results:
    frame = ShownFrame(headline="→ Produce v9", lines=("@0 <acks>: -1",))
    return Results(
        day="2026-01-01",
        seconds=1.5,
        suite="1",
        machine="a machine",
        clients=("fake 1", "other 2"),
        brokers=("PyKBroker 1",),
        scenarios=(("one", "subject", "One is one."),),
        cells=(
            cell("fake 1", Outcome.PASSED),
            cell(
                "other 2",
                Outcome.FAILED,
                reason="found <2> \x00\nexpected 1",
                frames=(frame,),
                steps=(("a", "produce", "{}"),),
            ),
        ),
    )


def test_results_are_equal_after_writing_and_reading(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    results().write(file)
    assert Results.read(file) == results()


def test_junit_report_counts_failures_and_contains_no_forbidden_characters() -> None:
    suites = ET.fromstring(junit_report.report(results()))
    assert [(it.get("tests"), it.get("failures")) for it in suites] == [("1", "0"), ("1", "1")]
    failure = suites.find(".//failure")
    assert failure is not None
    assert "→ Produce v9" in (failure.text or "")


def test_html_report_shows_frames_of_failures_and_escapes_text() -> None:
    output = html_report.report(results())
    assert "→ Produce v9" in output
    assert "@0 &lt;acks&gt;" in output
    assert "<2>" not in output
    assert 'href="#one-other-2-PyKBroker-1"' in output
    assert 'id="one-other-2-PyKBroker-1"' in output


def test_markdown_report_has_a_row_for_each_scenario() -> None:
    output = markdown_report.report(results())
    assert "| **one**: One is one. | ✓ | ✗ |" in output
    assert "found <2>" in output


def test_run_without_available_clients_has_not_run() -> None:
    untried = [cell(it, Outcome.NOT_TRIED, reason="no such tool") for it in ("fake 1", "other 2")]
    assert not replace(results(), cells=tuple(untried)).has_run()
    assert results().has_run()
    assert "no such tool" in terminal.progress(untried[0])


def test_installed_command_without_a_checkout_names_the_reason(tmp_path: Path) -> None:
    packages = os.pathsep.join(str(CHECKOUT / it) for it in ("protocol", "storage"))
    shutil.copytree(CHECKOUT / "pykbroker", tmp_path / "pykbroker")  # without `compat`
    code = "import sys; from pykbroker.cli.compat_suite import main; sys.exit(main())"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": packages},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "only available in a checkout" in ran.stderr
