"""Finds or downloads the jars of Spark's Kafka connector, of Delta and of Avro.

Search order: a given directory, the cache of this user, Maven with the POM files of this package,
and the Ivy that Spark contains.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline import jar_download
from pykbroker.pipeline.jar_cache import JarCache, JarsUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

DIRECTORY_VARIABLE: Final = "PYKBROKER_SPARK_JARS"
SCALA: Final = "2.13"
DELTA_OF_LINE: Final = {"4.0": "4.0.0"}
"""Delta versions tested with a line of Spark."""


class JarSet(StrEnum):
    """Jars that are downloaded together."""

    CONNECTOR = "connector"
    DELTA = "delta"
    AVRO = "avro"

    @property
    def artifact(self) -> str:
        """Name of the main jar, which must be in the set."""
        return _ARTIFACTS[self]


_ARTIFACTS: Final = {
    JarSet.CONNECTOR: f"spark-sql-kafka-0-10_{SCALA}",
    JarSet.DELTA: f"delta-spark_{SCALA}",
    JarSet.AVRO: f"spark-avro_{SCALA}",
}


class Origin(Enum):
    """Source of jars."""

    GIVEN = "the directory given"
    CACHE = "the cache"
    MAVEN = "Maven"
    IVY = "Spark's own Ivy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJars:
    """The jars of one set and their origin."""

    jar_set: JarSet
    origin: Origin
    files: tuple[Path, ...]


def spark_version() -> str:
    """Returns the version of pyspark, such as 4.0.0. The import does not start a JVM."""
    import pyspark  # noqa: PLC0415  # an extra; the caller reports that it is missing

    return pyspark.__version__


def minor_line(version: str) -> str:
    """Returns the two numbers that Spark and its connector must share: 4.0 of 4.0.0."""
    return ".".join(version.split(".")[:2])


def find_jars(
    jar_sets: Iterable[JarSet] = (JarSet.CONNECTOR,),
    *,
    directory: Path | None = None,
    token_provider: str | None = None,
) -> list[FoundJars]:
    """Returns the jars of each set; raises `JarsUnavailableError`, which names what is missing.

    `token_provider` selects another version of this artifact, which some repositories lack.
    """
    given = directory or _directory_from_environment()
    if given is not None:
        return [_given(jar_set, given) for jar_set in jar_sets]
    return [_cached_or_fetched(jar_set, token_provider) for jar_set in jar_sets]


def jars_in_cache(jar_set: JarSet) -> FoundJars | None:
    """Returns the jars of the given directory or of the cache; downloads nothing."""
    given = _directory_from_environment()
    if given is not None:
        return _given(jar_set, given)
    if files := _cache(jar_set).files():
        return FoundJars(jar_set=jar_set, origin=Origin.CACHE, files=files)
    return None


def _directory_from_environment() -> Path | None:
    named = os.environ.get(DIRECTORY_VARIABLE)
    return Path(named).expanduser() if named else None


def _given(jar_set: JarSet, directory: Path) -> FoundJars:
    files = tuple(sorted(directory.glob("*.jar")))
    version = _version_of(jar_set.artifact, files)
    if version is None:
        raise JarsUnavailableError(f"{directory} does not contain {jar_set.artifact}-….jar")
    if jar_set is not JarSet.DELTA and minor_line(version) != minor_line(spark_version()):
        raise JarsUnavailableError(
            f"{jar_set.artifact} in {directory} has version {version}, but Spark has version "
            f"{spark_version()}: major and minor version must be equal"
        )
    return FoundJars(jar_set=jar_set, origin=Origin.GIVEN, files=files)


def _version_of(artifact: str, files: Iterable[Path]) -> str | None:
    for file in files:
        if found := re.fullmatch(re.escape(artifact) + r"-(\d[^/]*)\.jar", file.name):
            return found.group(1)
    return None


def _cached_or_fetched(jar_set: JarSet, token_provider: str | None) -> FoundJars:
    cache = _cache(jar_set)
    if files := cache.files():
        return FoundJars(jar_set=jar_set, origin=Origin.CACHE, files=files)
    with cache.filling() as scratch:
        if files := cache.files():  # another process has filled it
            return FoundJars(jar_set=jar_set, origin=Origin.CACHE, files=files)
        origin = _fetch(jar_set, _versions(jar_set, token_provider), scratch)
        return FoundJars(jar_set=jar_set, origin=origin, files=cache.keep(scratch))


def _cache(jar_set: JarSet) -> JarCache:
    return JarCache.of_user(spark_version(), jar_set)


def _versions(jar_set: JarSet, token_provider: str | None) -> dict[str, str]:
    """Returns the versions that the POM and Ivy files take as parameters."""
    spark = spark_version()
    match jar_set:
        case JarSet.CONNECTOR:
            return {"spark": spark, "token.provider": token_provider or spark}
        case JarSet.AVRO:
            return {"spark": spark}
        case JarSet.DELTA if delta := DELTA_OF_LINE.get(minor_line(spark)):
            return {"delta": delta}
    raise JarsUnavailableError(
        f"no Delta version is tested with Spark {spark}: copy its jars and those of the connector "
        f"to one directory and set {DIRECTORY_VARIABLE} to it"
    )


def _fetch(jar_set: JarSet, versions: dict[str, str], target: Path) -> Origin:
    failures = []
    for origin, fetch in ((Origin.MAVEN, jar_download.by_maven), (Origin.IVY, jar_download.by_ivy)):
        try:
            fetch(jar_set, versions, target)
        except jar_download.DownloadFailedError as failure:
            failures.append(f"{origin.value}: {failure}")
        else:
            if _version_of(jar_set.artifact, target.iterdir()) is not None:
                return origin
            failures.append(f"{origin.value}: {jar_set.artifact} was not downloaded")
        for partial in target.iterdir():
            partial.unlink()
    raise JarsUnavailableError(_advice(jar_set, versions, failures))


def _advice(jar_set: JarSet, versions: dict[str, str], failures: list[str]) -> str:
    remedy = f"copy the jars to a directory and set {DIRECTORY_VARIABLE} to it"
    if any("spark-token-provider" in failure for failure in failures):
        remedy = f"use another version of it with --token-provider 4.0.0, or {remedy}"
    parameters = ", ".join(f"{name} {version}" for name, version in versions.items())
    reasons = "; ".join(failures)
    summary = f"jars of the set {jar_set} ({parameters}) cannot be downloaded"
    return f"{summary}. {reasons}. To fix: {remedy}"
