"""A browser for the tests of the examples' pages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.examples.browser import Browser, found

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One process for all pages; a Chromium that is missing fails in CI."""
    executable = found()
    if executable is None:
        words = "no Chromium on the PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    browser = Browser(executable, tmp_path_factory.mktemp("chromium"))
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    yield chromium
    chromium.close_pages()
