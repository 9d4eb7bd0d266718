"""The Java that Spark will run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ANSWER_TIMEOUT_SECONDS: Final = 60.0
VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')


class JavaUnavailableError(RuntimeError):
    """Spark cannot start; the message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime, and the number that people call its version."""

    executable: Path
    version: int


@cache
def find_java() -> Java | None:
    """The runtime of JAVA_HOME, else the one on the PATH; where Spark looks, in its order."""
    home = os.environ.get("JAVA_HOME")
    named = str(Path(home) / "bin" / "java") if home else "java"
    executable = shutil.which(named)
    if executable is None:
        return None
    answer = subprocess.run(  # noqa: S603  # what the user's own environment names
        [executable, "-version"],
        check=False,
        capture_output=True,
        text=True,
        timeout=ANSWER_TIMEOUT_SECONDS,
    )
    version = version_in(answer.stderr + answer.stdout)
    return Java(executable=Path(executable), version=version) if version else None


def version_in(answer: str) -> int | None:
    """17 of `openjdk version "17.0.15"`, and 8 of `java version "1.8.0_402"`."""
    found = VERSION.search(answer)
    if found is None:
        return None
    first, second = found.groups()
    return int(second) if first == "1" and second else int(first)
