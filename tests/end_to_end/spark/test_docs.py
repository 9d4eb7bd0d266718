"""The first stream of docs/spark.md runs as printed."""

import re
from pathlib import Path

import pytest

from tests.end_to_end.spark.spark_fixture import SparkFixture

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"


@pytest.mark.slow
def test_first_stream_of_the_documentation_runs_as_printed(
    spark_fixture: SparkFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    program = found[1].replace("127.0.0.1:9092", spark_fixture.broker.bootstrap)
    program = program.replace('"first-stream"', f'"{spark_fixture.checkpoint()}"')
    for name in ("trucks", "trucks-per-minute"):
        spark_fixture.create(name)
    exec(compile(program, PAGE.name, "exec"), {})
    (line,) = capsys.readouterr().out.splitlines()
    count, word = line.split()
    assert word == "counts"
    assert int(count) >= 20, "one for each truck, more if the minute changed meanwhile"
