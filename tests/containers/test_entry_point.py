"""The entry point of the container turns environment variables into properties."""

import os
import signal
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from pykbroker import __version__
from pykbroker.cli.container import (
    OTHER_VARIABLES,
    main,
    options_of,
    own_address,
    properties_of,
    property_name,
    without_controllers,
)
from pykbroker.settings import broker_listeners, load_settings

ENTRY_POINT = [sys.executable, "-P", "-m", "pykbroker.cli.container"]
APACHE_ENVIRONMENT = {  # from the documentation of Apache Kafka's image
    "KAFKA_NODE_ID": "7",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "PLAINTEXT_HOST://0.0.0.0:9092,PLAINTEXT://0.0.0.0:19092,CONTROLLER://:9093",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://kafka:19092",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
    ),
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@localhost:9093",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
}


def properties_set(environment: dict[str, str], *arguments: str) -> dict[str, str]:
    """Returns the properties in the options of `serve`."""
    options = options_of(environment, arguments)
    return dict(after.split("=", 1) for before, after in pairwise(options) if before == "--set")


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("LOG_RETENTION_HOURS", "log.retention.hours"),
        ("SOME__NAME", "some_name"),
        ("SOME___NAME", "some-name"),
        ("LISTENER_NAME_A__B_SSL_KEY", "listener.name.a_b.ssl.key"),
    ],
)
def test_variables_are_mapped_to_properties_as_in_other_images(variable: str, name: str) -> None:
    assert property_name(variable) == name


def test_the_default_has_one_listener_for_the_host_and_one_for_containers() -> None:
    assert properties_set({}) == {
        "listeners": "PLAINTEXT://0.0.0.0:9092,CONTAINER://0.0.0.0:19092",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "group.initial.rebalance.delay.ms": "0",
    }


def test_the_rebalance_delay_is_0_unless_the_environment_sets_it() -> None:
    assert properties_set(APACHE_ENVIRONMENT)["group.initial.rebalance.delay.ms"] == "0"
    delay = {"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "3000"}
    assert properties_set(delay)["group.initial.rebalance.delay.ms"] == "3000"


def test_the_environment_of_apache_kafkas_image_is_accepted() -> None:
    properties = properties_set(APACHE_ENVIRONMENT)
    assert "heap.opts" not in properties
    settings = load_settings(properties)
    assert [it.port for it in broker_listeners(settings)] == [9092, 19092]
    assert settings.node_id == 7
    assert settings.offsets_topic_replication_factor == 1


def test_unknown_properties_are_reported_and_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = properties_set(
        {"KAFKA_LOG_RETENTION_HOUR": "1", "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092"}
    )
    assert "log.retention.hour" not in found
    assert capsys.readouterr().err == (
        "container: unknown property log.retention.hour; did you mean log.retention.hours?; "
        "ignored\n"
    )


def test_other_variables_set_no_properties() -> None:
    assert properties_of({"PATH": "/bin", "LOG_RETENTION_HOURS": "1"}) == {}
    assert (
        properties_of({f"KAFKA_{it.upper().replace('.', '_')}": "x" for it in OTHER_VARIABLES})
        == {}
    )


def test_aliases_of_properties_are_resolved() -> None:
    assert properties_set({"KAFKA_BROKER_ID": "3"})["node.id"] == "3"


def test_controller_listeners_are_removed() -> None:
    assert without_controllers(
        {"listeners": "A://:1, B://:2", "controller.listener.names": "b"}
    ) == {
        "listeners": "A://:1",
        "controller.listener.names": "b",
    }


@pytest.mark.parametrize(
    ("environment", "arguments", "data"),
    [
        ({}, (), "/var/lib/pykbroker"),
        ({"PYKBROKER_DATA": "/elsewhere"}, (), "/elsewhere"),
        ({"KAFKA_LOG_DIRS": "/elsewhere"}, (), None),
        ({}, ("--ephemeral",), None),
        ({}, ("--data", "/mine"), None),
    ],
)
def test_the_data_directory_is_that_of_the_option_or_environment(
    environment: dict[str, str], arguments: tuple[str, ...], data: str | None
) -> None:
    options = options_of(environment, arguments)
    assert (options[options.index("--data") + 1] if "--data" in options else None) == data


@pytest.mark.parametrize(
    ("arguments", "overridden"),
    [
        (("--node-id", "3"), {"node.id"}),
        (("--listen=127.0.0.1:1",), {"listeners", "advertised.listeners"}),
        (("--advertise", "a:1"), {"advertised.listeners"}),
    ],
)
def test_an_option_overrides_the_environment(
    arguments: tuple[str, ...], overridden: set[str]
) -> None:
    assert (
        set(properties_set(APACHE_ENVIRONMENT))
        - set(properties_set(APACHE_ENVIRONMENT, *arguments))
        == overridden
    )


def test_a_file_of_properties_has_its_own_listeners() -> None:
    assert properties_set({}, "--config", "server.properties") == {}


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, "127.0.0.1:9092"),
        (APACHE_ENVIRONMENT, "127.0.0.1:9092"),
        ({"KAFKA_LISTENERS": "A://10.0.0.1:7,B://:8"}, "10.0.0.1:7"),
        (
            {"KAFKA_LISTENERS": "C://:1,A://:2", "KAFKA_CONTROLLER_LISTENER_NAMES": "C"},
            "127.0.0.1:2",
        ),
    ],
)
def test_the_health_check_connects_to_the_first_listener(
    environment: dict[str, str], address: str
) -> None:
    assert own_address(environment) == address


def test_other_commands_run_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:  # bound without listen()
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        assert main(["health", "--timeout", "1"], {"KAFKA_LISTENERS": f"A://{address}"}) == 1
    assert capsys.readouterr().err == f"health: cannot connect to {address}: connection refused\n"
    assert main(["completion", "bash"], {}) == 0


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"], {})
    assert capsys.readouterr().out == f"pykbroker {__version__}\n"


def test_an_invalid_node_id_creates_no_data_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    environment = {"KAFKA_NODE_ID": "x", "CLUSTER_ID": "a", "PYKBROKER_DATA": str(data)}
    assert properties_set(environment)["node.id"] == "x"
    assert not data.exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"KAFKA_LISTENERS": "SSL://:9092"},
            "serve: listener SSL: security protocol SSL is not supported, use PLAINTEXT\n",
        ),
        (
            {"KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.Standard"},
            (
                "serve: authorizer.class.name: authorization is not supported; "
                "remove this property\n"
            ),
        ),
        (
            {"KAFKA_SSL_KEYSTORE_FILENAME": "kafka.jks"},  # a variable of Apache's start script
            "container: ssl.keystore.filename: TLS is not supported; remove this property\n",
        ),
        (
            {"KAFKA_NODE_ID": "1", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1,2@b:1,3@c:1"},
            (
                "serve: controller.quorum.voters=1@a:1,2@b:1,3@c:1: quorums of several controllers "
                "are not supported, only this node (node.id 1) can be a voter; "
                "process.roles=broker joins another quorum\n"
            ),
        ),
        (
            {"KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "192.0.2.1:9093"},
            (
                "serve: controller.quorum.bootstrap.servers=192.0.2.1:9093: quorums of several "
                "controllers are not supported, only this node can be the controller; "
                "process.roles=broker joins another quorum\n"
            ),
        ),
        (
            {"KAFKA_PROCESS_ROLES": "controller"},
            (
                "serve: process.roles=controller: a controller without the role broker is not "
                "supported, use broker or broker,controller\n"
            ),
        ),
        (
            {"KAFKA_PROCESS_ROLES": "broker", "KAFKA_NODE_ID": "4"},
            (
                "serve: process.roles=broker: specify controller.quorum.bootstrap.servers "
                "(--controllers) or controller.quorum.voters\n"
            ),
        ),
        (
            {"KAFKA_CFG_LOG_RETENTION_HOURS": "1"},
            (
                "container: KAFKA_CFG_LOG_RETENTION_HOURS is not supported, "
                "use KAFKA_LOG_RETENTION_HOURS\n"
            ),
        ),
    ],
)
def test_unsupported_properties_that_protect_data_or_access_are_rejected(
    environment: dict[str, str], message: str, tmp_path: Path
) -> None:
    variables = {**os.environ, "PYKBROKER_DATA": str(tmp_path / "data"), **environment}
    ended = subprocess.run(
        ENTRY_POINT, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (2, message)


def test_a_container_starts_is_healthy_and_stops_on_sigterm(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYKBROKER_DATA": str(tmp_path / "data"),
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
    }
    for _ in range(2):  # the second start uses the same data
        port_file = tmp_path / "port"
        port_file.unlink(missing_ok=True)
        with subprocess.Popen(
            [*ENTRY_POINT, "--topic", "trucks:3", "--port-file", str(port_file)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as broker:
            assert broker.stdout is not None
            assert "cluster=MkU3OEVBNTcwNTJENDM2Qk" in broker.stdout.readline()
            listening = f"PLAINTEXT://127.0.0.1:{port_file.read_text().strip()}"
            health = subprocess.run(
                [*ENTRY_POINT, "health"],
                env={**environment, "KAFKA_LISTENERS": listening},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert health.stdout.endswith("3 partitions, 0 without a leader\n"), health
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(60) == 0
