"""A relay that writes down what passes; its clients take it for the cluster."""

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
    """Records from `open` to `close`, into a file of its own."""

    def __init__(self, file: Path, upstream: Sequence[Address], host: str, port: int) -> None:
        super().__init__(host)
        self._path = file
        self._upstream = tuple(upstream)
        self._port = port
        self._file: TextIO | None = None
        self._writer: SessionWriter | None = None

    async def open(self) -> None:
        """The first broker is where it was asked for, the others where there is room."""
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
        assert self._writer is not None, "it is opened before anybody can connect"
        self._writer.add(passing)

    async def close(self) -> None:
        await super().close()
        if self._file is not None:
            self._file.close()
