"""Latency, loss and bandwidth between two hosts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Properties of a link. Jitter is drawn for each fragment."""

    latency_seconds: float = 0.0003
    jitter_seconds: float = 0.001
    loss: float = 0.0
    """Probability that a fragment is lost and retransmitted, which takes 0.2 s or more."""
    cuts: float = 0.1
    """Probability that a write arrives in several fragments."""
    bytes_per_second: float = 100e6
