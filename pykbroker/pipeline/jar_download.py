"""Jars from a Maven repository: by Maven if it is installed, else by the Ivy inside Spark."""

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
FETCH_TIMEOUT_SECONDS: Final = 900.0
COMPLAINT_CHARACTERS_MAX: Final = 300
# Maven names `group:artifact:type:version`, Ivy `group#artifact;version: not found`.
MISSING: Final = (
    re.compile(r"Could not find artifact (\S+)"),
    re.compile(r"Failed to read artifact descriptor for ([^\s:]+:[^\s:]+:[^\s:]+:[^\s:]+)"),
    re.compile(r"Could not transfer artifact (\S+)"),
    re.compile(r":: (\S+#\S+;\S+): not found"),
)


class DownloadFailedError(RuntimeError):
    """One way of fetching failed; the message says why."""


def by_maven(description: str, versions: Mapping[str, str], target: Path) -> None:
    """Copy the jars that `description` names into `target`; heeds the settings of Maven's user."""
    maven = shutil.which("mvn")
    if maven is None:
        raise DownloadFailedError("there is no mvn on the PATH")
    with _shipped(f"{description}.pom.xml") as (pom,):
        command = [maven, "-B", "-q", "-f", str(pom), COPY_DEPENDENCIES]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        _run([*command, *_definitions(versions)])


def by_ivy(description: str, versions: Mapping[str, str], target: Path) -> None:
    """The same from Maven Central alone, without anything that Spark does not bring along."""
    java = find_java()
    if java is None:
        raise DownloadFailedError("there is no Java")
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
    """Files of this package as files, wherever the package lies."""
    jars = packaged("pykbroker.pipeline") / "jars"
    with ExitStack() as stack:
        yield [stack.enter_context(as_file(jars / name)) for name in names]


def _definitions(versions: Mapping[str, str]) -> list[str]:
    return [f"-D{name}={version}" for name, version in versions.items()]


def _ivy() -> str:
    import pyspark  # noqa: PLC0415  # an extra, looked for when its jars are wanted

    found = sorted(Path(pyspark.__path__[0]).glob("jars/ivy-*.jar"))
    if not found:
        raise DownloadFailedError("this Spark brings no Ivy along")
    return str(found[-1])


def _run(command: Sequence[str]) -> None:
    try:
        result = subprocess.run(  # noqa: S603  # the words are ours, versions are Spark's
            command, check=False, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise DownloadFailedError(f"it did not end within {FETCH_TIMEOUT_SECONDS:.0f} s") from None
    if result.returncode != 0:
        raise DownloadFailedError(complaint(result.stdout + result.stderr))


def complaint(output: str) -> str:
    """Which artifact is missing, or the first thing that looks like a reason."""
    for pattern in MISSING:
        if found := pattern.findall(output):
            return f"there is no {', '.join(dict.fromkeys(found))}"
    lines = [line for line in output.splitlines() if line.strip()]
    reasons = [line for line in lines if "ERROR" in line or "Exception" in line] or lines[-1:]
    return (reasons or ["it failed without a word"])[0][:COMPLAINT_CHARACTERS_MAX]
