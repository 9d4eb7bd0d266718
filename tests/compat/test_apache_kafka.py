"""ApacheKafka and its tools: installation, start, kill, dump of its files."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat.apache import ApacheKafka, ApacheKafkaUnavailableError, ApacheTools
from compat.apache.installation import CACHE_VARIABLE, install


def test_error_names_java_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ApacheKafkaUnavailableError, match="`java` is not on the PATH"):
        install()


def test_error_names_maven_if_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "java").write_text("")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    with pytest.raises(ApacheKafkaUnavailableError, match="`mvn` is not on the PATH"):
        install()


def test_two_concurrent_installations_download_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "java").write_text("#!/bin/sh\n")
    (programs / "mvn").write_text(
        '#!/bin/sh\necho fetched >> "$FETCHES"\nsleep 0.2\n'
        'for option; do case $option in -DoutputDirectory=*) mkdir "${option#*=}";; esac; done\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    fetches = tmp_path / "fetches"
    monkeypatch.setenv("FETCHES", str(fetches))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    script = "from compat.apache import install; print(install())"
    installers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [installer.wait() for installer in installers] == [0, 0]
    assert fetches.read_text() == "fetched\n"


def test_message_definitions_contain_requests_and_records(
    apache_message_definitions: dict[str, str],
) -> None:
    for name in ("ProduceRequest", "TopicRecord", "OffsetCommitValue", "TransactionLogValue"):
        text = re.sub(r"^\s*//.*$", "", apache_message_definitions[name], flags=re.MULTILINE)
        assert json.loads(text)["name"] == name


def test_killed_node_keeps_its_topics_and_records(
    apache_tools: ApacheTools, tmp_path: Path
) -> None:
    with ApacheKafka(tmp_path / "data", tools=apache_tools) as node:
        created = node.tool("topics", "--create", "--topic", "trucks", "--partitions", 2)
        assert created.returncode == 0, created.stderr
        node.tool("console-producer", "--topic", "trucks", input="position\n")
        node.kill()
        copy = shutil.copytree(node.data_dir, tmp_path / "copy")
    with ApacheKafka(copy, tools=apache_tools) as node:
        assert node.tool("topics", "--list").stdout.split() == ["trucks"]
    files = sorted(copy.glob("trucks-*/*.log"))
    dump = apache_tools.dump_log(*files, options=["--print-data-log"])
    assert "payload: position" in dump


def test_warm_tools_print_the_same_as_tools_in_own_processes(
    apache: ApacheKafka, apache_tools: ApacheTools, tmp_path: Path
) -> None:
    cold = ApacheTools.installed()
    missing = tmp_path / "00000000000000000000.log"
    to_node = ("--bootstrap-server", apache.bootstrap)
    for call in (
        ("topics", *to_node, "--create", "--topic", "warm", "--partitions", 0),
        ("topics", *to_node, "--describe", "--topic", "missing"),
        ("topics", *to_node, "--list"),
        ("configs", *to_node, "--describe", "--entity-type", "brokers", "--entity-name", 1),
        ("cluster", "cluster-id", *to_node),
        ("dump-log", "--files", missing),
    ):
        warm_answer, cold_answer = apache_tools.tool(*call), cold.tool(*call)
        assert warm_answer.returncode == cold_answer.returncode, warm_answer
        assert warm_answer.stdout.splitlines()[:1] == cold_answer.stdout.splitlines()[:1], call


def test_tool_that_ends_the_jvm_returns_and_the_next_tool_works(
    apache: ApacheKafka, apache_tools: ApacheTools
) -> None:
    assert apache_tools.tool("cluster", "no-such-command").returncode == 1
    assert apache.tool("topics", "--list").returncode == 0
