"""Cache of downloaded jars per Spark version, with digests that detect corrupt files."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files as packaged
from pathlib import Path
from typing import TYPE_CHECKING, Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # not available

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGESTS: Final = "SHA256SUMS"
LOCK_RETRY_SECONDS: Final = 0.2


class JarsUnavailableError(RuntimeError):
    """Jars that Spark needs are missing; the message names the artifact and the remedy."""


@dataclass(frozen=True, slots=True)
class JarCache:
    """A directory of jars that is created atomically."""

    directory: Path

    @classmethod
    def of_user(cls, version: str, jar_set: str) -> JarCache:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(root / "pykbroker" / "spark-jars" / version / jar_set)

    def files(self) -> tuple[Path, ...]:
        """Returns the jars, or an empty tuple if one is missing or corrupt."""
        try:
            listed = read_digests((self.directory / DIGESTS).read_text())
            jars = tuple(self.directory / name for name in sorted(listed))
            is_valid = all(digest(jar) == listed[jar.name] for jar in jars)
        except OSError:
            return ()
        return jars if is_valid else ()

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yields a download directory to one process at a time. A killed process leaves no lock."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with self.directory.with_suffix(".lock").open("w") as lock:
            wait_for_lock(lock.fileno())
            scratch = Path(tempfile.mkdtemp(dir=self.directory.parent, prefix=".fetching-"))
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def keep(self, scratch: Path) -> tuple[Path, ...]:
        """Replaces the cached jars with the downloaded ones."""
        jars = sorted(scratch.glob("*.jar"))
        listed = {jar.name: digest(jar) for jar in jars}
        reject_wrong_digests(listed)
        (scratch / DIGESTS).write_text(write_digests(listed))
        scratch.chmod(0o755)
        if self.directory.exists():
            shutil.rmtree(self.directory)
        scratch.rename(self.directory)
        return tuple(self.directory / jar.name for jar in jars)


def wait_for_lock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    import msvcrt  # noqa: PLC0415  # Windows only

    take, at_once = getattr(msvcrt, "locking"), getattr(msvcrt, "LK_NBLCK")  # noqa: B009  # mypy does not know it on other systems
    while True:
        try:
            take(descriptor, at_once, 1)
        except (BlockingIOError, PermissionError):
            time.sleep(LOCK_RETRY_SECONDS)
        else:
            return


def reject_wrong_digests(listed: dict[str, str]) -> None:
    """Raises if a jar that is listed in known.sha256 has another digest."""
    known = read_digests((packaged("pykbroker.pipeline") / "jars" / "known.sha256").read_text())
    wrong = [name for name in listed if known.get(name, listed[name]) != listed[name]]
    if wrong:
        raise JarsUnavailableError(
            f"SHA-256 of {', '.join(wrong)} differs from that on Maven Central: the download is "
            "truncated, or the mirror is not trustworthy"
        )


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def read_digests(text: str) -> dict[str, str]:
    """Parses the output of `sha256sum` to digests by file name."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line)
    return {name: digest_hex for digest_hex, name in pairs}


def write_digests(listed: dict[str, str]) -> str:
    return "".join(f"{listed[name]}  {name}\n" for name in sorted(listed))
