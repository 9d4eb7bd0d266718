"""Brings Apache Kafka from Maven into a cache directory, once for all who ask."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat.missing_tool import MissingToolError

KAFKA_VERSION = "4.3.1"
CACHE_VARIABLE = "PYKBROKER_APACHE_KAFKA"
INSTALL_TIMEOUT_SECONDS = 900
LOGGING = Path(__file__).with_name("log4j2.yaml")
POM = Path(__file__).with_name("pom.xml")


_FAILURES: dict[Path, str] = {}
"""Why Maven failed, by directory: a process asks an unreachable registry only once."""


class ApacheKafkaUnavailableError(MissingToolError):
    """This machine cannot run Apache Kafka; the message says what is missing."""


def install() -> Path:
    """Return the directory of Apache Kafka's jars, fetched by the first call on this machine."""
    java()
    libraries = cache_directory()
    if _is_complete(libraries):
        return libraries
    if libraries in _FAILURES:
        raise ApacheKafkaUnavailableError("mvn", _FAILURES[libraries])
    with _alone(libraries):
        if not _is_complete(libraries):  # another process may have been quicker
            _fetch(libraries)
    return libraries


def cache_directory() -> Path:
    """Where the jars lie: the environment's choice, else below the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path.home() / ".cache" / "pykbroker" / f"apache-kafka-{KAFKA_VERSION}"


def java() -> str:
    """Return the path of a Java runtime."""
    return _program("java", "a Java runtime, version 17 or newer")


def _program(name: str, description: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ApacheKafkaUnavailableError(
            name,
            f"Apache Kafka {KAFKA_VERSION} needs {description}; there is no `{name}` on the PATH",
        )
    return found


def _is_complete(libraries: Path) -> bool:
    try:
        return _stamp(libraries).read_text() == _recipe()
    except OSError:
        return False


def _stamp(libraries: Path) -> Path:
    return libraries / ".complete"


def _recipe() -> str:
    """A changed pom.xml means other jars, so its digest marks what was fetched."""
    return hashlib.sha256(POM.read_bytes()).hexdigest()


@contextmanager
def _alone(libraries: Path) -> Iterator[None]:
    """Let one process at a time fetch; the lock goes with its holder, even a killed one."""
    libraries.parent.mkdir(parents=True, exist_ok=True)
    with libraries.with_name(libraries.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(libraries: Path) -> None:
    """Fetch beside the final place and move there at the end: nobody ever sees half of it."""
    maven = _program("mvn", "Maven to be fetched")
    with tempfile.TemporaryDirectory(dir=libraries.parent, prefix="fetching-") as scratch:
        fetched = Path(scratch) / "libraries"
        if failure := _copy_dependencies(maven, fetched):
            _FAILURES[libraries] = failure
            raise ApacheKafkaUnavailableError("mvn", failure)
        _stamp(fetched).write_text(_recipe())
        if libraries.exists():
            libraries.rename(Path(scratch) / "outdated")
        fetched.rename(libraries)


def _copy_dependencies(maven: str, target: Path) -> str | None:
    """Run Maven; return why it failed, if it did."""
    command = [maven, "--quiet", "--batch-mode", "--file", str(POM)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    try:
        result = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"Maven did not fetch Apache Kafka within {INSTALL_TIMEOUT_SECONDS} s"
    if result.returncode == 0:
        return None
    return f"Maven could not fetch Apache Kafka {KAFKA_VERSION}:\n{result.stdout}{result.stderr}"
