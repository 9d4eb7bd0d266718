"""Checks whether Spark can run pipelines on this machine, with a remedy for each problem."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykbroker.extras import how_to_install
from pykbroker.pipeline.spark_jars import minor_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pykbroker.pipeline.java import Java
    from pykbroker.pipeline.spark_jars import FoundJars, JarSet

JAVA_VERSION_MIN: Final = 17
SPARK_LINES: Final = ("4.0", "4.1", "4.2")
MEMORY_BYTES_MIN: Final = 1536 << 20
"""Default heap of Spark's driver (1 GiB) plus the overhead of its JVM."""
INSTALL: Final = how_to_install("spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Result of the inspection of a machine; None means missing."""

    java: Java | None
    java_home: str | None = None
    """Value of JAVA_HOME; overrides the PATH."""
    spark: str | None
    spark_home: str | None = None
    """Version of the Spark in SPARK_HOME; overrides that of pyspark."""
    jars: Mapping[JarSet, FoundJars | str | None]
    """By requested set: its jars, an error message, or None if they are not downloaded yet."""
    memory_bytes: int | None
    worker_python: str
    worker_version: tuple[int, int] | None
    packages_missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check."""

    about: str
    is_fine: bool
    text: str
    remedy: str = ""


def findings(machine: Machine) -> Iterator[Finding]:
    """Yields the result of each check, in the order in which to fix problems."""
    yield java_found(machine.java, machine.java_home)
    yield spark_found(machine.spark)
    if machine.spark_home is not None and machine.spark is not None:
        yield spark_home_found(machine.spark_home, machine.spark)
    if machine.spark is not None:
        for jar_set, jars in machine.jars.items():
            yield jars_found(jar_set, jars)
    yield memory_found(machine.memory_bytes)
    yield python_found(machine.worker_python, machine.worker_version)
    for package in machine.packages_missing:
        yield Finding(about=package, is_fine=False, text="is not installed", remedy=INSTALL)


def java_found(java: Java | None, java_home: str | None) -> Finding:
    remedy = f"install Java {JAVA_VERSION_MIN} and set JAVA_HOME or the PATH to it"
    if java is None and java_home:
        return Finding(
            about="Java",
            is_fine=False,
            text=f"JAVA_HOME is {java_home}, which does not contain a working Java",
            remedy=f"unset JAVA_HOME or set it to Java {JAVA_VERSION_MIN}",
        )
    if java is None:
        return Finding(about="Java", is_fine=False, text="is not installed", remedy=remedy)
    text = f"{java.version}, {java.executable}"
    if java.version < JAVA_VERSION_MIN:
        text += f": too old, Spark 4 needs {JAVA_VERSION_MIN} or newer"
        return Finding(about="Java", is_fine=False, text=text, remedy=remedy)
    return Finding(about="Java", is_fine=True, text=text)


def spark_found(spark: str | None) -> Finding:
    if spark is None:
        return Finding(about="pyspark", is_fine=False, text="is not installed", remedy=INSTALL)
    if minor_line(spark) in SPARK_LINES:
        return Finding(about="pyspark", is_fine=True, text=spark)
    text = f"{spark} is not tested, use {SPARK_LINES[0]} to {SPARK_LINES[-1]}"
    return Finding(about="pyspark", is_fine=False, text=text, remedy=INSTALL)


def spark_home_found(spark_home: str, spark: str) -> Finding:
    text = f"contains Spark {spark_home}"
    if spark_home == spark:
        return Finding(about="SPARK_HOME", is_fine=True, text=text)
    return Finding(
        about="SPARK_HOME",
        is_fine=False,
        text=f"{text}, but pyspark is {spark}",
        remedy="unset SPARK_HOME or install pyspark of the same version",
    )


def jars_found(jar_set: JarSet, jars: FoundJars | str | None) -> Finding:
    if jars is None:
        with_them = "" if jar_set == "connector" else f" --with {jar_set}"
        remedy = f"pykbroker pipeline jars{with_them}"
        return Finding(about=jar_set, is_fine=False, text="not downloaded yet", remedy=remedy)
    if isinstance(jars, str):
        return Finding(about=jar_set, is_fine=False, text=jars)
    text = f"{len(jars.files)} jars from {jars.origin.value}, {jars.files[0].parent}"
    return Finding(about=jar_set, is_fine=True, text=text)


def memory_found(memory_bytes: int | None) -> Finding:
    if memory_bytes is None:
        return Finding(about="memory", is_fine=True, text="free memory is unknown on this system")
    text = f"{memory_bytes / (1 << 30):.1f} GiB free"
    if memory_bytes >= MEMORY_BYTES_MIN:
        return Finding(about="memory", is_fine=True, text=text)
    return Finding(
        about="memory",
        is_fine=False,
        text=f"{text}, Spark needs {MEMORY_BYTES_MIN / (1 << 30):.1f}",
        remedy="stop other programs or set spark.driver.memory below its default of 1g",
    )


def python_found(python: str, version: tuple[int, int] | None) -> Finding:
    own = sys.version_info[:2]
    about = "worker Python"
    if version == own:
        return Finding(about=about, is_fine=True, text=f"{own[0]}.{own[1]}, {python}")
    text = f"{python} does not run" if version is None else f"{python} is {version[0]}.{version[1]}"
    return Finding(
        about=about,
        is_fine=False,
        text=f"{text}; the driver is {own[0]}.{own[1]}, and both versions must be equal",
        remedy=f"unset PYSPARK_PYTHON or set it to {sys.executable}",
    )
