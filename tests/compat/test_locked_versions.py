"""Lock files install the versions of the manifests."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest

from compat.suite.manifest import STOCK, stock_clients

if TYPE_CHECKING:
    from pathlib import Path

MODULES = {
    "franz_go": "github.com/twmb/franz-go",
    "sarama": "github.com/IBM/sarama",
    "kafka_go": "github.com/segmentio/kafka-go",
}


def versions_in_the_manifest(folder: str) -> list[str]:
    return [it.version for it in stock_clients() if it.folder.name == folder]


def lock(folder: str, name: str) -> Path:
    return STOCK / folder / name


@pytest.mark.parametrize(("folder", "module"), MODULES.items())
def test_go_modules_are_locked_in_the_versions_of_the_manifest(folder: str, module: str) -> None:
    locks = list((STOCK / folder).glob("*.mod"))
    required = [version_required(it, module) for it in locks]
    assert sorted(required) == sorted(versions_in_the_manifest(folder))
    for file, version in zip(locks, required, strict=True):
        assert f"{module} v{version} h1:" in file.with_suffix(".sum").read_text()


def version_required(file: Path, module: str) -> str:
    lines = (it.removeprefix("require ").split() for it in file.read_text().splitlines())
    (version,) = (words[1] for words in lines if words[:1] == [module])
    return version.removeprefix("v")


def test_kafkajs_is_locked_in_the_versions_of_the_manifest() -> None:
    packages = json.loads(lock("kafkajs", "package-lock.json").read_text())["packages"]
    names = ("node_modules/kafkajs", "node_modules/kafkajs-older")
    assert [packages[it]["version"] for it in names] == versions_in_the_manifest("kafkajs")


def test_node_packages_are_locked_by_digest_without_registry_address() -> None:
    packages = json.loads(lock("kafkajs", "package-lock.json").read_text())["packages"]
    for name, package in packages.items():
        assert not name or package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


def test_rdkafka_is_locked_in_the_versions_of_the_manifest() -> None:
    required = [
        tomllib.loads(lock("rdkafka", it).read_text())["dependencies"]["rdkafka"]["version"]
        for it in ("Cargo.toml", "older/Cargo.toml")
    ]
    assert required == [f"={it}" for it in versions_in_the_manifest("rdkafka")]
