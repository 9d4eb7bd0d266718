"""Explains the files of a data directory: what kind each is, what it says, whether it is whole."""

from pykbroker.cli.log_dump.dump import dump

__all__ = ["dump"]
