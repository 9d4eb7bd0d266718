"""The image is what it is said to be: its build stage runs here, its instructions are read."""

import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
UID = 10001


class Instruction(NamedTuple):
    word: str
    rest: str


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [it for it in text.splitlines() if it.strip() and not it.startswith("#")]
    found: list[list[Instruction]] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(word, rest.strip()))
    return found


BUILD, FINAL = stages()


def said(stage: list[Instruction], word: str) -> list[str]:
    return [it.rest for it in stage if it.word == word]


def test_only_what_was_installed_goes_from_the_build_to_the_image() -> None:
    assert said(FINAL, "COPY") == ["--from=build /opt/pykbroker /opt/pykbroker"]
    assert said(FINAL, "FROM")[0].endswith("-slim")


def test_nothing_runs_as_root() -> None:
    assert said(FINAL, "USER") == [f"{UID}:{UID}"]
    words = [it.word for it in FINAL]
    assert "RUN" not in words[words.index("USER") :]


@pytest.mark.parametrize("word", ["ENTRYPOINT", "VOLUME"])
def test_signals_reach_the_broker_because_no_shell_stands_between(word: str) -> None:
    (value,) = said(FINAL, word)
    assert isinstance(json.loads(value), list)


def test_the_health_check_needs_no_shell() -> None:
    (value,) = said(FINAL, "HEALTHCHECK")
    command = json.loads(value.partition("CMD ")[2])
    (entry_point,) = said(FINAL, "ENTRYPOINT")
    assert command[: len(json.loads(entry_point)) + 1] == [*json.loads(entry_point), "health"]


def test_the_data_directory_is_a_volume_of_its_owner() -> None:
    (made, volume) = (said(FINAL, "RUN")[0], json.loads(said(FINAL, "VOLUME")[0]))
    assert volume == ["/var/lib/pykbroker"]
    assert f"--owner {UID} --group {UID} --mode 0750 /var/lib/pykbroker" in made


def test_what_is_copied_is_there_and_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    for rest in said(BUILD, "COPY"):
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in rules
    kept = [it[1:] for it in rules if it.startswith("!")]
    assert "*" in rules
    assert not any(fnmatch.fnmatch(it, pattern) for it in kept for pattern in (".git", "tests"))


@pytest.mark.slow
def test_the_build_stage_makes_what_serves_and_ends_as_an_ordinary_user(tmp_path: Path) -> None:
    """Without an engine: the stage's own commands, in a directory in place of the root."""
    venv = build(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    user = as_ordinary_user(venv / "bin/python")
    if user:
        shutil.chown(data, UID, UID)
    environment = {
        "PATH": f"{venv}/bin",
        "PYKBROKER_DATA": str(data),
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "PYTHONUNBUFFERED": "1",
    }
    entry_point = json.loads(said(FINAL, "ENTRYPOINT")[0])
    command = [f"{venv}/bin/{entry_point[0]}", *entry_point[1:], "--port-file", f"{data}/port"]
    with subprocess.Popen(
        [*user, *command], env=environment, cwd=data, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("pykbroker ready ")
        listening = f"PLAINTEXT://127.0.0.1:{(data / 'port').read_text().strip()}"
        check = json.loads(said(FINAL, "HEALTHCHECK")[0].partition("CMD ")[2])
        healthy = subprocess.run(
            [*user, f"{venv}/bin/{check[0]}", *check[1:-1], "60"],
            env={**environment, "KAFKA_LISTENERS": listening},
            cwd=data,
            check=False,
            timeout=120,
        )
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0
    assert healthy.returncode == 0
    assert {it.stat().st_uid for it in data.iterdir()} == {UID if user else os.getuid()}


def as_ordinary_user(python: Path) -> list[str]:
    """What stands before a command that runs as the image's user; nothing, if we are not root.

    The interpreter may lie where only root can look: then the command may look there, too.
    """
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        return []
    plain = [setpriv, f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    for more in ((), capability("dac_read_search"), capability("dac_override")):
        words = [*plain, *more, "--"]
        tried = subprocess.run(
            [*words, python, "-P", "-c", "import pykbroker"], check=False, env={}
        )
        if tried.returncode == 0:
            return words
    return []


def capability(name: str) -> tuple[str, ...]:
    return (f"--inh-caps=-all,+{name}", f"--ambient-caps=-all,+{name}")


def build(root: Path) -> Path:
    """Runs what the stage runs, in order; what it copies is copied."""
    source = root / "source"
    source.mkdir()
    for word, rest in BUILD:
        if word == "COPY":
            *sources, target = rest.split()
            for each in sources:
                place = source / (each if target == "./" else target)
                if (ROOT / each).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / each, place, ignore=ignored)
                else:
                    shutil.copy(ROOT / each, place)
        elif word == "RUN":
            own = rest.replace("python -m venv", f"{sys.executable} -m venv")
            command = own.replace("/opt/pykbroker", str(root / "opt"))
            subprocess.run(command, shell=True, check=True, cwd=source, timeout=300)
    return root / "opt"
