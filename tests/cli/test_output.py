"""Tables, sizes and progress."""

import pytest

from pykbroker.cli.output import Progress, bytes_text, cell_text, counted, table, uuid_text


def test_columns_are_as_wide_as_they_must_be_and_numbers_stand_to_the_right() -> None:
    assert table(("TOPIC", "N"), [("trucks", 10), ("x", 2)]).split("\n") == [
        "TOPIC    N",
        "trucks  10",
        "x        2",
    ]


def test_a_table_without_rows_is_its_headings() -> None:
    assert table(("TOPIC", "N"), []) == "TOPIC  N"


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "-"), (True, "yes"), (False, "no"), ([1, 2], "1,2"), ([], "-"), (7, "7"), ("a", "a")],
)
def test_a_cell_is_written_for_people(cell: object, text: str) -> None:
    assert cell_text(cell) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_a_size_has_the_unit_that_suits_it(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_what_is_counted_has_its_plural() -> None:
    assert [counted(1, "record"), counted(2, "record"), counted(2, "batch", "batches")] == [
        "1 record",
        "2 records",
        "2 batches",
    ]


def test_an_id_is_written_as_kafkas_tools_write_it() -> None:
    assert uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("record")
    progress.show(1_000_000)
    progress.clear()
    assert capsys.readouterr().err == ""
