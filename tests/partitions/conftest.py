"""What the tests of this room share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.partitions.boards import Board


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path)
    yield board
    board.directory.abandon()
