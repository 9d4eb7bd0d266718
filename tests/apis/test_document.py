"""The page of supported APIs agrees with the table."""

from __future__ import annotations

from pathlib import Path

from pykbroker.apis import APIS
from pykbroker.apis.document import APACHE_RELEASE, page
from pykbroker.testing.profiles.releases import TABLE, read_table
from pykbroker_protocol.api_keys import ApiKey

PAGE = Path(__file__).parents[2] / "docs" / "supported-apis.md"


def test_the_page_of_supported_apis_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_versions_are_those_of_the_release_on_the_page() -> None:
    releases = read_table(TABLE)
    assert list(releases)[-1] == APACHE_RELEASE
    theirs = releases[APACHE_RELEASE].apis
    for key, api in APIS.items():
        ours = api.advertised.first, api.advertised.last
        assert ours == theirs[ApiKey(key).name], api.title
