"""Downloads Apache Kafka with Maven into a cache directory shared by all processes."""

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
"""Maven errors by directory, so that a process tries an unreachable registry only once."""


class ApacheKafkaUnavailableError(MissingToolError):
    """This machine cannot run Apache Kafka; the message says what is missing."""


def install() -> Path:
    """Returns the directory of Apache Kafka's jars; the first call downloads them."""
    java()
    libraries = cache_directory()
    if _is_complete(libraries):
        return libraries
    if libraries in _FAILURES:
        raise ApacheKafkaUnavailableError("mvn", _FAILURES[libraries])
    with _locked(libraries):
        if not _is_complete(libraries):  # another process may have downloaded them meanwhile
            _fetch(libraries)
    return libraries


def cache_directory() -> Path:
    """Returns the directory of the jars: from the environment, or below the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path.home() / ".cache" / "pykbroker" / f"apache-kafka-{KAFKA_VERSION}"


def java() -> str:
    """Returns the path of a Java runtime."""
    return _program("java", "a Java runtime, version 17 or newer")


def _program(name: str, description: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ApacheKafkaUnavailableError(
            name,
            f"Apache Kafka {KAFKA_VERSION} needs {description}, but `{name}` is not on the PATH",
        )
    return found


def _is_complete(libraries: Path) -> bool:
    try:
        return _stamp(libraries).read_text() == _fingerprint()
    except OSError:
        return False


def _stamp(libraries: Path) -> Path:
    return libraries / ".complete"


def _fingerprint() -> str:
    """Returns the digest of pom.xml, which determines the jars."""
    return hashlib.sha256(POM.read_bytes()).hexdigest()


@contextmanager
def _locked(libraries: Path) -> Iterator[None]:
    """Holds the lock of the directory; the kernel releases it if the process dies."""
    libraries.parent.mkdir(parents=True, exist_ok=True)
    with libraries.with_name(libraries.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(libraries: Path) -> None:
    """Downloads to a temporary directory and renames it, so that the result is complete."""
    maven = _program("mvn", "Maven to be fetched")
    with tempfile.TemporaryDirectory(dir=libraries.parent, prefix="fetching-") as scratch:
        fetched = Path(scratch) / "libraries"
        if failure := _copy_dependencies(maven, fetched):
            _FAILURES[libraries] = failure
            raise ApacheKafkaUnavailableError("mvn", failure)
        _stamp(fetched).write_text(_fingerprint())
        if libraries.exists():
            libraries.rename(Path(scratch) / "outdated")
        fetched.rename(libraries)


def _copy_dependencies(maven: str, target: Path) -> str | None:
    """Runs Maven; returns an error message if it fails."""
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
        return f"Maven did not download Apache Kafka within {INSTALL_TIMEOUT_SECONDS} s"
    if result.returncode == 0:
        return None
    return f"Maven cannot download Apache Kafka {KAFKA_VERSION}:\n{result.stdout}{result.stderr}"
