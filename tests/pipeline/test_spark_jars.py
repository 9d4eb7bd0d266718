"""Search order and download of Spark's jars, and their errors."""

import stat
import xml.etree.ElementTree as ET
from importlib.resources import files as packaged
from pathlib import Path

import pytest

from pykbroker.pipeline import jar_download, spark_jars
from pykbroker.pipeline.jar_cache import JarCache, JarsUnavailableError, reject_wrong_digests
from pykbroker.pipeline.jar_download import DownloadFailedError, failure_reason
from pykbroker.pipeline.spark_jars import DIRECTORY_VARIABLE, JarSet, Origin, find_jars, minor_line

JAR_OF = "spark-sql-kafka-0-10_2.13-{}.jar"
SHIPPED = packaged("pykbroker.pipeline") / "jars"
MAVEN = "{http://maven.apache.org/POM/4.0.0}"

# Replaces Maven: writes two jars to the output directory.
WORKING_MAVEN = """#!/bin/sh
for word in "$@"; do
  case $word in
    -DoutputDirectory=*) target=${word#*=} ;;
    -Dspark=*) version=${word#*=} ;;
  esac
done
echo one > "$target/spark-sql-kafka-0-10_2.13-$version-of-test.jar"
echo two > "$target/another.jar"
"""
FAILING_MAVEN = """#!/bin/sh
echo '[ERROR] Could not find artifact \
org.apache.spark:spark-token-provider-kafka-0-10_2.13:jar:4.1.3 in central'
exit 1
"""


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(spark_jars, "spark_version", lambda: "4.0.0")


def jars_in(directory: Path, *names: str) -> Path:
    directory.mkdir()
    for name in names:
        (directory / name).write_text(name)
    return directory


def program(directory: Path, name: str, text: str) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_given_directory_is_used_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = jars_in(tmp_path / "given", JAR_OF.format("4.0.2"), "kafka-clients-3.9.0.jar")
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "elsewhere"))
    (found,) = find_jars(directory=given)
    assert found.origin is Origin.GIVEN
    assert [file.name for file in found.files] == [
        "kafka-clients-3.9.0.jar",
        JAR_OF.format("4.0.2"),
    ]


def test_environment_variable_sets_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = jars_in(tmp_path / "given", JAR_OF.format("4.0.0"))
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(given))
    assert find_jars()[0].files == (given / JAR_OF.format("4.0.0"),)


def test_connector_of_another_minor_version_is_rejected(tmp_path: Path) -> None:
    given = jars_in(tmp_path / "given", JAR_OF.format("4.1.3"))
    with pytest.raises(
        JarsUnavailableError, match=r"version 4\.1\.3, but Spark has version 4\.0\.0"
    ):
        find_jars(directory=given)


def test_directory_without_the_connector_is_rejected(tmp_path: Path) -> None:
    given = jars_in(tmp_path / "given", "kafka-clients-3.9.0.jar")
    with pytest.raises(JarsUnavailableError, match=r"does not contain spark-sql-kafka-0-10_2\.13-"):
        find_jars(directory=given)


def test_jars_from_maven_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "mvn", WORKING_MAVEN)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    first, second = find_jars()[0], find_jars()[0]
    assert (first.origin, second.origin) == (Origin.MAVEN, Origin.CACHE)
    assert first.files == second.files
    assert [file.read_text() for file in first.files] == ["two\n", "one\n"]


def test_corrupt_jar_is_downloaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "mvn", WORKING_MAVEN)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    find_jars()[0].files[0].write_text("half of i")
    assert spark_jars.jars_in_cache(JarSet.CONNECTOR) is None
    (again,) = find_jars()
    assert (again.origin, again.files[0].read_text()) == (Origin.MAVEN, "two\n")


def test_ivy_is_used_if_maven_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_ivy(_description: str, versions: dict[str, str], target: Path) -> None:
        (target / JAR_OF.format(versions["spark"] + "-of-test")).write_text("of Ivy")

    program(tmp_path / "bin", "mvn", FAILING_MAVEN)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(jar_download, "by_ivy", by_ivy)
    assert find_jars()[0].origin is Origin.IVY


def test_error_names_the_missing_artifact_and_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_ivy(_description: str, _versions: dict[str, str], _target: Path) -> None:
        raise DownloadFailedError("no Java")

    program(tmp_path / "bin", "mvn", FAILING_MAVEN)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(jar_download, "by_ivy", by_ivy)
    with pytest.raises(JarsUnavailableError) as refused:
        find_jars()
    for words in ("spark-token-provider-kafka-0-10_2.13:jar:4.1.3", "no Java", "--token-provider"):
        assert words in str(refused.value)
    assert spark_jars.jars_in_cache(JarSet.CONNECTOR) is None


def test_files_of_a_failed_download_are_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_ivy(_description: str, _versions: dict[str, str], target: Path) -> None:
        (target / JAR_OF.format("4.0.0-of-test")).write_text("of Ivy")

    other_jars = WORKING_MAVEN.replace("spark-sql-kafka-0-10_2.13", "something-else")
    program(tmp_path / "bin", "mvn", other_jars)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(jar_download, "by_ivy", by_ivy)
    (found,) = find_jars()
    assert [file.name for file in found.files] == [JAR_OF.format("4.0.0-of-test")]


def test_delta_is_rejected_for_an_untested_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_jars, "spark_version", lambda: "4.2.0")
    with pytest.raises(JarsUnavailableError, match="no Delta version is tested"):
        find_jars([JarSet.DELTA])


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            (
                "[ERROR] g:a:jar:1: Failed to read artifact descriptor for g:b:jar:1: Could not "
                "transfer artifact g:b:pom:1 from/to central"
            ),
            "not found: g:b:jar:1",
        ),
        ("[ERROR] Could not find artifact g:b:jar:1 in central", "not found: g:b:jar:1"),
        (":: UNRESOLVED ::\n\t\t:: g#b;1: not found\n", "not found: g#b;1"),
        ("[INFO] so far\n[ERROR] The disk is full\n[ERROR] see above", "[ERROR] The disk is full"),
        ("", "failed without output"),
    ],
)
def test_failure_reason_is_the_missing_artifact_or_the_first_error(
    output: str, reason: str
) -> None:
    assert failure_reason(output) == reason


def test_jar_with_a_wrong_digest_is_rejected(tmp_path: Path) -> None:
    known = SHIPPED.joinpath("known.sha256").read_text().split()
    reject_wrong_digests({known[1]: known[0], "unknown.jar": "00"})
    with pytest.raises(JarsUnavailableError, match="SHA-256"):
        reject_wrong_digests({known[1]: "00"})
    scratch = jars_in(tmp_path / "fetched", known[1])
    with pytest.raises(JarsUnavailableError, match="SHA-256"):
        JarCache(tmp_path / "cache").keep(scratch)


@pytest.mark.parametrize("jar_set", JarSet)
def test_maven_and_ivy_have_equal_dependencies(jar_set: JarSet) -> None:
    assert dependencies_of_ivy(jar_set) == dependencies_of_maven(jar_set)


def dependencies_of_maven(jar_set: JarSet) -> tuple[set[str], set[tuple[str, str]]]:
    pom = ET.fromstring(SHIPPED.joinpath(f"{jar_set}.pom.xml").read_text())
    excluded = {
        (text_of(it, "groupId"), text_of(it, "artifactId")) for it in pom.iter(f"{MAVEN}exclusion")
    }
    names = {text_of(it, "artifactId") for it in pom.iter(f"{MAVEN}dependency")}
    return names, excluded


def text_of(element: ET.Element, name: str) -> str:
    return (element.findtext(MAVEN + name) or "").replace("${scala}", spark_jars.SCALA)


def dependencies_of_ivy(jar_set: JarSet) -> tuple[set[str], set[tuple[str, str]]]:
    module = ET.fromstring(SHIPPED.joinpath(f"{jar_set}.ivy.xml").read_text())
    excluded = {(it.attrib["org"], it.get("module", "*")) for it in module.iter("exclude")}
    dependencies = list(module.iter("dependency"))
    if any(it.get("transitive") == "false" for it in dependencies):
        excluded.add(("*", "*"))
    return {it.attrib["name"] for it in dependencies}, excluded


def test_minor_line_is_the_first_two_numbers() -> None:
    assert minor_line("4.0.0") == minor_line("4.0.4") == "4.0"
