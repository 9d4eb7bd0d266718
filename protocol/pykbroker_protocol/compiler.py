"""Compiles a declared message to a straight-line reader and writer of one version.

The first use of a (message, version) pair generates Python source from the declaration, compiles it
and caches the function. Adjacent fixed-size fields become one `struct` call, arrays become inlined
loops. Large messages use generators with the same source, which yield after each slice of elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykbroker_protocol.message import Message
from pykbroker_protocol.reader_source import ReaderSource, SlicedReaderSource
from pykbroker_protocol.source import (
    SLICE_ELEMENTS,
    MalformedMessage,
    Source,
    TooManyElements,
    UnsupportedField,
)
from pykbroker_protocol.writer_source import SlicedWriterSource, WriterSource

if TYPE_CHECKING:
    from collections.abc import Generator

    Buffer = bytes | bytearray | memoryview

__all__ = [
    "SLICE_ELEMENTS",
    "MalformedMessage",
    "TooManyElements",
    "UnsupportedField",
    "decode",
    "encode",
    "reader_of",
    "sliced_reader_of",
    "sliced_writer_of",
    "writer_of",
]

AnyMessage = TypeVar("AnyMessage", bound=Message)
AnyMessage_co = TypeVar("AnyMessage_co", bound=Message, covariant=True)


class Reader(Protocol[AnyMessage_co]):
    def __call__(
        self, buffer: Buffer, position: int, elements_max: int = ..., /
    ) -> tuple[AnyMessage_co, int]:
        """Raises TooManyElements before it reads the array that exceeds `elements_max`."""


class SlicedReader(Protocol[AnyMessage_co]):
    def __call__(
        self, buffer: Buffer, position: int, elements_max: int = ..., /
    ) -> Generator[None, None, tuple[AnyMessage_co, int]]: ...


class Writer(Protocol):
    def __call__(
        self, message: Message, out: bytearray, parts: list[Buffer], elements_max: int = ..., /
    ) -> bytearray:
        """Raises TooManyElements before it writes the array that exceeds `elements_max`."""


class SlicedWriter(Protocol):
    def __call__(
        self, message: Message, out: bytearray, parts: list[Buffer], elements_max: int = ..., /
    ) -> Generator[None, None, bytearray]: ...


def decode(
    message: type[AnyMessage], version: int, buffer: Buffer, position: int = 0
) -> AnyMessage:
    """Decodes one message and ignores bytes after it, like Kafka."""
    return reader_of(message, version)(buffer, position)[0]


def encode(message: Message, version: int, prefix: bytes = b"") -> bytes:
    """Encodes one message; returns `prefix` and the message in one buffer."""
    parts: list[Buffer] = []
    last = writer_of(type(message), version)(message, bytearray(prefix), parts)
    return b"".join((*parts, last)) if parts else bytes(last)


_compiled: dict[tuple[type[Source], type[Message], int], Any] = {}


def reader_of(message: type[AnyMessage], version: int) -> Reader[AnyMessage]:
    """Returns the reader of a version, compiled at its first use."""
    reader: Reader[AnyMessage] = compiled(ReaderSource, message, version)
    return reader


def sliced_reader_of(message: type[AnyMessage], version: int) -> SlicedReader[AnyMessage]:
    """Returns the reader as a generator that yields after each slice of elements."""
    reader: SlicedReader[AnyMessage] = compiled(SlicedReaderSource, message, version)
    return reader


def writer_of(message: type[Message], version: int) -> Writer:
    """Returns the writer of a version, compiled at its first use."""
    writer: Writer = compiled(WriterSource, message, version)
    return writer


def sliced_writer_of(message: type[Message], version: int) -> SlicedWriter:
    """Returns the writer as a generator that yields after each slice of elements."""
    writer: SlicedWriter = compiled(SlicedWriterSource, message, version)
    return writer


def compiled(source: type[Source], message: type[Message], version: int) -> Any:
    key = source, message, version
    if key not in _compiled:
        _compiled[key] = compile_source(source(message, version), message, version)
    return _compiled[key]


def compile_source(source: Source, message: type[Message], version: int) -> Any:
    assert version in message.versions, f"{message.__name__} has no version {version}"
    text = source.text()
    name = f"<{message.__name__} version {version}>"
    exec(compile(text, name, "exec"), source.names)  # noqa: S102  # generated from declarations
    return source.names["run"]
