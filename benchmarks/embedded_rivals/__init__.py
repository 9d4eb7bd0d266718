"""A broker for tests beside its rivals: `python -m benchmarks.embedded_rivals`."""
