"""The open file limit is divided between connections and log files."""

import subprocess
import sys

import pytest

from pykbroker.descriptors import LOG_FILES_MAX, UNBOUNDED, shares_of


@pytest.mark.parametrize("limit", [16, 64, 128, 256, 1024, 4096, 20_000, 2**20, UNBOUNDED])
def test_the_shares_leave_a_reserve(limit: int) -> None:
    connections, log_files = shares_of(limit)
    assert connections + log_files <= limit - min(64, limit // 2)
    assert connections >= log_files >= min(limit // 4, LOG_FILES_MAX) * 3 // 4


def test_connections_get_what_log_files_do_not_need() -> None:
    assert shares_of(20_000) == (20_000 - 64 - LOG_FILES_MAX, LOG_FILES_MAX)


RAISE = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from pykbroker.descriptors import raise_open_file_limit
print(raise_open_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "expected"), [(256, 512, "512 512 512"), (300, 300, "300 300 300")]
)
def test_the_soft_limit_is_raised_to_the_hard_limit(soft: int, hard: int, expected: str) -> None:
    pytest.importorskip("resource")
    code = RAISE.format(soft=soft, hard=hard)
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == expected
