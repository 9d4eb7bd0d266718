"""The kinds of buffer in which a batch's bytes come."""

from typing import TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
