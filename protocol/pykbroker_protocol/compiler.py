"""Turns a declared message into a straight-line reader and writer for one version.

Nothing is interpreted while requests flow: for each (message, version) that is really used, the
declaration is walked once, Python source is written and compiled, and kept. Runs of fixed-size
fields become one `struct` call; arrays become inlined loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykbroker_protocol.message import Message
from pykbroker_protocol.reader_source import ReaderSource
from pykbroker_protocol.source import MalformedMessage, Source, UnsupportedField
from pykbroker_protocol.writer_source import WriterSource

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

__all__ = ["MalformedMessage", "UnsupportedField", "decode", "encode", "reader_of", "writer_of"]

AnyMessage = TypeVar("AnyMessage", bound=Message)
AnyMessage_co = TypeVar("AnyMessage_co", bound=Message, covariant=True)


class Reader(Protocol[AnyMessage_co]):
    def __call__(self, buffer: Buffer, position: int, /) -> tuple[AnyMessage_co, int]: ...


class Writer(Protocol):
    def __call__(self, message: Message, out: bytearray, parts: list[Buffer], /) -> bytearray: ...


def decode(
    message: type[AnyMessage], version: int, buffer: Buffer, position: int = 0
) -> AnyMessage:
    """Read one message; bytes behind it are left alone, as Kafka leaves them."""
    return reader_of(message, version)(buffer, position)[0]


def encode(message: Message, version: int, prefix: bytes = b"") -> bytes:
    """Write one message into a single run of bytes, behind those that stand before it."""
    parts: list[Buffer] = []
    last = writer_of(type(message), version)(message, bytearray(prefix), parts)
    return b"".join((*parts, last)) if parts else bytes(last)


_readers: dict[tuple[type[Message], int], Reader[Any]] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}


def reader_of(message: type[AnyMessage], version: int) -> Reader[AnyMessage]:
    """The reader of a version, compiled at its first use."""
    reader = _readers.get((message, version))
    if reader is None:
        reader = compile_source(ReaderSource(message, version), message, version)
        _readers[message, version] = reader
    return reader


def writer_of(message: type[Message], version: int) -> Writer:
    """The writer of a version, compiled at its first use."""
    writer = _writers.get((message, version))
    if writer is None:
        writer = compile_source(WriterSource(message, version), message, version)
        _writers[message, version] = writer
    return writer


def compile_source(source: Source, message: type[Message], version: int) -> Any:
    assert version in message.versions, f"{message.__name__} has no version {version}"
    text = source.text()
    name = f"<{message.__name__} version {version}>"
    exec(compile(text, name, "exec"), source.names)  # noqa: S102  # made of declarations alone
    return source.names["run"]
