"""What is raised when bytes that claim to be a record batch are not one."""


class CorruptBatch(ValueError):
    """The bytes are no whole and well-formed v2 record batch; the message says in what way."""


class TruncatedBatch(CorruptBatch):
    """The bytes end before the batch does: a torn tail, or the cut end of a fetch."""
