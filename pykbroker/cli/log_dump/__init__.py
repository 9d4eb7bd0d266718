"""Prints and verifies the files of a data directory."""

from pykbroker.cli.log_dump.dump import dump

__all__ = ["dump"]
