"""The checksum (Castagnoli) that guards record batches and snapshots."""

from crc32c import crc32c as checksum

__all__ = ["checksum"]
