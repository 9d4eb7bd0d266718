"""A browser for tests of example pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.missing_tool import find_program
from tests.examples.browser import NAMES, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One process for all pages; a missing Chromium fails in CI."""
    browser = Browser(find_program(*NAMES), tmp_path_factory.mktemp("chromium"))
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    yield chromium
    chromium.close_pages()
