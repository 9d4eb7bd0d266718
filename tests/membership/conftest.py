"""A metadata follower in a directory of its own, under the controllers of a test."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pykbroker.address import Address
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.membership.controller_quorum import ControllerQuorum
from pykbroker.membership.metadata_follower import MetadataFollower
from pykbroker.membership.quorum_view import QuorumView
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log_directory import LogDirectory

CLUSTER_ID = "PyKBrokerCompatibility"
NODE_ID = 7
TIMEOUT_SECONDS = 2.0


class Followers:
    """Starts followers in one directory, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._directory: LogDirectory | None = None
        self._follower: MetadataFollower | None = None
        self._quorum: ControllerQuorum | None = None

    @property
    def metadata(self) -> Path:
        return self.path / "__cluster_metadata-0"

    def log_bytes(self) -> bytes:
        return b"".join(it.read_bytes() for it in sorted(self.metadata.glob("*.log")))

    async def start(
        self, *controllers: Address, cluster_id: str = CLUSTER_ID, **more: Any
    ) -> MetadataFollower:
        self._directory = LogDirectory.open(
            str(self.path),
            cluster_id=cluster_id,
            node_id=NODE_ID,
            new_directory_id=b"directory of 007",
            configuration=LogConfiguration(),
        )
        self._quorum = ControllerQuorum(
            QuorumView(seeds=controllers),
            ConnectionOptions(timeout_seconds=TIMEOUT_SECONDS),
            cluster_id=cluster_id,
        )
        self._follower = await MetadataFollower.open(
            self._directory,
            self._quorum,
            node_id=NODE_ID,
            cluster_id=cluster_id,
            fetch_timeout_seconds=TIMEOUT_SECONDS,
            **more,
        )
        return self._follower

    async def stop(self) -> None:
        """Stops like a broker that is shut down."""
        await self._end()
        if self._directory is not None:
            self._directory.close({}, now_ms=0)
            self._directory = None

    async def crash(self) -> None:
        """Stops without writing anything."""
        await self._end()
        if self._directory is not None:
            self._directory.abandon()
            self._directory = None

    async def _end(self) -> None:
        if self._follower is not None:
            await self._follower.close()
        if self._quorum is not None:
            await self._quorum.close()
        self._follower = self._quorum = None


@pytest.fixture
async def followers(tmp_path: Path) -> AsyncIterator[Followers]:
    followers = Followers(tmp_path / "observer")
    yield followers
    await followers.crash()
