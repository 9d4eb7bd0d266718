"""The first stream of the documentation runs as it is written."""

import re
from pathlib import Path

import pytest

from tests.end_to_end.spark.stage import Stage

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"


@pytest.mark.slow
def test_the_first_stream_runs_as_written(
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    program = found[1].replace("127.0.0.1:9092", stage.broker.bootstrap)
    program = program.replace('"first-stream"', f'"{stage.checkpoint()}"')
    for name in ("trucks", "trucks-per-minute"):
        stage.create(name)
    exec(compile(program, PAGE.name, "exec"), {})
    (line,) = capsys.readouterr().out.splitlines()
    count, word = line.split()
    assert word == "counts"
    assert int(count) >= 20, "one for each truck, and more if a minute ended meanwhile"
