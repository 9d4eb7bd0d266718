"""Tables, sizes and progress."""

import pytest

from pykbroker.cli.output import Progress, bytes_text, cell_text, counted, table, uuid_text


def test_columns_are_aligned_numbers_to_the_right() -> None:
    assert table(("TOPIC", "N"), [("trucks", 10), ("x", 2)]).split("\n") == [
        "TOPIC    N",
        "trucks  10",
        "x        2",
    ]


def test_a_table_without_rows_has_headings() -> None:
    assert table(("TOPIC", "N"), []) == "TOPIC  N"


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "-"), (True, "yes"), (False, "no"), ([1, 2], "1,2"), ([], "-"), (7, "7"), ("a", "a")],
)
def test_cells_are_formatted_by_type(cell: object, text: str) -> None:
    assert cell_text(cell) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_have_binary_units(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_counts_have_a_plural() -> None:
    assert [counted(1, "record"), counted(2, "record"), counted(2, "batch", "batches")] == [
        "1 record",
        "2 records",
        "2 batches",
    ]


def test_ids_have_the_format_of_kafkas_tools() -> None:
    assert uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_progress_prints_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("record")
    progress.show(1_000_000)
    progress.clear()
    assert capsys.readouterr().err == ""
