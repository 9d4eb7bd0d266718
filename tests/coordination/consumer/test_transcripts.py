"""Transcripts of consumer groups; `RETELL=1` writes them again for review."""

import os
from pathlib import Path

import pytest

from tests.coordination.consumer.transcript import rerun

TRANSCRIPTS = sorted(Path(__file__).parent.joinpath("transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda it: it.stem)
def test_the_transcript_is_reproduced(path: Path) -> None:
    written = path.read_text()
    rewritten = rerun(written)
    if os.environ.get("RETELL"):
        path.write_text(rewritten)
    assert rewritten == written
