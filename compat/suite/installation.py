"""Installs a client from the registry of its language into a cache shared by all runs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from compat.missing_tool import MissingToolError, find_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compat.suite.manifest import StockClient

CACHE_VARIABLE = "PYKBROKER_COMPAT_CACHE"
INSTALL_TIMEOUT_SECONDS = 900
_IGNORED = ("__pycache__", "target", "node_modules", ".mypy_cache", ".ruff_cache")


def installed(client: StockClient) -> list[str]:
    """Installs the client if necessary; returns the command that starts its program."""
    home = home_of(client)
    home.parent.mkdir(parents=True, exist_ok=True)
    with _locked(home):
        if _stamp(home) != _fingerprint(client):
            _install(client, home)
    return filled_in(client.run, client, home)


def home_of(client: StockClient) -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    cache = Path(chosen).expanduser() if chosen else Path.home() / ".cache/pykbroker/compat"
    return cache.absolute() / f"{client.name}-{client.version}{_python(client)}"


def filled_in(command: Sequence[str], client: StockClient, home: Path) -> list[str]:
    values = {
        "{home}": str(home),
        "{here}": str(home / "source"),
        "{version}": client.version,
        "{python}": sys.executable,
    }
    filled = list(command)
    for placeholder, text in values.items():
        filled = [word.replace(placeholder, text) for word in filled]
    return filled


def _install(client: StockClient, home: Path) -> None:
    source = home / "source"
    if not (client.interpreted and _stamp(home).startswith(_commands_digest(client))):
        for program in client.needs:
            find_program(program)
        shutil.rmtree(home, ignore_errors=True)
        _copy_source(client, source)
        for command in client.install:
            if failure := _run(filled_in(command, client, home), source):
                raise MissingToolError(client.installer, failure)
    else:
        _copy_source(client, source)
    home.joinpath("installed").write_text(_fingerprint(client))


def _copy_source(client: StockClient, source: Path) -> None:
    shutil.rmtree(source, ignore_errors=True)
    ignored = shutil.ignore_patterns(*_IGNORED)
    # `copy` sets new modification times; with the old ones cargo would not rebuild changed files.
    shutil.copytree(client.folder, source, ignore=ignored, copy_function=shutil.copy)
    for file in client.also:
        shutil.copy(file, source)


def _run(command: list[str], directory: Path) -> str | None:
    """Runs a command; returns an error message if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)}: {error}"
    if done.returncode == 0:
        return None
    return f"{' '.join(command)} failed:\n{done.stdout[-2_000:]}"


def _stamp(home: Path) -> str:
    try:
        return home.joinpath("installed").read_text()
    except FileNotFoundError:
        return ""


def _fingerprint(client: StockClient) -> str:
    """Returns a digest of everything that is installed: commands, version and files."""
    digest = hashlib.sha256()
    for file in (*sorted(_own_files(client.folder)), *client.also):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return _commands_digest(client) + digest.hexdigest()


def _commands_digest(client: StockClient) -> str:
    text = json.dumps([client.install, client.version, _python(client) and sys.version])
    return hashlib.sha256(text.encode()).hexdigest()


def _python(client: StockClient) -> str:
    """Returns a suffix for Python clients, which are installed once per Python version."""
    return f"-{sys.implementation.cache_tag}" if client.language == "Python" else ""


def _own_files(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        is_ignored = set(file.relative_to(folder).parts) & set(_IGNORED)
        if file.is_file() and not is_ignored and file.name != "client.toml":
            yield file


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Holds the lock of this installation; the kernel releases it if the process dies."""
    with home.with_name(home.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
