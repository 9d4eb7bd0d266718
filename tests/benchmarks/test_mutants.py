"""Mutation testing: mutants change one expression; a seed selects the sample."""

import ast
import sys
import textwrap
from pathlib import Path

import pytest

from benchmarks.mutants.mutation import mutations_of
from benchmarks.mutants.trial import ROOMS, ROOT, Trial, all_mutants, sample

pytestmark = pytest.mark.slow


def lines_after(source: str) -> list[str]:
    """Returns the changed line of each mutant."""
    text = textwrap.dedent(source).strip()
    found = []
    for mutation in mutations_of(text.encode()):
        mutant = mutation.applied(text.encode()).decode()
        ast.parse(mutant)
        pairs = zip(text.splitlines(), mutant.splitlines(), strict=True)
        (changed,) = [after for before, after in pairs if before != after]
        found.append(changed.strip())
    return found


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("a = b < c", ["a = (b <= c)"]),
        ("a = b <= c < d", ["a = (b < c < d)", "a = (b <= c <= d)"]),
        ("a = b is None", ["a = (b is not None)"]),
        ("a = b not in c", ["a = (b in c)"]),
        ("a = b and c or d", ["a = ((b and c) and d)", "a = (b or c) or d"]),
        ("a = not b", ["a = (b)"]),
        ("a = b + 1", ["a = (b - 1)", "a = b + 2"]),
        ("a = b // c", ["a = (b * c)"]),
        ("a = True", ["a = False"]),
        ("if a: b()", ["if (not (a)): b()", "if a: pass"]),
        ("a = b if c else d", ["a = b if (not (c)) else d"]),
        ("async def f():\n    await b()", ["pass"]),
        ('a = "größe", 1', ['a = "größe", 2']),
    ],
)
def test_mutants_of_a_statement(source: str, mutants: list[str]) -> None:
    assert lines_after(source) == mutants


@pytest.mark.parametrize(
    "source",
    [
        '"""Counts 1."""',
        "if TYPE_CHECKING:\n    from a import b",
        "def f(a: Literal[1]) -> Annotated[int, 2]: ...",
        "@cache(1)\nclass A: ...",
        "a: Literal[1]",
        'logger.warning("%d", 1 + 1)',
        "assert a < b",
        "assert_never(a)",
        'a = f"{b + 1}"',
        'a = b + "c"',
        "a = b",
    ],
)
def test_code_without_behaviour_has_no_mutants(source: str) -> None:
    assert mutations_of(source.encode()) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_mutant_is_valid_and_differs_from_the_source(room: str) -> None:
    mutants = all_mutants(room, ROOT)
    assert mutants
    for mutant in mutants[:: max(1, len(mutants) // 50)]:
        source = (ROOT / mutant.file).read_bytes()
        before, after = ast.parse(source), ast.parse(mutant.mutation.applied(source))
        assert ast.dump(before) != ast.dump(after), str(mutant)


def test_seed_determines_a_sample_of_all_rooms() -> None:
    first = sample(ROOMS, 16, seed=7)
    assert first == sample(ROOMS, 16, seed=7)
    assert first != sample(ROOMS, 16, seed=8)
    assert [it.room for it in first] == sorted(ROOMS) * 2
    only = sample(["storage"], 3, seed=1, only="index.py")
    assert {Path(it.file).name.endswith("index.py") for it in only} == {True}


def test_mutant_is_tested_in_the_copy_and_removed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # not in this tree
    root, folder = tmp_path / "root", tmp_path / "copy"
    folder.mkdir()
    source = root / "pykbroker" / "apis" / "rule.py"
    source.parent.mkdir(parents=True)
    for package in (source.parent, source.parent.parent):
        (package / "__init__.py").touch()
    source.write_text("LIMIT = 1\n")
    tests = root / "tests" / "apis"
    tests.mkdir(parents=True)
    (tests / "test_rule.py").write_text(
        "from pykbroker.apis.rule import LIMIT\n\ndef test_rule():\n    assert LIMIT == 1\n"
    )
    (mutant,) = sample(["apis"], 5, seed=1, root=root)
    trial = Trial(folder, 60, root)
    trial.prepare()
    for _ in range(2):  # the second time with bytecode of both
        assert trial.passes_without_mutation("tests/apis")
        with trial.mutated(mutant):
            assert not trial.passes("tests/apis")
            assert "assert 2 == 1" in trial.last_output
    assert (folder / "pykbroker/apis/rule.py").read_text() == source.read_text()


def test_tests_are_killed_after_their_time_limit(tmp_path: Path) -> None:
    assert not Trial(tmp_path, 60).run([sys.executable, "-c", "import time; time.sleep(600)"], 0.2)


def test_run_returns_whether_tests_passed(tmp_path: Path) -> None:
    trial = Trial(tmp_path, 60)
    assert trial.run([sys.executable, "-c", ""], 60)
    assert not trial.run([sys.executable, "-c", "raise SystemExit(1)"], 60)
