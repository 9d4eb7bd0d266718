"""Downloads jars from a Maven repository, with Maven or with the Ivy that Spark contains."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file
from importlib.resources import files as packaged
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COPY_DEPENDENCIES: Final = (
    "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
)
DOWNLOAD_TIMEOUT_SECONDS: Final = 900.0
REASON_CHARACTERS_MAX: Final = 300
# Maven names `group:artifact:type:version`, Ivy `group#artifact;version: not found`.
MISSING: Final = (
    re.compile(r"Could not find artifact (\S+)"),
    re.compile(r"Failed to read artifact descriptor for ([^\s:]+:[^\s:]+:[^\s:]+:[^\s:]+)"),
    re.compile(r"Could not transfer artifact (\S+)"),
    re.compile(r":: (\S+#\S+;\S+): not found"),
)


class DownloadFailedError(RuntimeError):
    """Raised if one tool cannot download the jars; the message names the reason."""


def by_maven(description: str, versions: Mapping[str, str], target: Path) -> None:
    """Downloads the jars of `description` to `target` with the Maven settings of this user."""
    maven = shutil.which("mvn")
    if maven is None:
        raise DownloadFailedError("mvn is not on the PATH")
    with _shipped(f"{description}.pom.xml") as (pom,):
        command = [maven, "-B", "-q", "-f", str(pom), COPY_DEPENDENCIES]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        _run([*command, *_definitions(versions)])


def by_ivy(description: str, versions: Mapping[str, str], target: Path) -> None:
    """Downloads the jars from Maven Central with the Ivy of pyspark."""
    java = find_java()
    if java is None:
        raise DownloadFailedError("Java is not installed")
    with (
        _shipped("ivysettings.xml", f"{description}.ivy.xml") as (settings, dependencies),
        tempfile.TemporaryDirectory(prefix="pykbroker-ivy-") as scratch,
    ):
        command = [str(java.executable), *_definitions(versions), "-cp", _ivy()]
        command += ["org.apache.ivy.Main", "-settings", str(settings), "-cache", scratch]
        command += ["-ivy", str(dependencies), "-confs", "default", "-types", "jar", "bundle"]
        _run([*command, "-retrieve", f"{target}/[artifact]-[revision].[ext]"])


@contextmanager
def _shipped(*names: str) -> Iterator[list[Path]]:
    """Returns files of this package as paths, also if the package is in an archive."""
    jars = packaged("pykbroker.pipeline") / "jars"
    with ExitStack() as stack:
        yield [stack.enter_context(as_file(jars / name)) for name in names]


def _definitions(versions: Mapping[str, str]) -> list[str]:
    return [f"-D{name}={version}" for name, version in versions.items()]


def _ivy() -> str:
    import pyspark  # noqa: PLC0415  # an extra

    found = sorted(Path(pyspark.__path__[0]).glob("jars/ivy-*.jar"))
    if not found:
        raise DownloadFailedError("pyspark does not contain Ivy")
    return str(found[-1])


def _run(command: Sequence[str]) -> None:
    try:
        result = subprocess.run(  # noqa: S603  # constant words and versions of Spark
            command, check=False, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise DownloadFailedError(f"timed out after {DOWNLOAD_TIMEOUT_SECONDS:.0f} s") from None
    if result.returncode != 0:
        raise DownloadFailedError(failure_reason(result.stdout + result.stderr))


def failure_reason(output: str) -> str:
    """Returns the missing artifacts, the first error line, or the last line of the output."""
    for pattern in MISSING:
        if found := pattern.findall(output):
            return f"not found: {', '.join(dict.fromkeys(found))}"
    lines = [line for line in output.splitlines() if line.strip()]
    reasons = [line for line in lines if "ERROR" in line or "Exception" in line] or lines[-1:]
    return (reasons or ["failed without output"])[0][:REASON_CHARACTERS_MAX]
