"""The checksum (Castagnoli) that guards record batches and snapshots."""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Protocol

from pykbroker_protocol.records.buffers import Bytes


class Checksum(Protocol):
    def __call__(self, data: Bytes, crc: int = 0, /) -> int:
        """Of the data, or of all that `crc` is the checksum of and the data behind it."""
        ...


def _load_checksum() -> Checksum:
    """The function of the package `crc32c`, without the package's own opening.

    That looks its version up among all installed packages, for which it imports `email`,
    `zipfile` and `random`: 40 ms, a good part of a broker's whole start, for one function.
    """
    package = find_spec("crc32c")
    extension = package and PathFinder.find_spec(
        "crc32c._crc32c", package.submodule_search_locations
    )
    if extension and extension.loader:
        module: Any = module_from_spec(extension)
        extension.loader.exec_module(module)
        function: Checksum = module.crc32c
        return function
    from crc32c import crc32c  # noqa: PLC0415 - the plain way, should the package be built anew

    return crc32c


checksum = _load_checksum()
