"""Former name of `pykbroker.testing.inspection`, kept for existing imports."""

from pykbroker.testing.inspection import NotReadable, TooFewRecords, UnknownTopic

__all__ = ["NotReadable", "TooFewRecords", "UnknownTopic"]
