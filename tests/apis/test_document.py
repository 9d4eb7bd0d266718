"""The page about supported APIs says what the table of APIs says."""

from __future__ import annotations

from pathlib import Path

from pykbroker.apis.document import page

PAGE = Path(__file__).parents[2] / "docs" / "supported-apis.md"


def test_the_page_about_supported_apis_is_current() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"
