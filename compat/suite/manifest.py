"""Client manifests: installation, start command and missing features of each version."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compat.suite.commands import is_command_or_option
from compat.suite.scenario import LIBRARY_SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

STOCK = Path(__file__).parents[1] / "stock"
_KEYS = {
    "name",
    "language",
    "plays",
    "single",
    "needs",
    "also",
    "interpreted",
    "install",
    "run",
    "versions",
    "cannot",
    "not_true",
}
_VERSION_KEYS = {"why", "install", "run", "cannot", "not_true", "options"}


class BadManifestError(ValueError):
    """Raised for an invalid client.toml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StockClient:
    """One version of one client library."""

    name: str
    version: str
    language: str
    why: str
    """Reason for testing this version; also the reason for a single version."""
    plays: tuple[str, ...]
    """Subjects whose scenarios run with this client."""
    folder: Path
    also: tuple[Path, ...]
    """Files outside the folder that are installed with it."""
    interpreted: bool
    """Whether a changed file is only copied, without running the install commands again."""
    needs: tuple[str, ...]
    install: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]
    cannot: Mapping[str, str]
    not_true: Mapping[str, str]
    options: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def installer(self) -> str:
        """Returns the tool that downloads the client: the last entry of `needs`."""
        return self.needs[-1] if self.needs else "pip"

    def missing_feature(self, features: Iterable[str]) -> str | None:
        """Returns the manifest's reason for the first missing feature, or None."""
        return next((self.cannot[it] for it in sorted(features) if it in self.cannot), None)


def stock_clients(stock: Path = STOCK) -> list[StockClient]:
    """Returns all versions of all clients in report order."""
    manifests = sorted(stock.glob("*/client.toml"))
    return [client for manifest in manifests for client in read_manifest(manifest)]


def read_manifest(file: Path) -> Iterator[StockClient]:
    manifest = tomllib.loads(file.read_text())
    _refuse_unknown(file, manifest, _KEYS)
    if "single" in manifest and len(manifest["versions"]) > 1:
        raise BadManifestError(f"{file}: `single` is not allowed with several versions")
    for version, own in manifest["versions"].items():
        _refuse_unknown(file, own, _VERSION_KEYS)
        cannot = {**manifest.get("cannot", {}), **own.get("cannot", {})}
        for feature in cannot:
            if not is_command_or_option(feature):
                raise BadManifestError(f"{file}: unknown command or option {feature}")
        yield StockClient(
            name=manifest["name"],
            version=version,
            language=manifest["language"],
            why="; ".join([own["why"], *_reason_for_one(manifest)]),
            plays=tuple(manifest.get("plays", LIBRARY_SUBJECTS)),
            folder=file.parent,
            also=tuple(file.parent / it for it in manifest.get("also", ())),
            interpreted=manifest.get("interpreted", False),
            needs=tuple(manifest.get("needs", ())),
            install=_commands(own.get("install", manifest.get("install", ()))),
            run=tuple(own.get("run") or manifest["run"]),
            cannot=cannot,
            not_true={**manifest.get("not_true", {}), **own.get("not_true", {})},
            options=own.get("options", {}),
        )


def _reason_for_one(manifest: Mapping[str, Any]) -> list[str]:
    return [f"one is enough: {manifest['single']}"] if "single" in manifest else []


def _commands(given: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(command) for command in given)


def _refuse_unknown(file: Path, table: Mapping[str, Any], known: set[str]) -> None:
    if unknown := table.keys() - known:
        raise BadManifestError(f"{file}: unknown keys {', '.join(sorted(unknown))}")
