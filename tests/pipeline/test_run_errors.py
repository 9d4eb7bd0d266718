"""Errors of `pipeline run` for pipelines that Spark or a checkpoint rejects."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import Broker
from pykbroker.cli.main import main
from pykbroker.pipeline.declaration.reading import declare
from pykbroker.pipeline.running import program
from pykbroker.pipeline.running.failures import CannotStart
from pykbroker.pipeline.running.run import PipelineRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

DECLARATION = """
name = "trucks"
bootstrap = "BOOTSTRAP"
checkpoint = "checkpoint"
every = "0 seconds"

[source.reports]
topics = ["trucks"]
format = "json"
schema = { truck = "string", speed = "double" }

[window.means]
input = "reports"
size = "1 minute"
time = "_timestamp"
watermark = "1 minute"
aggregates = { mean = "avg(speed)" }

[sink.means]
input = "means"
kind = "memory"
"""


@pytest.fixture(scope="module")
def broker() -> "Iterator[Broker]":
    with Broker({"trucks": 1, "vans": 1}) as broker:
        yield broker


@pytest.fixture
def run(
    spark: "SparkSession", broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> "Callable[[str, str], int]":
    """Runs the command with the shared session and one change in the pipeline file."""
    monkeypatch.setattr(program, "spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    def command(old: str = "", new: str = "") -> int:
        file = tmp_path / "trucks.toml"
        file.write_text(DECLARATION.replace(old, new).replace("BOOTSTRAP", broker.bootstrap))
        return main(["pipeline", "run", str(file), "--once"])

    return command


def test_changed_definition_is_rejected_without_traceback(
    run: "Callable[..., int]", capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    assert run('["trucks"]', '["trucks", "vans"]') == 2
    error = capsys.readouterr().err
    assert "sink.means has a checkpoint that does not fit this declaration:" in error
    assert "Traceback" not in error


SQL_ERRORS = {
    "an unknown column": ("avg(speed)", "avg(sped)", "sink.means: [UNRESOLVED_COLUMN.WITH_SUGG"),
    "broken SQL": ("avg(speed)", "avg(speed", "sink.means: [PARSE_SYNTAX_ERROR] Syntax error at"),
    "no such function": ("avg(speed)", "av(speed)", "sink.means: [UNRESOLVED_ROUTINE] Cannot"),
}


@pytest.mark.parametrize(("old", "new", "words"), SQL_ERRORS.values(), ids=SQL_ERRORS)
def test_sql_error_is_one_line_and_leaves_no_checkpoint(
    run: "Callable[..., int]",
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    words: str,
) -> None:
    assert run(old, new) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert words in line
    assert run() == 0


def test_no_query_starts_if_the_last_one_is_invalid(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    tables: dict[str, Any] = tomllib.loads(DECLARATION.replace("BOOTSTRAP", broker.bootstrap))
    tables["archive"] = {"all": {"source": "reports", "path": "archive"}}
    tables["sink"]["means"] |= {"input": "fast"}
    tables["sql"] = {"fast": {"inputs": ["reports"], "query": "SELECT sped FROM reports"}}
    with pytest.raises(CannotStart, match=r"^sink\.means: .*`sped`"):
        PipelineRun(spark, declare(tables), directory=tmp_path).start()
    assert not (tmp_path / "checkpoint" / "archive.all" / "metadata").exists()
