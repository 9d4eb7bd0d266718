"""The Dockerfile: its instructions are parsed, its build stage runs without an engine."""

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
    name: str
    value: str


def stages() -> list[list[Instruction]]:
    """Returns the instructions of each stage; continued lines are joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [it for it in text.splitlines() if it.strip() and not it.startswith("#")]
    found: list[list[Instruction]] = []
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(name, value.strip()))
    return found


BUILD, FINAL = stages()


def values_of(stage: list[Instruction], name: str) -> list[str]:
    return [it.value for it in stage if it.name == name]


def test_only_the_installation_is_copied_from_the_build_stage() -> None:
    assert values_of(FINAL, "COPY") == ["--from=build /opt/pykbroker /opt/pykbroker"]
    assert values_of(FINAL, "FROM")[0].endswith("-slim")


def test_the_final_stage_runs_as_an_unprivileged_user() -> None:
    assert values_of(FINAL, "USER") == [f"{UID}:{UID}"]
    names = [it.name for it in FINAL]
    assert "RUN" not in names[names.index("USER") :]


@pytest.mark.parametrize("name", ["ENTRYPOINT", "VOLUME"])
def test_instructions_use_the_exec_form_without_a_shell(name: str) -> None:
    (value,) = values_of(FINAL, name)
    assert isinstance(json.loads(value), list)


def test_the_health_check_needs_no_shell() -> None:
    (value,) = values_of(FINAL, "HEALTHCHECK")
    command = json.loads(value.partition("CMD ")[2])
    (entry_point,) = values_of(FINAL, "ENTRYPOINT")
    assert command[: len(json.loads(entry_point)) + 1] == [*json.loads(entry_point), "health"]


def test_the_data_directory_is_a_volume_of_the_user() -> None:
    (command, volume) = (values_of(FINAL, "RUN")[0], json.loads(values_of(FINAL, "VOLUME")[0]))
    assert volume == ["/var/lib/pykbroker"]
    assert f"--owner {UID} --group {UID} --mode 0750 /var/lib/pykbroker" in command


def test_copied_files_exist_and_are_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    for value in values_of(BUILD, "COPY"):
        for source in value.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in rules
    kept = [it[1:] for it in rules if it.startswith("!")]
    assert "*" in rules
    assert not any(fnmatch.fnmatch(it, pattern) for it in kept for pattern in (".git", "tests"))


@pytest.mark.slow
def test_the_built_installation_runs_as_an_unprivileged_user(tmp_path: Path) -> None:
    """Runs the commands of the build stage in a directory instead of a container."""
    venv = build(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    user = as_unprivileged_user(venv / "bin/python")
    if user:
        shutil.chown(data, UID, UID)
    environment = {
        "PATH": f"{venv}/bin",
        "PYKBROKER_DATA": str(data),
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "PYTHONUNBUFFERED": "1",
    }
    entry_point = json.loads(values_of(FINAL, "ENTRYPOINT")[0])
    command = [f"{venv}/bin/{entry_point[0]}", *entry_point[1:], "--port-file", f"{data}/port"]
    with subprocess.Popen(
        [*user, *command], env=environment, cwd=data, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("pykbroker ready ")
        listening = f"PLAINTEXT://127.0.0.1:{(data / 'port').read_text().strip()}"
        check = json.loads(values_of(FINAL, "HEALTHCHECK")[0].partition("CMD ")[2])
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


def as_unprivileged_user(python: Path) -> list[str]:
    """Returns a command prefix that switches to the user of the image; empty if not root.

    If only root can read the interpreter, the prefix keeps the capability to read it.
    """
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        return []
    base = [setpriv, f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    for capabilities in ((), capability("dac_read_search"), capability("dac_override")):
        prefix = [*base, *capabilities, "--"]
        tried = subprocess.run(
            [*prefix, python, "-P", "-c", "import pykbroker"], check=False, env={}
        )
        if tried.returncode == 0:
            return prefix
    return []


def capability(name: str) -> tuple[str, ...]:
    return (f"--inh-caps=-all,+{name}", f"--ambient-caps=-all,+{name}")


def build(root: Path) -> Path:
    """Executes the COPY and RUN instructions of the build stage below `root`."""
    source = root / "source"
    source.mkdir()
    for name, value in BUILD:
        if name == "COPY":
            *sources, target = value.split()
            for each in sources:
                destination = source / (each if target == "./" else target)
                if (ROOT / each).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / each, destination, ignore=ignored)
                else:
                    shutil.copy(ROOT / each, destination)
        elif name == "RUN":
            local = value.replace("python -m venv", f"{sys.executable} -m venv")
            command = local.replace("/opt/pykbroker", str(root / "opt"))
            subprocess.run(command, shell=True, check=True, cwd=source, timeout=300)
    return root / "opt"
