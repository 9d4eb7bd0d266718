"""Replicas of partitions: appends, reads, high watermarks, and requests that wait for them."""
