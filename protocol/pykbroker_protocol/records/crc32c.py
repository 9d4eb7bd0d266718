"""CRC32C (Castagnoli), the checksum of record batches and snapshots."""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Protocol

from pykbroker_protocol.records.buffers import Bytes


class Checksum(Protocol):
    def __call__(self, data: Bytes, crc: int = 0, /) -> int:
        """Returns the CRC of the data, or continues `crc` with the data."""
        ...


def _load_checksum() -> Checksum:
    """Returns the function of package `crc32c` without running the package's `__init__`.

    `__init__` looks up the installed version, which imports `email`, `zipfile` and `random`. That
    takes 40 ms, a large part of the start of a broker.
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
    from crc32c import crc32c  # noqa: PLC0415 - fallback if the package changes its layout

    return crc32c


checksum = _load_checksum()
