"""What is raised when bytes that claim to be a record batch are not one."""


class CorruptBatch(ValueError):
    """The bytes are no whole and well-formed v2 record batch; the message says in what way."""


class TruncatedBatch(CorruptBatch):
    """The bytes end before the batch does: a torn tail, or the cut end of a fetch."""


def inflates_too_far(bytes_max: int) -> CorruptBatch:
    """A few bytes that would become gigabytes."""
    return CorruptBatch(f"the records inflate to more than {bytes_max} bytes")
