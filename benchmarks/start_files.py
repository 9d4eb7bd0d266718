"""Writes `start_files.txt`, the files a start reads: `python -m benchmarks.start_files`."""

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pykbroker.cli
from pykbroker.cli.read_ahead import START_FILES

_IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)
_READ_AHEAD = "pykbroker.cli.read_ahead"
"""Modules imported before this one cannot be read ahead."""


def main() -> None:
    target = Path(pykbroker.cli.__path__[0], START_FILES)
    target.write_text("".join(f"{name}\n" for name in loaded_by_a_start()))
    print(target)


def loaded_by_a_start() -> list[str]:
    """Returns the imported modules that have files, in the notation of `read_ahead`."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-X", "importtime", "-m", "pykbroker", "serve"]
        command += ["--listen", "127.0.0.1:0", "--data", f"{directory}/data"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as broker:
            assert broker.stdout is not None
            broker.stdout.readline()
            broker.terminate()
        log.seek(0)
        names = _IMPORTED.findall(log.read())
    return list(_in_files(names[names.index(_READ_AHEAD) + 1 :]))


def _in_files(names: list[str]) -> Iterator[str]:
    for name in names:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):  # modules of other systems, tried by the standard library
            continue
        origin = "" if spec is None else spec.origin or ""
        if origin.endswith(".py"):
            assert spec is not None
            yield name + "." * (spec.submodule_search_locations is not None)
        elif "site-packages" in origin or "lib-dynload" in origin:
            yield f"{name}!"


if __name__ == "__main__":
    main()
