"""Whether Spark can run pipelines on this machine, in plain words, and what to do if not."""

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
"""Spark's driver takes 1 GiB for itself by default, and its JVM somewhat more."""
INSTALL: Final = how_to_install("spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is: None stands for what is not there."""

    java: Java | None
    java_home: str | None = None
    """What JAVA_HOME says, which counts instead of the PATH."""
    spark: str | None
    spark_home: str | None = None
    """The version that SPARK_HOME has, which counts instead of pyspark's own."""
    jars: Mapping[JarSet, FoundJars | str | None]
    """By set wanted: the jars, why not, or None if nobody has fetched them yet."""
    memory_bytes: int | None
    worker_python: str
    worker_version: tuple[int, int] | None
    packages_missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at."""

    about: str
    is_fine: bool
    text: str
    remedy: str = ""


def findings(machine: Machine) -> Iterator[Finding]:
    """What is there and what is missing, in the order in which one would mend it."""
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
    remedy = f"install Java {JAVA_VERSION_MIN}, and let JAVA_HOME or the PATH lead to it"
    if java is None and java_home:
        return Finding(
            about="Java",
            is_fine=False,
            text=f"JAVA_HOME is {java_home}, and no Java runs there",
            remedy=f"unset JAVA_HOME, or let it lead to Java {JAVA_VERSION_MIN}",
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
    text = f"{spark}: tried with {SPARK_LINES[0]} to {SPARK_LINES[-1]}, not with this"
    return Finding(about="pyspark", is_fine=False, text=text, remedy=INSTALL)


def spark_home_found(spark_home: str, spark: str) -> Finding:
    text = f"leads to Spark {spark_home}"
    if spark_home == spark:
        return Finding(about="SPARK_HOME", is_fine=True, text=text)
    return Finding(
        about="SPARK_HOME",
        is_fine=False,
        text=f"{text}, but pyspark is {spark}",
        remedy="unset SPARK_HOME, or install the pyspark of its version",
    )


def jars_found(jar_set: JarSet, jars: FoundJars | str | None) -> Finding:
    if jars is None:
        with_them = "" if jar_set == "connector" else f" --with {jar_set}"
        remedy = f"pykbroker pipeline jars{with_them}"
        return Finding(about=jar_set, is_fine=False, text="not fetched yet", remedy=remedy)
    if isinstance(jars, str):
        return Finding(about=jar_set, is_fine=False, text=jars)
    text = f"{len(jars.files)} jars from {jars.origin.value}, {jars.files[0].parent}"
    return Finding(about=jar_set, is_fine=True, text=text)


def memory_found(memory_bytes: int | None) -> Finding:
    if memory_bytes is None:
        return Finding(about="memory", is_fine=True, text="how much is free cannot be seen here")
    text = f"{memory_bytes / (1 << 30):.1f} GiB free"
    if memory_bytes >= MEMORY_BYTES_MIN:
        return Finding(about="memory", is_fine=True, text=text)
    return Finding(
        about="memory",
        is_fine=False,
        text=f"{text}, Spark wants {MEMORY_BYTES_MIN / (1 << 30):.1f}",
        remedy="end something, or let spark.driver.memory be smaller than its default of 1g",
    )


def python_found(python: str, version: tuple[int, int] | None) -> Finding:
    own = sys.version_info[:2]
    about = "Python of the workers"
    if version == own:
        return Finding(about=about, is_fine=True, text=f"{own[0]}.{own[1]}, {python}")
    text = f"{python} does not run" if version is None else f"{python} is {version[0]}.{version[1]}"
    return Finding(
        about=about,
        is_fine=False,
        text=f"{text}; the driver is {own[0]}.{own[1]}, and both must be the same",
        remedy=f"unset PYSPARK_PYTHON, or set it to {sys.executable}",
    )
