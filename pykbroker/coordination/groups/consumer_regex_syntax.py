"""Reads regular expressions in the syntax of RE2, as far as names of topics can tell.

Topics are named with ASCII letters, digits, dot, dash and underscore. So a character is a number
below 128 and a class is a set of them; Unicode classes shrink to what they hold of ASCII. Refused,
as RE2 refuses them: look-around, back-references, atomic groups, possessive or doubled repetition,
counts above 1000. Refused here although RE2 knows them: scripts other than Latin, and flags in the
middle of a group whose alternatives they would reach into.
"""

from __future__ import annotations

import re
import string
from enum import Enum
from typing import NamedTuple

from pykbroker_protocol.late_dataclass import dataclass

Letters = frozenset[int]
"""A set of ASCII characters."""

ALL: Letters = frozenset(range(128))
PATTERN_LENGTH_MAX = 10_000
DEPTH_MAX = 100
COUNT_MAX = 1000


class BadRegex(Exception):
    """The words go to the client."""


def letters(text: str) -> Letters:
    return frozenset(map(ord, text))


DIGIT = letters(string.digits)
WORD = letters(string.ascii_letters + string.digits + "_")
SPACE = letters("\t\n\f\r ")
NEWLINE = letters("\n")
PUNCTUATION = letters("!\"#%&'()*,-./:;?@[\\]_{}")
SYMBOL = letters("$+<=>^`|~")
PERL = {"d": DIGIT, "w": WORD, "s": SPACE}
POSIX = {
    "alnum": letters(string.ascii_letters + string.digits),
    "alpha": letters(string.ascii_letters),
    "ascii": ALL,
    "blank": letters("\t "),
    "cntrl": frozenset({*range(32), 127}),
    "digit": DIGIT,
    "graph": frozenset(range(33, 127)),
    "lower": letters(string.ascii_lowercase),
    "print": frozenset(range(32, 127)),
    "punct": letters(string.punctuation),
    "space": SPACE | letters("\v"),
    "upper": letters(string.ascii_uppercase),
    "word": WORD,
    "xdigit": letters(string.hexdigits),
}
UNICODE = {
    "L": POSIX["alpha"],
    "Lu": POSIX["upper"],
    "Ll": POSIX["lower"],
    "N": DIGIT,
    "Nd": DIGIT,
    "P": PUNCTUATION,
    "Pc": letters("_"),
    "Pd": letters("-"),
    "S": SYMBOL,
    "Latin": POSIX["alpha"],
    "Any": ALL,
}
CONTROL = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


class Anchor(Enum):
    """What is matched between two characters."""

    START = "start"
    END = "end"
    WORD_BOUNDARY = "\\b"
    NO_WORD_BOUNDARY = "\\B"


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    at_least: int
    at_most: int | None


Node = Letters | Anchor | Sequence | Choice | Repeat


class Flags(NamedTuple):
    ignore_case: bool = False
    dot_matches_newline: bool = False
    many_lines: bool = False


class Parser:
    """Walks through a pattern once, from left to right."""

    __slots__ = ("at", "depth", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def parse(self) -> Node:
        if len(self.pattern) > PATTERN_LENGTH_MAX:
            raise BadRegex("expression too large")
        node = self.choice(Flags())
        if self.at < len(self.pattern):
            raise BadRegex("unexpected )")
        return node

    def take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def take_match(self, expression: str) -> re.Match[str] | None:
        found = re.compile(expression).match(self.pattern, self.at)
        if found:
            self.at = found.end()
        return found

    def next(self, complaint: str) -> str:
        if self.at >= len(self.pattern):
            raise BadRegex(complaint)
        self.at += 1
        return self.pattern[self.at - 1]

    def choice(self, flags: Flags) -> Node:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise BadRegex("expression nests too deeply")
        options = [self.sequence(flags)]
        while self.take("|"):
            options.append(self.sequence(flags))
        self.depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, flags: Flags) -> Node:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if self.take("\\Q"):
                parts.extend(cased(ord(it), flags) for it in self.quoted())
            elif found := self.take_match(r"\(\?([imsU]*)(-[imsU]+)?\)"):
                parts.append(self.rest_of_group(changed(flags, found), is_first=not parts))
            else:
                parts.append(self.repeated(self.atom(flags)))
        return Sequence(tuple(parts))

    def quoted(self) -> str:
        text, _, _ = self.pattern[self.at :].partition("\\E")
        self.at = min(self.at + len(text) + 2, len(self.pattern))
        return text

    def rest_of_group(self, flags: Flags, *, is_first: bool) -> Node:
        node = self.choice(flags)
        if not is_first and isinstance(node, Choice):
            raise BadRegex("flags in the middle of alternatives are not supported")
        return node

    def repeated(self, node: Node) -> Node:
        found = self.take_match(r"\*|\+|\?|\{(\d+)(,(\d*))?\}")
        if not found:
            return node
        self.take("?")  # whether it is lazy makes no difference to a match of the whole name
        if self.take_match(r"[*+?]|\{\d+(,\d*)?\}"):
            raise BadRegex("invalid nested repetition operator")
        low, high = bounds(found)
        if max(low, high or 0) > COUNT_MAX or (high is not None and high < low):
            raise BadRegex("invalid repeat count")
        return Repeat(node, low, high)

    def atom(self, flags: Flags) -> Node:
        match char := self.next(""):
            case "(":
                return self.group(flags)
            case "[":
                return self.char_class(flags)
            case "\\":
                return self.escape(flags)
            case ".":
                return ALL if flags.dot_matches_newline else ALL - NEWLINE
            case "^" | "$" if flags.many_lines:
                raise BadRegex("anchors of lines are not supported")
            case "^" | "$":
                return Anchor.START if char == "^" else Anchor.END
            case "*" | "+" | "?":
                raise BadRegex("missing argument to repetition operator")
        return cased(ord(char), flags)

    def group(self, flags: Flags) -> Node:
        if found := self.take_match(r"\?([imsU]*)(-[imsU]+)?:"):
            flags = changed(flags, found)
        elif not self.take_match(r"\?P?<\w+>") and self.take("?"):
            raise BadRegex("invalid or unsupported Perl syntax")
        node = self.choice(flags)
        if not self.take(")"):
            raise BadRegex("missing closing )")
        return node

    def escape(self, flags: Flags) -> Node:
        anchors = {
            "A": Anchor.START,
            "z": Anchor.END,
            "b": Anchor.WORD_BOUNDARY,
            "B": Anchor.NO_WORD_BOUNDARY,
        }
        if self.pattern[self.at : self.at + 1] in anchors:
            return anchors[self.next("")]
        found = self.escaped_class()
        return cased(self.escaped_char(), flags) if found is None else found

    def escaped_class(self) -> Letters | None:
        """One of those that a letter stands for; the backslash is behind us."""
        if found := self.take_match(r"[dwsDWS]"):
            found_class = PERL[found[0].lower()]
            return ALL - found_class if found[0].isupper() else found_class
        if found := self.take_match(r"([pP])(?:(\w)|\{(\^?)(\w+)\})"):
            name = found[2] or found[4]
            if name not in UNICODE:
                raise BadRegex("invalid character class range")
            is_negated = (found[1] == "P") != bool(found[3])
            return ALL - UNICODE[name] if is_negated else UNICODE[name]
        return None

    def escaped_char(self) -> int:
        if found := self.take_match(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}"):
            return int(found[1] or found[2], 16)
        if found := self.take_match(r"0[0-7]{0,2}|[1-7][0-7]{1,2}"):
            return int(found[0], 8)
        char = self.next("trailing \\")
        if char in CONTROL:
            return CONTROL[char]
        if char.isalnum() and char.isascii():
            raise BadRegex("invalid escape sequence")
        return ord(char)

    def char_class(self, flags: Flags) -> Letters:
        is_negated, members, is_first = self.take("^"), set[int](), True
        while is_first or not self.take("]"):
            is_first = False
            members |= self.class_part(flags)
        return ALL - members if is_negated else frozenset(members & ALL)

    def class_part(self, flags: Flags) -> Letters:
        if found := self.take_match(r"\[:(\^?)(\w+):\]"):
            if found[2] not in POSIX:
                raise BadRegex("invalid character class range")
            return ALL - POSIX[found[2]] if found[1] else POSIX[found[2]]
        low = self.class_char()
        if not isinstance(low, int):
            return low
        high: int | Letters = low
        if not self.pattern.startswith("-]", self.at) and self.take("-"):
            high = self.class_char()
        if not isinstance(high, int) or high < low:
            raise BadRegex("invalid character class range")
        spanned = range(low, min(high, 127) + 1)
        return frozenset().union(*(cased(it, flags) for it in spanned))

    def class_char(self) -> int | Letters:
        char = self.next("missing closing ]")
        if char != "\\":
            return ord(char)
        found = self.escaped_class()
        return self.escaped_char() if found is None else found


def cased(code: int, flags: Flags) -> Letters:
    """One character; nothing if no topic's name can hold it."""
    if flags.ignore_case:
        char = chr(code)
        return frozenset({ord(char.lower()), ord(char.upper())} if char.isascii() else ())
    return frozenset({code}) & ALL


def changed(flags: Flags, found: re.Match[str]) -> Flags:
    on, off = found[1], found[2] or ""

    def switch(letter: str, *, before: bool) -> bool:
        return letter not in off and (letter in on or before)

    return Flags(
        ignore_case=switch("i", before=flags.ignore_case),
        dot_matches_newline=switch("s", before=flags.dot_matches_newline),
        many_lines=switch("m", before=flags.many_lines),
    )


def bounds(found: re.Match[str]) -> tuple[int, int | None]:
    match found[0]:
        case "*":
            return 0, None
        case "+":
            return 1, None
        case "?":
            return 0, 1
    low = int(found[1])
    if found[2] is None:
        return low, low
    return low, int(found[3]) if found[3] else None
