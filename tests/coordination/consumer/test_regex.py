"""Regular expressions of subscriptions: matches, errors and effort."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pykbroker.coordination.groups.consumer_regex import (
    DFA_SIZE_MAX,
    PROGRAM_SIZE_MAX,
    SLICE_EFFORT,
    BadRegex,
    Matching,
    TooCostly,
    compile_regex,
)

NAMES = ["a", "A", "ab", "abc", "a.b", "a-b", "a_b", "orders", "orders-1", "Orders", "9", "a1"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders"]),
        ("order", []),  # an expression must match the whole name
        ("orders.*", ["orders", "orders-1"]),
        ("(?i)orders", ["orders", "Orders"]),
        ("(?i:o)rders", ["orders", "Orders"]),
        ("o(?i)RDERS", ["orders"]),
        (
            "o(?i)x|A|ORDERS",
            ["a", "A", "orders", "Orders"],
        ),  # flags apply up to the end of the group
        ("(?m)^a$", ["a"]),
        (r"\p{Greek}|a", ["a"]),
        (r"(?i)\p{Lu}", ["a", "A"]),
        (r"\Qab\E?|\Qab\E{2}", ["a", "ab"]),  # the last quoted character is repeated
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
def test_an_expression_matches_whole_names(pattern: str, found: list[str]) -> None:
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
    "a\\": "trailing backslash at end of expression",
    "a{" + "9" * 5_000 + "}": "invalid repeat count",  # Python converts no such number
    r"(?i)\x{110000}": "invalid escape sequence",
    "(?<n>a)(?<n>b)": "duplicate capture group name",
}


@pytest.mark.parametrize(("pattern", "words"), REFUSALS.items())
def test_error_messages_are_those_of_re2j(pattern: str, words: str) -> None:
    with pytest.raises(BadRegex, match=re.escape(words)):
        compile_regex(pattern)


@pytest.mark.parametrize(
    "pattern", ["a)", "[b-a]", "[[:no:]]", r"\p{Klingon}", "(" * 200 + ")" * 200]
)
def test_invalid_expressions_raise(pattern: str) -> None:
    with pytest.raises(BadRegex):
        compile_regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "((" + "()" * 4_000 + "){1000}){1000}",
        "((a{1000}){1000}){1000}",
        "((|){1000}){1000}",
        "(((){1000}){1000}){1000}",
        r"((\b){1000}){1000}",
        "|" * 9_999,
        ".{1000}" * 1_000,
        "a" * 20_000,
        "(" * 99 + "a" + "{2})" * 99,
    ],
    ids=lambda it: it[:20],
)
def test_a_large_expression_raises_before_it_is_built(pattern: str) -> None:
    with pytest.raises(BadRegex, match="too large"):
        compile_regex(pattern)


@pytest.mark.parametrize(
    "pattern", ["a" * 10_000, "|".join(f"t{it:08}" for it in range(1_000)), "([a-z]{1,63}-){1,20}"]
)
def test_long_expressions_are_accepted(pattern: str) -> None:
    assert len(compile_regex(pattern).edges) <= PROGRAM_SIZE_MAX + 1


COSTLY = ".*".join(f"(.{{0,{count}}}a|b)" for count in range(60, 100))
COSTLY_NAMES = [f"{'ab' * 100}{index}" for index in range(10)]


def test_an_expression_that_defeats_backtracking_is_matched_with_little_effort() -> None:
    names = [*(f"orders-{index}" for index in range(5_000)), "a" * 249]
    matching = Matching(compile_regex("(a+)+b|(.*)*x|orders-(1|1)*2"), names)
    while not matching.advance(SLICE_EFFORT):
        pass
    assert matching.found == {f"orders-{ones}2" for ones in ("", "1", "11", "111")}
    assert matching.effort < 5_000


def test_matching_stops_with_an_error_when_it_costs_too_much() -> None:
    with pytest.raises(TooCostly):
        compile_regex(COSTLY).matches(COSTLY_NAMES)


@pytest.mark.parametrize("pattern", [COSTLY, "(a*)*" * 1_900, ".{0,1000}" * 8, ".*a" + "." * 9_000])
def test_a_slice_of_matching_has_a_bounded_effort_and_a_bounded_memory(pattern: str) -> None:
    regex = compile_regex(pattern)
    edges = sum(1 + len(it) for it in regex.edges)
    matching = Matching(regex, COSTLY_NAMES)
    is_done = False
    while not is_done:
        before = matching.effort
        try:
            is_done = matching.advance(SLICE_EFFORT)
        except TooCostly:
            break
        assert matching.effort - before <= SLICE_EFFORT + edges
        assert matching.dfa_size <= DFA_SIZE_MAX + len(regex.edges)


def test_characters_count_as_effort_if_the_automaton_is_known() -> None:
    names = [f"{'x' * 240}{index}" for index in range(10_000)]
    matching = Matching(compile_regex(".*"), names)
    slices = 1
    while not matching.advance(SLICE_EFFORT):
        slices += 1
    assert len(matching.found) == len(names)
    assert slices > 10


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
def test_matches_equal_those_of_python_where_the_syntax_is_shared(
    pattern: str, names: list[str]
) -> None:
    try:
        expected = re.compile(pattern)
    except re.error:
        assume(False)
    # An empty string is not a name; \b at it differs between versions of Python.
    real = [name for name in names if name]
    assert compile_regex(pattern).matches(real) == {it for it in real if expected.fullmatch(it)}


FRAGMENTS = [
    *"ab-._19Z*+?|()[]{}^$\\,:kKsS",
    *("(?i)", "(?s)", "(?m)", "(?-i)", "(?U)", "(?i:", "(?:", "(?i-s)", "(?im-s:", "(?P<n>"),
    *("(?=", "(?!", "(?-", "(?)", r"\A", r"\z", r"\b", r"\B", r"\Z", r"\G", r"\Q", r"\E"),
    *("[^", "[[:alpha:]]", "[[:^digit:]]", "[[=a=]]", "[a-z]", "[^a-z]", "[a-", "[\n]", "\n"),
    *(r"[\d-z]", r"[a-\d]", r"\d", r"\D", r"\w", r"\W", r"\s", r"\n", r"\_", r"\-", r"\."),
    *(r"\pL", r"\PL", r"\p{Lu}", r"\P{^Nd}", r"\p{Greek}", r"\p{Common}", r"\p{Klingon}"),
    *("{2}", "{1,3}", "{,2}", "{2,}", "{3,1}", "{1001}", "{00}", "{1,00}", "*?", "??"),
    *(r"\x41", r"\x{41}", r"\x{110000}", r"\101", r"\7", r"\08", "\u00fc", "\u017f", "\u212a"),
]
NAMES_FOR_RE2 = [
    *("a", "b", "Z", "A", "k", "K", "s", "S", "1", "19", "-", ".", "_", "{", "E", "n", "*", "\n"),
    *("ab", "aa", "aab", "a-b", "a.b", "a_b", "bab", "ba", "aZ", "9Z", "91", "QE", "p{", "a\n"),
    *("orders", "a\nb", "\0", "a{,2}", "a,2}", ":alpha:]"),
]
"""Topic names and other strings: transactional ids are matched, too."""
DIFFERS_BETWEEN_RE2_AND_RE2J = re.compile(r"\\[\x80-\U0010ffff]|\(\?P<n>.*\(\?P<n>", re.DOTALL)
"""RE2/J, which Apache Kafka uses, accepts escaped letters beyond ASCII and rejects equal names."""
TOO_LARGE_FOR_RE2 = "invalid repetition size"
"""RE2 limits the product of nested counts; RE2/J and PyKBroker do not."""


@settings(max_examples=1_000)
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=10))
@example(fragments=[r"\Q", "a", "b", r"\E", "*"])
@example(fragments=["a", "(?i)", "b", "|", "K"])
def test_re2_refuses_the_same_syntax_and_matches_the_same_names(fragments: list[str]) -> None:
    re2 = pytest.importorskip("re2", reason="google-re2 has no wheel for this platform")
    options = re2.Options()
    options.log_errors = False
    pattern = "".join(fragments)
    assume(not DIFFERS_BETWEEN_RE2_AND_RE2J.search(pattern))
    try:
        oracle = re2.compile(pattern, options)
    except re2.error as refusal:
        assume(TOO_LARGE_FOR_RE2 not in str(refusal) or "{1001}" in pattern)
        with pytest.raises(BadRegex):
            compile_regex(pattern)
    else:
        expected = {it for it in NAMES_FOR_RE2 if oracle.fullmatch(it)}
        assert compile_regex(pattern).matches(NAMES_FOR_RE2) == expected
