"""The jars that Spark lacks to speak with a broker: found where they lie, or else fetched.

They are looked for in this order: a directory that somebody names, this user's cache, Maven with
the descriptions shipped here, and the Ivy that Spark itself brings along.
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
"""Delta keeps versions of its own; for other lines of Spark nobody has tried one yet."""


class JarSet(StrEnum):
    """What is fetched together."""

    CONNECTOR = "connector"
    DELTA = "delta"
    AVRO = "avro"

    @property
    def artifact(self) -> str:
        """The one without which the others are nothing."""
        return _ARTIFACTS[self]


_ARTIFACTS: Final = {
    JarSet.CONNECTOR: f"spark-sql-kafka-0-10_{SCALA}",
    JarSet.DELTA: f"delta-spark_{SCALA}",
    JarSet.AVRO: f"spark-avro_{SCALA}",
}


class Origin(Enum):
    """Where jars come from."""

    GIVEN = "the directory given"
    CACHE = "the cache"
    MAVEN = "Maven"
    IVY = "Spark's own Ivy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJars:
    """The jars of one set, and who had them."""

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
    wanted: Iterable[JarSet] = (JarSet.CONNECTOR,),
    *,
    directory: Path | None = None,
    token_provider: str | None = None,
) -> list[FoundJars]:
    """The jars of each set wanted; raises `JarsUnavailableError`, which says what is missing.

    `token_provider` is another version of the one artifact that repositories most often lack.
    """
    given = directory or _directory_of_environment()
    if given is not None:
        return [_given(jar_set, given) for jar_set in wanted]
    return [_cached_or_fetched(jar_set, token_provider) for jar_set in wanted]


def jars_in_cache(jar_set: JarSet) -> FoundJars | None:
    """The jars if they are on this machine already; nothing is fetched."""
    given = _directory_of_environment()
    if given is not None:
        return _given(jar_set, given)
    if files := _cache(jar_set).files():
        return FoundJars(jar_set=jar_set, origin=Origin.CACHE, files=files)
    return None


def _directory_of_environment() -> Path | None:
    named = os.environ.get(DIRECTORY_VARIABLE)
    return Path(named).expanduser() if named else None


def _given(jar_set: JarSet, directory: Path) -> FoundJars:
    files = tuple(sorted(directory.glob("*.jar")))
    version = _version_of(jar_set.artifact, files)
    if version is None:
        raise JarsUnavailableError(f"there is no {jar_set.artifact}-….jar in {directory}")
    if jar_set is not JarSet.DELTA and minor_line(version) != minor_line(spark_version()):
        raise JarsUnavailableError(
            f"{jar_set.artifact} in {directory} is of version {version}, Spark of version "
            f"{spark_version()}: the first two numbers must be the same, or every stream fails"
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
        if files := cache.files():  # another process was quicker
            return FoundJars(jar_set=jar_set, origin=Origin.CACHE, files=files)
        origin = _fetch(jar_set, _versions(jar_set, token_provider), scratch)
        return FoundJars(jar_set=jar_set, origin=origin, files=cache.keep(scratch))


def _cache(jar_set: JarSet) -> JarCache:
    return JarCache.of_user(spark_version(), jar_set)


def _versions(jar_set: JarSet, token_provider: str | None) -> dict[str, str]:
    """What the descriptions leave open."""
    spark = spark_version()
    match jar_set:
        case JarSet.CONNECTOR:
            return {"spark": spark, "token.provider": token_provider or spark}
        case JarSet.AVRO:
            return {"spark": spark}
        case JarSet.DELTA if delta := DELTA_OF_LINE.get(minor_line(spark)):
            return {"delta": delta}
    raise JarsUnavailableError(
        f"no version of Delta is known here for Spark {spark}: put its jars and the connector's "
        f"into one directory, and name it by {DIRECTORY_VARIABLE}"
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
            failures.append(f"{origin.value}: it fetched no {jar_set.artifact}")
        for half_done in target.iterdir():
            half_done.unlink()
    raise JarsUnavailableError(_advice(jar_set, versions, failures))


def _advice(jar_set: JarSet, versions: dict[str, str], failures: list[str]) -> str:
    ways_out = f"or put the jars into a directory and name it by {DIRECTORY_VARIABLE}"
    if any("spark-token-provider" in failure for failure in failures):
        ways_out = f"try another version of it with --token-provider 4.0.0, {ways_out}"
    wanted = ", ".join(f"{name} {version}" for name, version in versions.items())
    reasons = "; ".join(failures)
    return f"the jars of the set {jar_set} ({wanted}) could not be had. {reasons}. {ways_out}"
