"""The five ways in which the records of one batch are packed together."""

from enum import IntEnum


class Compression(IntEnum):
    """The codec in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
