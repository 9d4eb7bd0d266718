"""Regular expressions of subscriptions: what they find, what is refused, and in which time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pykbroker.coordination.groups.consumer_regex import BadRegex, TooCostly, compile_regex

NAMES = ["a", "A", "ab", "abc", "a.b", "a-b", "a_b", "orders", "orders-1", "Orders", "9", "a1"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders"]),
        ("order", []),  # a name has to match from end to end
        ("orders.*", ["orders", "orders-1"]),
        ("(?i)orders", ["orders", "Orders"]),
        ("(?i:o)rders", ["orders", "Orders"]),
        ("o(?i)RDERS", ["orders"]),
        ("a|ab", ["a", "ab"]),
        ("", []),
        ("a.b", ["a.b", "a-b", "a_b"]),
        (r"a\.b", ["a.b"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        ("a[.-]b", ["a.b", "a-b"]),
        ("a[^.]b", ["a-b", "a_b"]),
        ("[[:alpha:]]+", ["a", "A", "ab", "abc", "orders", "Orders"]),
        (r"[\d]|\d", ["9"]),
        (r"\pL\d", ["a1"]),
        (r"\p{Lu}\P{Lu}+", ["Orders"]),
        (r"a\b.\bb", ["a.b", "a-b"]),
        (r"a\B.+", ["ab", "abc", "a_b", "a1"]),
        ("^a$", ["a"]),
        (r"\Aa\z", ["a"]),
        ("a{1,2}b?", ["a", "ab"]),
        ("(?:a|b|c){3}", ["abc"]),
        ("(?P<one>a)(?<two>b)", ["ab"]),
        (r"\x61\142", ["ab"]),
        (r"\x{41}", ["A"]),
        ("a{0}9", ["9"]),
        ("ü|a", ["a"]),
    ],
)
def test_an_expression_finds_whole_names(pattern: str, found: list[str]) -> None:
    assert compile_regex(pattern).matches(NAMES) == set(found)


REFUSALS = {
    "(": "missing closing )",
    "[a": "missing closing ]",
    "*": "missing argument to repetition operator",
    "a**": "invalid nested repetition operator",
    "a++": "invalid nested repetition operator",
    "a{2000}": "invalid repeat count",
    "a{1,1001}": "invalid repeat count",
    "a{3,2}": "invalid repeat count",
    "(?=a)b": "invalid or unsupported Perl syntax",
    "(?>a)": "invalid or unsupported Perl syntax",
    "(?#c)a": "invalid or unsupported Perl syntax",
    "(?x)a": "invalid or unsupported Perl syntax",
    r"(a)\1": "invalid escape sequence",
    r"\Z": "invalid escape sequence",
    r"\cA": "invalid escape sequence",
    r"\h": "invalid escape sequence",
}


@pytest.mark.parametrize(("pattern", "words"), REFUSALS.items())
def test_what_re2_refuses_is_refused_in_its_words(pattern: str, words: str) -> None:
    with pytest.raises(BadRegex, match=re.escape(words)):
        compile_regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["a)", "a\\", "[b-a]", "[[:no:]]", r"\p{Greek}", "(?m)^a", "a(?i)b|c", "(" * 200 + ")" * 200],
)
def test_what_is_not_understood_is_refused_as_well(pattern: str) -> None:
    with pytest.raises(BadRegex):
        compile_regex(pattern)


@pytest.mark.parametrize("pattern", ["((a{1000}){1000}){1000}", "a" * 20_000])
def test_an_expression_that_unfolds_to_much_is_refused(pattern: str) -> None:
    with pytest.raises(BadRegex, match="too large"):
        compile_regex(pattern)


def test_an_expression_that_is_poison_to_backtracking_is_matched_in_no_time() -> None:
    began = time.process_time()
    names = [*(f"orders-{index}" for index in range(5_000)), "a" * 249]
    assert compile_regex("(a+)+b|(.*)*x|orders-(1|1)*2").matches(names) == {
        f"orders-{ones}2" for ones in ("", "1", "11", "111")
    }
    assert time.process_time() - began < 2


def test_an_expression_that_costs_too_much_is_given_up() -> None:
    regex = compile_regex(".*".join(f"(.{{0,{count}}}a|b)" for count in range(60, 100)))
    names = [f"{'ab' * 100}{index}" for index in range(10)]
    began = time.process_time()
    with pytest.raises(TooCostly):
        regex.matches(names)
    assert time.process_time() - began < 10


simple = st.recursive(
    st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\d", r"\b", "^", "$"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "*?"])).map(
            lambda it: f"(?:{it[0]}){it[1]}"
        ),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda them: f"(?:{'|'.join(them)})"),
    ),
    max_leaves=8,
)


@given(pattern=simple, names=st.lists(st.text("ab-1", max_size=6), max_size=8))
def test_it_agrees_with_python_where_both_speak_the_same_language(
    pattern: str, names: list[str]
) -> None:
    try:
        expected = re.compile(pattern)
    except re.error:
        assume(False)
    # An empty name is no name; Python's idea of \b at it differs between versions.
    real = [name for name in names if name]
    assert compile_regex(pattern).matches(real) == {it for it in real if expected.fullmatch(it)}
