"""The frames of tests/golden with the message and version that their file names state."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pykbroker_protocol.catalog import request_of, response_of

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message

FOLDER = Path(__file__).parents[1] / "golden"


class Golden(NamedTuple):
    name: str
    """The path below `FOLDER`: client and file name."""
    message: type[Message]
    version: int
    is_request: bool

    @property
    def client(self) -> str:
        return self.name.partition("/")[0]

    def read(self) -> bytes:
        return (FOLDER / self.name).read_bytes()


def golden_of(path: Path) -> Golden:
    name = path.relative_to(FOLDER).as_posix()
    found = re.fullmatch(r"[\w-]+/(\d{3})_v(\d+)\.\d\.(req|resp)", name)
    assert found, name
    api_key, version, kind = int(found[1]), int(found[2]), found[3]
    message = request_of(api_key) if kind == "req" else response_of(api_key)
    assert message is not None, name
    return Golden(name, message, version, kind == "req")


GOLDEN = [golden_of(it) for it in sorted(FOLDER.glob("*/*.re*"))]
