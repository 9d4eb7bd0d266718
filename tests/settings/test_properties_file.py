import pytest

from pykbroker.settings import InvalidSetting, parse_properties

TEXTS = [
    ("", {}),
    ("a=1", {"a": "1"}),
    ("a = 1\nb : 2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
    ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    ("# no\n! no\n   # no\n\n   \na=1", {"a": "1"}),
    ("a=1 # is the value", {"a": "1 # is the value"}),
    ("a=x=y:z", {"a": "x=y:z"}),
    ("a=1 ", {"a": "1 "}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("a==1", {"a": "=1"}),
    ("a=1\na=2", {"a": "2"}),
    ("list=x,\\\n    y,\\\n  z", {"list": "x,y,z"}),
    ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    ("a=1\\", {"a": "1"}),
    ("a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
    (r"a=tab\there\nline\qe", {"a": "tab\there\nlineqe"}),
    (r"a=caf\u00e9 \ud83d\ude9a", {"a": "café 🚚"}),
    (r"dir=C:\\data", {"dir": r"C:\data"}),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_a_text_is_parsed_like_in_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"a=\u+123", r"a=\ud83d"])
def test_an_invalid_escape_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_properties(text)
