"""PyKBrokerContainer behaves like the Kafka container of testcontainers, on a fake engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.fake_engine import Engine


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    from testcontainers.core.config import ConnectionMode, testcontainers_config

    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    # These tests can run in a container, the fake engine does not.
    monkeypatch.setattr(
        testcontainers_config, "connection_mode_override", ConnectionMode.docker_host
    )
    (tmp_path / "tmp").mkdir()
    with Engine(tmp_path) as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        yield engine


def test_a_client_on_the_host_reaches_the_broker_in_the_container(engine: Engine) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    from pykbroker.testing.containers import PyKBrokerContainer

    with PyKBrokerContainer().with_kraft().with_topics("trucks:3") as kafka:
        bootstrap = kafka.get_bootstrap_server()
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        assert len(producer.partitions_for("trucks")) == 3
        producer.send("trucks", b"80", partition=1).get(60)
        producer.close()
        consumer = KafkaConsumer(
            "trucks",
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        assert next(consumer).value == b"80"
        consumer.close()
    assert engine.ended is not None
    assert engine.ended.status == "exited"
    assert engine.requests[-1] == "DELETE /containers/ID"


def test_settings_are_passed_to_the_container(engine: Engine) -> None:
    from pykbroker.testing.containers import PyKBrokerContainer

    container = (
        PyKBrokerContainer("own/image:1", port=9100, listener_name="OUTSIDE")
        .with_cluster_id("MkU3OEVBNTcwNTJENDM2Qk")
        .with_env("KAFKA_LOG_RETENTION_HOURS", "1")
        .with_network_aliases("kafka")
    )
    with container as kafka:
        bootstrap = kafka.get_bootstrap_server()
        process = engine.process
        assert process is not None
        assert process.request["Image"] == "own/image:1"
        assert process.exposed == ["9100/tcp"]
        assert (
            process.variables["KAFKA_LISTENERS"] == "OUTSIDE://0.0.0.0:9100,BROKER://0.0.0.0:9092"
        )
        assert process.variables["KAFKA_LOG_RETENTION_HOURS"] == "1"
        advertised = Path(f"{process.root}{kafka.TC_START_SCRIPT}").read_text()
        assert advertised == f"OUTSIDE://{bootstrap},BROKER://kafka:9092\n"
        log = process.log.read_text()
        assert "cluster=MkU3OEVBNTcwNTJENDM2Qk" in log
        assert f"pykbroker ready bootstrap={bootstrap} " in log


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "soon", r"log\.retention\.hours"),
        # Exits before the port on the host is known.
        ("KAFKA_CFG_NODE_ID", "1", "KAFKA_CFG_NODE_ID is not supported"),
    ],
)
def test_a_container_that_exits_is_removed_and_the_error_contains_its_log(
    engine: Engine, variable: str, value: str, reason: str
) -> None:
    from pykbroker.testing.containers import ContainerNotReady, PyKBrokerContainer

    with (
        pytest.raises(ContainerNotReady, match=reason),
        PyKBrokerContainer().with_env(variable, value),
    ):
        pass
    assert engine.requests.count("DELETE /containers/ID") == 1


def test_the_methods_of_the_kafka_container_exist() -> None:
    from testcontainers.core.container import DockerContainer

    from pykbroker.testing.containers import PyKBrokerContainer

    assert issubclass(PyKBrokerContainer, DockerContainer)
    for name in (
        "with_kraft",
        "with_cluster_id",
        "get_bootstrap_server",
        "tc_start",
        "create_file",
    ):
        assert callable(getattr(PyKBrokerContainer, name))
