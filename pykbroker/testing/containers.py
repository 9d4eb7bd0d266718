"""`PyKBrokerContainer` for testcontainers, with the interface of its `KafkaContainer`.

Needs the extra `containers` (docs/installation.md) and an image built from the Dockerfile.
"""

from __future__ import annotations

import io
import tarfile
import time
from typing import TYPE_CHECKING, Any, Final, Self

from pykbroker.extras import missing_extra

try:
    from testcontainers.core.container import DockerContainer
except ModuleNotFoundError as missing:
    raise missing_extra(missing, "containers") from None

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGE: Final = "pykbroker:latest"
PORT: Final = 9093
INSIDE_LISTENER: Final = "BROKER"
INSIDE_PORT: Final = 9092
READY: Final = b"pykbroker ready"
START_SECONDS: Final = 60
POLL_SECONDS: Final = 0.05


class ContainerNotReady(Exception):
    """Raised if the container exits or the broker is not ready in time; contains the log."""


class PyKBrokerContainer(DockerContainer):
    """A Kafka broker in a container.

    Clients on the host connect to `get_bootstrap_server()`, other containers of the network to
    the network alias, port 9092.
    """

    TC_START_SCRIPT = "/tmp/pykbroker-advertised-listeners"  # noqa: S108  # inside the container
    """The broker waits for this file: the port on the host is known only after the start."""

    def __init__(
        self,
        image: str = IMAGE,
        port: int = PORT,
        *,
        listener_name: str = "PLAINTEXT",
        topics: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(image, **kwargs)
        self.port = port
        self.listener_name = listener_name
        self.cluster_id = ""
        self.topics = list(topics)
        """Topics as in `pykbroker serve --topic`: `trucks:10` has ten partitions."""
        self._aliases: list[str] = list(kwargs.get("network_aliases") or ())
        self.with_exposed_ports(self.port)
        self.with_env(
            "KAFKA_LISTENERS",
            f"{listener_name}://0.0.0.0:{port},{INSIDE_LISTENER}://0.0.0.0:{INSIDE_PORT}",
        )
        self.with_env("PYKBROKER_ADVERTISED_LISTENERS_FILE", self.TC_START_SCRIPT)

    def with_kraft(self) -> Self:
        """Returns self: the broker always uses KRaft. For compatibility with KafkaContainer."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        self.cluster_id = cluster_id
        self.with_env("CLUSTER_ID", cluster_id)
        return self

    def with_topics(self, *topics: str) -> Self:
        """Adds topics to create at the start: `trucks:10` has ten partitions."""
        self.topics += topics
        return self

    def with_network_aliases(self, *aliases: str) -> Self:
        self._aliases = list(aliases)
        super().with_network_aliases(*aliases)
        return self

    def get_bootstrap_server(self) -> str:
        """The address for clients on the host."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def start(self, timeout: float = START_SECONDS) -> Self:
        """Starts the container and returns when the broker is ready."""
        if self.topics:
            self.with_command([word for topic in self.topics for word in ("--topic", topic)])
        super().start()
        try:
            self._announce_address()
            self._wait_until_ready(timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: FBT001, FBT002  # as inherited
        """Removes the container. Idempotent: `with` also stops a container that did not start."""
        super().stop(force, delete_volume)
        self._container = None

    def _announce_address(self) -> None:
        try:
            self.tc_start()
        except Exception:  # the port of an exited container cannot be determined
            self._raise_if_ended()
            raise

    def tc_start(self) -> None:
        """Writes the advertised listeners into the file that the broker waits for."""
        advertised = f"{self.listener_name}://{self.get_bootstrap_server()}"
        if self._aliases:  # without an alias the broker advertises its host name
            advertised += f",{INSIDE_LISTENER}://{self._aliases[0]}:{INSIDE_PORT}"
        self.create_file(f"{advertised}\n".encode(), self.TC_START_SCRIPT)

    def create_file(self, content: bytes, path: str) -> None:
        """Writes a file into the container."""
        with io.BytesIO() as archive, tarfile.TarFile(fileobj=archive, mode="w") as tar:
            member = tarfile.TarInfo(name=path.lstrip("/"))
            member.size, member.mtime, member.mode = len(content), int(time.time()), 0o644
            tar.addfile(member, io.BytesIO(content))
            archive.seek(0)
            self.get_wrapped_container().put_archive("/", archive.getvalue())

    def _wait_until_ready(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        container = self.get_wrapped_container()
        while READY not in (log := container.logs()):
            self._raise_if_ended()
            if time.monotonic() > deadline:
                raise ContainerNotReady(f"broker not ready after {seconds:g} s:\n{as_text(log)}")
            time.sleep(POLL_SECONDS)

    def _raise_if_ended(self) -> None:
        container = self.get_wrapped_container()
        container.reload()
        if container.status in ("exited", "dead"):
            raise ContainerNotReady(f"container exited:\n{as_text(container.logs())}")


def as_text(log: bytes) -> str:
    return log.decode(errors="replace")
