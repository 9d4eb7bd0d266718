"""Exceptions for bytes that are not a valid record batch."""


class CorruptBatch(ValueError):
    """The bytes are not a valid record batch of format version 2; the message says why."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends before the batch: a torn write or the cut end of a fetch response."""


def decompressed_too_large(bytes_max: int) -> CorruptBatch:
    return CorruptBatch(f"records decompress to more than {bytes_max} bytes")
