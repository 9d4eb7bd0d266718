"""This version opens the data directories of all versions and serves the same contents."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from compat.broker_process import BrokerProcess
from pykbroker.version import __version__
from tests.data_directories.contents import contents
from tests.data_directories.write import CONTENTS_FILE, DIRECTORY, GROUPS, SETTINGS

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ARCHIVES = sorted(HERE.glob("*.tar.xz"))
NEVER = {"offsets.retention.minutes": str((1 << 31) - 1), "log.cleaner.enable": "false"}
"""Committed offsets do not expire, however old the archive is."""


def test_this_version_has_an_archive() -> None:
    assert HERE / f"{__version__}.tar.xz" in ARCHIVES


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda it: it.name.removesuffix(".tar.xz"))
def test_an_old_data_directory_is_served_unchanged(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / CONTENTS_FILE).read_text(encoding="utf-8"))
    with BrokerProcess(tmp_path / DIRECTORY, settings=SETTINGS | NEVER) as broker:
        found = json.loads(json.dumps(contents(broker.bootstrap, GROUPS)))
        assert "ERROR" not in broker.log()
    for topic in expected["topics"]:
        assert found["topics"].pop(topic) == expected["topics"][topic], topic
    assert found["topics"] == {}
    assert found["cluster"] == expected["cluster"]
    assert found["groups"] == expected["groups"]
