import pytest

from pykbroker.telemetry import LogThrottle

# Time and kind of each line, and the expected number of suppressed lines, or None.
CASES = [
    ("the first lines of a period are admitted", [(0, "a", 0), (1, "a", 0), (2, "a", None)]),
    ("kinds are independent", [(0, "a", 0), (0, "a", 0), (0, "a", None), (0, "b", 0)]),
    (
        "the first line of a new period has the number of suppressed lines",
        [(0, "a", 0), (1, "a", 0), (2, "a", None), (9, "a", None), (10, "a", 2), (11, "a", 0)],
    ),
    ("a period below the limit suppresses nothing", [(0, "a", 0), (50, "a", 0)]),
    (
        "the number of suppressed lines is returned once",
        [(0, "a", 0), (0, "a", 0), (0, "a", None), (10, "a", 1), (20, "a", 0)],
    ),
    (
        "the kind with the oldest line is evicted",
        [(0, "a", 0), (0, "a", 0), (0, "b", 0), (0, "c", 0), (0, "d", 0), (0, "a", 0)],
    ),
    (
        "a kind with recent lines is not evicted",
        [
            *[(0, "a", 0), (0, "b", 0), (0, "a", 0), (0, "c", 0), (0, "a", None)],
            *[(0, "d", 0), (0, "a", None), (0, "e", 0), (0, "a", None)],
        ],
    ),
]


@pytest.mark.parametrize("lines", [it for _, it in CASES], ids=[name for name, _ in CASES])
def test_lines_are_throttled_by_kind(lines: list[tuple[float, str, int | None]]) -> None:
    throttle = LogThrottle(lines_max=2, period_seconds=10, kinds_max=3)
    assert [throttle.admit(kind, now) for now, kind, _ in lines] == [it for _, _, it in lines]
