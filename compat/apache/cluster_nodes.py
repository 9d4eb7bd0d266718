"""Nodes of an Apache Kafka cluster with one role each: a controller, and brokers."""

from collections.abc import Mapping
from pathlib import Path

from compat.apache.apache_kafka import ApacheKafka, free_port
from compat.apache.tools import ApacheTools

# Without share groups and streams groups, which PyKBroker does not serve.
FEATURES = {"eligible.leader.replicas.version": 1, "share.version": 0, "streams.version": 0}


class ApacheController(ApacheKafka):
    """The only voter of a quorum. Session timeouts of brokers are its settings."""

    format_options = tuple(
        argument
        for name, level in FEATURES.items()
        for argument in ("--feature", f"{name}={level}")
    )

    def __init__(
        self,
        data_dir: Path,
        *,
        node_id: int,
        settings: Mapping[str, object] | None = None,
        heap: str = "160m",
        tools: ApacheTools | None = None,
    ) -> None:
        port = free_port()
        super().__init__(
            data_dir,
            port=port,
            controller_port=port,
            node_id=node_id,
            settings=settings,
            heap=heap,
            tools=tools,
        )

    @property
    def metadata_log(self) -> Path:
        """The first segment of the metadata log, which a test does not fill."""
        return self.data_dir / "__cluster_metadata-0" / f"{0:020d}.log"

    def _properties(self) -> dict[str, object]:
        listener = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "controller",
            "node.id": self.node_id,
            "listeners": listener,
            "advertised.listeners": listener,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{self.controller_port}",
            "log.dirs": self.data_dir,
            **self.settings,
        }


class ApacheBroker(ApacheKafka):
    """A broker of a cluster whose controller is another process."""

    def __init__(
        self,
        data_dir: Path,
        *,
        node_id: int,
        controller: ApacheController,
        settings: Mapping[str, object] | None = None,
        heap: str = "256m",
        tools: ApacheTools | None = None,
    ) -> None:
        super().__init__(data_dir, node_id=node_id, settings=settings, heap=heap, tools=tools)
        self.controller = controller

    def _properties(self) -> dict[str, object]:
        listener = f"PLAINTEXT://{self.bootstrap}"
        voter = f"{self.controller.node_id}@127.0.0.1:{self.controller.controller_port}"
        return {
            "process.roles": "broker",
            "node.id": self.node_id,
            "listeners": listener,
            "advertised.listeners": listener,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voter,
            "log.dirs": self.data_dir,
            **self.settings,
        }
