"""The reference page of the properties agrees with their tables."""

from pathlib import Path

from pykbroker.settings.document import page

PAGE = Path(__file__).parents[2] / "docs" / "properties.md"


def test_the_page_of_properties_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"
