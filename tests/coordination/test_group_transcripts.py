"""Transcripts of groups; `RETELL=1` writes them again for review."""

import os
from pathlib import Path

import pytest

from pykbroker.coordination.groups.settings import GroupSettings
from tests.coordination.group_transcript import rerun

TRANSCRIPTS = sorted(Path(__file__).parent.joinpath("transcripts").glob("*.txt"))
SETTINGS = GroupSettings(members_max=3, offset_metadata_length_max=10)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda it: it.stem)
def test_the_transcript_is_reproduced(path: Path) -> None:
    written = path.read_text()
    rewritten = rerun(written, SETTINGS)
    if os.environ.get("RETELL"):
        path.write_text(rewritten)
    assert rewritten == written
