"""The number of usable processors."""

import os
from pathlib import Path

import pytest

from pykbroker.cli import process


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("50000 100000\n", 0.5), ("150000 100000\n", 1.5), ("max 100000\n", 4), ("", 4)],
)
def test_the_container_quota_limits_the_processors(
    quota: str, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    monkeypatch.setattr(process, "CPU_QUOTA_FILE", str(file))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert process.processors() == expected


def test_without_a_quota_the_cpu_affinity_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CPU_QUOTA_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert process.processors() == 1
