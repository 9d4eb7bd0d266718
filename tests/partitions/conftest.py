"""Fixtures of the tests of partitions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.partitions.local_partitions import LocalPartitions


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalPartitions]:
    local = LocalPartitions(tmp_path)
    yield local
    local.directory.abandon()
