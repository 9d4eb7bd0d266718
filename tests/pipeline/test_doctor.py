"""Results of `pipeline doctor`."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pykbroker.cli.main import main
from pykbroker.pipeline.doctor import Machine, findings
from pykbroker.pipeline.java import Java, version_in
from pykbroker.pipeline.spark_jars import FoundJars, JarSet, Origin

OWN = sys.version_info[:2]
JARS = FoundJars(
    jar_set=JarSet.CONNECTOR, origin=Origin.CACHE, files=(Path("/jars/a.jar"), Path("/jars/b.jar"))
)
COMPLETE = Machine(
    java=Java(executable=Path("/usr/bin/java"), version=17),
    spark="4.0.0",
    jars={JarSet.CONNECTOR: JARS},
    memory_bytes=8 << 30,
    worker_python="/usr/bin/python3",
    worker_version=OWN,
)


def test_complete_machine_passes() -> None:
    found = list(findings(COMPLETE))
    assert all(finding.is_fine for finding in found)
    assert [finding.about for finding in found] == [
        "Java",
        "pyspark",
        "connector",
        "memory",
        "worker Python",
    ]


@pytest.mark.parametrize(
    ("without", "about", "text", "remedy"),
    [
        ({"java": None}, "Java", "not installed", "install Java 17"),
        (
            {"java": None, "java_home": "/nowhere"},
            "Java",
            "JAVA_HOME is /nowhere, which does not contain a working Java",
            "unset JAVA_HOME",
        ),
        (
            {"java": Java(executable=Path("/jdk8/java"), version=8)},
            "Java",
            "8, /jdk8/java: too old",
            "JAVA_HOME",
        ),
        ({"spark": None}, "pyspark", "not installed", "pip install '.[spark]'"),
        ({"spark": "3.5.9"}, "pyspark", "3.5.9 is not tested, use 4.0 to 4.2", "pip install"),
        ({"spark_home": "3.5.1"}, "SPARK_HOME", "contains Spark 3.5.1, but", "unset SPARK_HOME"),
        (
            {"jars": {JarSet.CONNECTOR: None}},
            "connector",
            "not downloaded yet",
            "pykbroker pipeline jars",
        ),
        (
            {"jars": {JarSet.DELTA: None}},
            "delta",
            "not downloaded yet",
            "pykbroker pipeline jars --with delta",
        ),
        ({"jars": {JarSet.CONNECTOR: "of another line"}}, "connector", "of another line", ""),
        ({"memory_bytes": 1 << 30}, "memory", "1.0 GiB free, Spark needs 1.5", "driver.memory"),
        (
            {"worker_version": (3, 7)},
            "worker Python",
            "is 3.7; the driver is",
            "PYSPARK_PYTHON",
        ),
        ({"worker_version": None}, "worker Python", "does not run", "PYSPARK_PYTHON"),
        ({"packages_missing": ("pyarrow",)}, "pyarrow", "not installed", "pip install"),
    ],
)
def test_missing_part_is_reported_with_a_remedy(
    without: dict[str, Any], about: str, text: str, remedy: str
) -> None:
    (finding,) = (it for it in findings(dataclasses.replace(COMPLETE, **without)) if not it.is_fine)
    assert finding.about == about
    assert text in finding.text
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\n', 17),
        ('openjdk version "21" 2023-09-19\n', 21),
        ('java version "1.8.0_402"\n', 8),
        ("Unable to locate a Java Runtime.", None),
    ],
)
def test_java_version_is_the_feature_release(output: str, version: int | None) -> None:
    assert version_in(output) == version


def test_doctor_lists_missing_parts_and_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYKBROKER_SPARK_JARS", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    assert main(["pipeline", "doctor", "--json"]) == 1
    missing = {it["about"] for it in json.loads(capsys.readouterr().out) if not it["is_fine"]}
    assert {"connector", "worker Python"} <= missing
    assert main(["pipeline", "doctor"]) == 1
    assert "does not contain spark-sql-kafka-0-10_2.13" in capsys.readouterr().out


def test_jars_of_a_given_directory_are_printed_for_spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyspark

    names = ["commons-pool2-2.12.0.jar", f"spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar"]
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setenv("PYKBROKER_SPARK_JARS", str(tmp_path))
    assert main(["pipeline", "jars", "--commas"]) == 0
    assert capsys.readouterr().out == ",".join(f"{tmp_path / name}" for name in names) + "\n"


def test_error_without_pyspark_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main(["pipeline", "jars"]) == 2
    assert "pip install '.[spark]'" in capsys.readouterr().err
