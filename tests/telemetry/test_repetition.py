import pytest

from pykbroker.telemetry import Repetition

# When a line is said, of which kind, and the answer: how many were held back, or None.
STORIES = [
    ("the first lines of a period pass", [(0, "a", 0), (1, "a", 0), (2, "a", None)]),
    ("kinds do not count for each other", [(0, "a", 0), (0, "a", 0), (0, "a", None), (0, "b", 0)]),
    (
        "a new period tells how many were held back",
        [(0, "a", 0), (1, "a", 0), (2, "a", None), (9, "a", None), (10, "a", 2), (11, "a", 0)],
    ),
    ("a quiet period has nothing to tell", [(0, "a", 0), (50, "a", 0)]),
    (
        "the count is told once",
        [(0, "a", 0), (0, "a", 0), (0, "a", None), (10, "a", 1), (20, "a", 0)],
    ),
    (
        "the kind longest silent is forgotten",
        [(0, "a", 0), (0, "a", 0), (0, "b", 0), (0, "c", 0), (0, "d", 0), (0, "a", 0)],
    ),
    (
        "a kind that goes on is not forgotten",
        [
            *[(0, "a", 0), (0, "b", 0), (0, "a", 0), (0, "c", 0), (0, "a", None)],
            *[(0, "d", 0), (0, "a", None), (0, "e", 0), (0, "a", None)],
        ],
    ),
]


@pytest.mark.parametrize(("name", "story"), STORIES, ids=[name for name, _ in STORIES])
def test_repetition(name: str, story: list[tuple[float, str, int | None]]) -> None:
    now = 0.0
    repetition = Repetition(monotonic=lambda: now, lines_max=2, period_seconds=10, kinds_max=3)
    answers = []
    for moment, kind, _ in story:
        now = moment
        answers.append(repetition.admit(kind))
    assert answers == [answer for _, _, answer in story], name
