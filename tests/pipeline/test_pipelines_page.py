"""Examples and tables of docs/pipelines.md are correct."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykbroker import Broker
from pykbroker.pipeline.declaration.document import PARTS, with_tables
from pykbroker.pipeline.declaration.reading import keys_of, read_text
from pykbroker.pipeline.running.run import PipelineRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text(encoding="utf-8")
DECLARATIONS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
INPUT = re.findall(r"^ {4}(\{.*\})$", PAGE.partition("pipeline run")[0], re.MULTILINE)


def test_tables_are_generated_from_the_declaration() -> None:
    assert with_tables(PAGE) == PAGE, "python -m pykbroker.pipeline.declaration.document FILE"
    for kind in PARTS.values():
        for name, key in keys_of(kind).items():
            assert f"| `{name}` | {key.kind.words} |" in PAGE


@pytest.mark.parametrize("text", DECLARATIONS, ids=range(len(DECLARATIONS)))
def test_examples_are_valid_pipelines(text: str) -> None:
    assert read_text(text).source


def test_first_pipeline_writes_the_printed_records(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = {"trucks": 10, "letters": 1}
    with Broker(topics) as broker:
        broker.produce("trucks", INPUT)
        declared = read_text(f'bootstrap = "{broker.bootstrap}"\n{DECLARATIONS[0]}')
        with PipelineRun(spark, declared, directory=tmp_path, once=True) as run:
            run.wait()
        for topic in ("trucks-per-minute", "alerts"):
            [record] = broker.records(topic)
            assert record.value is not None
            assert f"    $ pykbroker consume {topic}\n    {record.value.decode()}\n" in PAGE
        [broken] = broker.records("trucks-broken")
        assert broken.value == INPUT[-1].encode()

        broker.produce("letters", ["so quiet"])
        program = PROGRAMS[0].replace('"name"', f'"bootstrap": "{broker.bootstrap}", "name"')
        program = program.replace('"loud-data"', repr(str(tmp_path / "loud")))
        exec(compile(program, "docs/pipelines.md", "exec"), {})
    assert capsys.readouterr().out == "['SO QUIET']\n"
