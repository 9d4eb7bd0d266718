"""DefaultPrincipalData: the principal of a client, as a broker forwards it to a controller.

It is encoded as a version (int16) followed by the message, the format of Kafka's default principal
builder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker_protocol.compiler import MalformedMessage, decode, encode
from pykbroker_protocol.message import Message, boolean, string

if TYPE_CHECKING:
    from pykbroker_protocol.compiler import Buffer

VERSION_BYTES: Final = 2


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string("0+")
    name: str = string("0+")
    token_authenticated: bool = boolean("0+")
    """True if a delegation token authenticated the principal."""


ANONYMOUS: Final = DefaultPrincipalData(type="User", name="ANONYMOUS", token_authenticated=False)
"""The principal of clients on a listener without authentication."""


def encode_principal(principal: DefaultPrincipalData) -> bytes:
    version = DefaultPrincipalData.versions.last
    return version.to_bytes(VERSION_BYTES, "big") + encode(principal, version)


def read_principal(data: Buffer) -> DefaultPrincipalData:
    """Raises MalformedMessage, also for a version that is not declared."""
    if len(data) < VERSION_BYTES:
        raise MalformedMessage("data ends before the version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version not in DefaultPrincipalData.versions:
        raise MalformedMessage(f"principal version {version} is not supported")
    return decode(DefaultPrincipalData, version, data, VERSION_BYTES)
