"""Numbers and names of errors and APIs equal those of Apache Kafka's classes."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from compat.apache.tools import SHORT_LIVED_JVM, java_command
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pathlib import Path

    from compat.apache import ApacheTools

QUESTION = """
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

class Question {
    public static void main(String[] arguments) {
        for (Errors it : Errors.values()) {
            boolean retriable = it.exception() instanceof RetriableException;
            System.out.println("error " + it.code() + " " + it.name() + " " + retriable);
        }
        for (ApiKeys it : ApiKeys.values()) {
            System.out.println("api " + it.id + " " + it.name());
        }
    }
}
"""


@pytest.fixture(scope="module")
def apache_answers(
    apache_tools: ApacheTools, tmp_path_factory: pytest.TempPathFactory
) -> set[tuple[str, ...]]:
    source: Path = tmp_path_factory.mktemp("java") / "Question.java"
    source.write_text(QUESTION)
    command = java_command(apache_tools.libraries, SHORT_LIVED_JVM, str(source))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return {tuple(line.split()) for line in ran.stdout.splitlines()}


def test_each_error_has_the_number_name_and_retriability_of_apache_kafka(
    apache_answers: set[tuple[str, ...]],
) -> None:
    ours = {("error", str(int(it)), it.name, str(it.retriable).lower()) for it in ErrorCode}
    assert ours == {it for it in apache_answers if it[0] == "error"}


def test_each_api_has_the_number_and_name_of_apache_kafka(
    apache_answers: set[tuple[str, ...]],
) -> None:
    ours = {("api", str(int(it)), it.name) for it in ApiKey}
    retired = {it for it in ours if 4 <= int(it[1]) <= 7}  # used only with ZooKeeper
    assert ours - retired == {it for it in apache_answers if it[0] == "api"} - retired
