"""The real frames of tests/golden, and what their names say of them."""

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
    message: type[Message]
    version: int
    is_request: bool

    def read(self) -> bytes:
        return (FOLDER / self.name).read_bytes()


def golden_of(path: Path) -> Golden:
    found = re.fullmatch(r"(\d{3})_v(\d+)\.[\w-]+\.(req|resp)", path.name)
    assert found, path.name
    api_key, version, kind = int(found[1]), int(found[2]), found[3]
    message = request_of(api_key) if kind == "req" else response_of(api_key)
    assert message is not None, path.name
    return Golden(path.name, message, version, kind == "req")


GOLDEN = [golden_of(it) for it in sorted(FOLDER.glob("*.re*"))]
