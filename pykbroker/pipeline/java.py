"""Finds the Java runtime that Spark uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

VERSION_TIMEOUT_SECONDS: Final = 60.0
VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')


class JavaUnavailableError(RuntimeError):
    """Raised if Spark cannot start; the message names what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime and its feature release, such as 17."""

    executable: Path
    version: int


@cache
def find_java() -> Java | None:
    """Returns the runtime of JAVA_HOME, otherwise that of the PATH, like Spark does."""
    home = os.environ.get("JAVA_HOME")
    named = str(Path(home) / "bin" / "java") if home else "java"
    executable = shutil.which(named)
    if executable is None:
        return None
    completed = subprocess.run(  # noqa: S603  # from the environment of the user
        [executable, "-version"],
        check=False,
        capture_output=True,
        text=True,
        timeout=VERSION_TIMEOUT_SECONDS,
    )
    version = version_in(completed.stderr + completed.stdout)
    return Java(executable=Path(executable), version=version) if version else None


def version_in(output: str) -> int | None:
    """Returns 17 for `openjdk version "17.0.15"` and 8 for `java version "1.8.0_402"`."""
    found = VERSION.search(output)
    if found is None:
        return None
    first, second = found.groups()
    return int(second) if first == "1" and second else int(first)
