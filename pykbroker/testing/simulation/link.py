"""How bytes get from one host to another."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Times in seconds; each piece draws its own jitter."""

    latency_seconds: float = 0.0003
    jitter_seconds: float = 0.001
    loss: float = 0.0
    """The share of pieces that are lost and sent again, which takes 0.2 s or more."""
    cuts: float = 0.1
    """The share of writes that arrive in several pieces."""
    bytes_per_second: float = 100e6
