"""The buffer types of record batches."""

from typing import TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
