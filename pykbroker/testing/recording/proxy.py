"""`Recorder`: a proxy that records all requests and responses of a cluster in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.testing.recording.relay import Relay
from pykbroker.testing.recording.session import SessionWriter, address_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TextIO

    from pykbroker.testing.recording.relay import Address, Passing


class Recorder(Relay):
    """Records into a new file from `open` to `close`."""

    def __init__(self, file: Path, upstream: Sequence[Address], host: str, port: int) -> None:
        super().__init__(host)
        self._path = file
        self._upstream = tuple(upstream)
        self._port = port
        self._file: TextIO | None = None
        self._writer: SessionWriter | None = None

    async def open(self) -> None:
        """Opens the file and listens. The port is for the first broker; others get free ports."""
        self._file = self._path.open("w", encoding="utf-8")
        self._writer = SessionWriter(self._file, self._upstream)
        for number, address in enumerate(self._upstream):
            await self.listen_for(address, 0 if number else self._port)

    @property
    def bootstrap(self) -> str:
        return ",".join(address_text(self.address_of(it)) for it in self._upstream)

    @property
    def frames_count(self) -> int:
        return 0 if self._writer is None else self._writer.count

    def see(self, passing: Passing) -> None:
        assert self._writer is not None, "open() runs before the first connection"
        self._writer.add(passing)

    async def close(self) -> None:
        await super().close()
        if self._file is not None:
            self._file.close()
