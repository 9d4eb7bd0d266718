"""The card on top of each message module names exactly the versions that the broker serves."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from pykbroker.apis import APIS
from pykbroker_protocol import messages
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of
from pykbroker_protocol.message import parse_versions

MODULES = sorted(it.name for it in iter_modules(messages.__path__))
RANGE = re.compile(r"^(Served versions|Not served. Declared versions): ([\d-]+)$", re.MULTILINE)
VERSION = re.compile(r"^ {4,5}(\d+)  \S", re.MULTILINE)


def card_of(module: str) -> str:
    return import_module(f"pykbroker_protocol.messages.{module}").__doc__ or ""


@pytest.mark.parametrize("module", MODULES)
def test_a_card_starts_with_the_name_of_its_api(module: str) -> None:
    title = "".join(word.capitalize() for word in module.split("_"))
    assert re.match(rf"{title}: [a-z].*\.\n\n", card_of(module))


@pytest.mark.parametrize("module", MODULES)
def test_a_card_has_one_line_for_each_served_version(module: str) -> None:
    key = ApiKey[module.upper()]
    declared = request_of(key)
    assert declared is not None
    if key in APIS:
        label, versions = "Served versions", APIS[key].served
    else:
        label, versions = "Not served. Declared versions", declared.versions
    card = card_of(module)
    assert [(it[1], parse_versions(it[2])) for it in RANGE.finditer(card)] == [(label, versions)]
    listed = [int(it) for it in VERSION.findall(card)]
    assert listed == list(range(versions.first, versions.last + 1))


@pytest.mark.parametrize("module", MODULES)
def test_a_card_marks_the_first_flexible_version(module: str) -> None:
    message = request_of(ApiKey[module.upper()])
    assert message is not None
    flexible = re.findall(r"^ {4,5}(\d+)  .*\bflexible\b", card_of(module), re.MULTILINE)
    versions = range(message.versions.first, message.versions.last + 1)
    assert [int(it) for it in flexible] == [it for it in versions if it in message.flexible][:1]
