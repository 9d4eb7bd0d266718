"""Parses regular expressions in the syntax of RE2 (Apache Kafka uses RE2/J), for ASCII names.

Topic names consist of ASCII letters, digits, dot, dash and underscore. A character class is a set
of ASCII codes; `OTHER` stands for a character beyond ASCII, which transactional ids may contain.
RE2 rejects look-around, back-references, atomic groups, possessive or doubled repetition and counts
above 1000. This parser also rejects more than `DEPTH_MAX` nested groups.
"""

from __future__ import annotations

import re
import string
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from pykbroker_protocol.late_dataclass import dataclass

Letters = frozenset[int]
"""A set of ASCII codes and `OTHER`."""

OTHER = 128
"""Any character beyond ASCII: matched by `.` and by negated classes."""
ALL: Letters = frozenset(range(OTHER + 1))
PATTERN_LENGTH_MAX = 10_000
DEPTH_MAX = 100
"""Nested groups. The parser needs four Python frames for each."""
COUNT_MAX = 1000
COUNT_DIGITS_MAX = 4
CODE_POINT_MAX = 0x10FFFF


class BadRegex(Exception):
    """The pattern is invalid; the client receives the message."""


def letters(text: str) -> Letters:
    return frozenset(map(ord, text))


DIGIT = letters(string.digits)
WORD = letters(string.ascii_letters + string.digits + "_")
SPACE = letters("\t\n\f\r ")
NEWLINE = letters("\n")
ALL_OF_A_LINE = ALL - NEWLINE
PERL = {"d": DIGIT, "w": WORD, "s": SPACE}
POSIX = {
    "alnum": letters(string.ascii_letters + string.digits),
    "alpha": letters(string.ascii_letters),
    "ascii": ALL - {OTHER},
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
    "Any": ALL,
    "C": POSIX["cntrl"],
    "Cc": POSIX["cntrl"],
    "Common": ALL - POSIX["alpha"] - {OTHER},
    "L": POSIX["alpha"],
    "Latin": POSIX["alpha"],
    "Ll": POSIX["lower"],
    "Lu": POSIX["upper"],
    "N": DIGIT,
    "Nd": DIGIT,
    "P": letters("!\"#%&'()*,-./:;?@[\\]_{}"),
    "Pc": letters("_"),
    "Pd": letters("-"),
    "Pe": letters(")]}"),
    "Po": letters("!\"#%&'*,./:;?@\\"),
    "Ps": letters("([{"),
    "S": letters("$+<=>^`|~"),
    "Sc": letters("$"),
    "Sk": letters("^`"),
    "Sm": letters("+<=>|~"),
    "Z": letters(" "),
    "Zs": letters(" "),
}
"""The ASCII members of Unicode categories and scripts."""
BEYOND_ASCII = frozenset(
    """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid
    Canadian_Aboriginal Carian Cf Cham Cherokee Co Coptic Cs Cuneiform Cypriot Cyrillic Deseret
    Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han
    Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Lepcha
    Limbu Linear_B Lisu Lm Lo Lt Lycian Lydian M Malayalam Mandaic Mc Me Meetei_Mayek Mn Mongolian
    Myanmar New_Tai_Lue Nko Nl No Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic
    Oriya Osmanya Pf Phags_Pa Phoenician Pi Rejang Runic Samaritan Saurashtra Shavian Sinhala So
    Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai
    Tibetan Tifinagh Ugaritic Vai Yi Zl Zp
    """.split()  # noqa: SIM905  # a list of literals takes 130 lines
)
"""Categories and scripts without ASCII members. The list is that of RE2/J."""
CONTROL = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
FOLDED_TO_ASCII = {0x17F: "s", 0x212A: "k"}
"""Characters beyond ASCII whose simple case folding is an ASCII letter: long s and Kelvin sign."""


class Anchor(Enum):
    """A condition on the position between two characters."""

    START = "start"
    END = "end"
    LINE_START = "line start"
    LINE_END = "line end"
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

EMPTY = Sequence(())


class Flags(NamedTuple):
    ignore_case: bool = False
    dot_matches_newline: bool = False
    many_lines: bool = False


PLAIN = re.compile(r"[^\\\[\](){}|.^$*+?]+")
REPETITION = re.compile(r"\*|\+|\?|\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
FLAGS_FROM_HERE = re.compile(r"\(\?([imsU]*)(-[imsU]+)?\)")
FLAGS_OF_GROUP = re.compile(r"\?([imsU]*)(-[imsU]+)?:")
GROUP_NAME = re.compile(r"\?P?<([0-9A-Za-z_]+)>")
PERL_CLASS = re.compile(r"[dwsDWS]")
UNICODE_CLASS = re.compile(r"([pP])(?:\{(\^?)([0-9A-Za-z_]+)\}|([A-Z]))")
POSIX_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
HEX_CODE = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\})")
OCTAL_CODE = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")


class Parser:
    """Parses a pattern once, from left to right."""

    __slots__ = ("at", "depth", "group_names", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.group_names: set[str] = set()

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

    def take_match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self.pattern, self.at)
        if found:
            self.at = found.end()
        return found

    def next(self, complaint: str) -> str:
        if self.at >= len(self.pattern):
            raise BadRegex(complaint)
        self.at += 1
        return self.pattern[self.at - 1]

    def choice(self, flags: Flags) -> Node:
        """Parses up to the end of the group. Flags of one alternative apply to later ones, too."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise BadRegex("expression nests too deeply")
        option, flags = self.sequence(flags)
        options = [option]
        while self.take("|"):
            option, flags = self.sequence(flags)
            options.append(option)
        self.depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, flags: Flags) -> tuple[Node, Flags]:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if found := self.take_match(PLAIN):
                parts.extend(cased(ord(it), flags) for it in found[0])
            elif self.take("\\Q"):
                parts.extend(cased(ord(it), flags) for it in self.quoted())
            elif found := self.take_match(FLAGS_FROM_HERE):
                flags = changed(flags, found)
            elif found := self.take_match(REPETITION):
                parts.append(self.repeated(parts, found))
            else:
                parts.append(self.atom(flags))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts)), flags

    def quoted(self) -> str:
        text, _, _ = self.pattern[self.at :].partition("\\E")
        self.at = min(self.at + len(text) + 2, len(self.pattern))
        return text

    def repeated(self, parts: list[Node], found: re.Match[str]) -> Node:
        """Returns the repetition of the last part of a sequence and removes that part."""
        low, high = bounds(found)
        if max(low, high or 0) > COUNT_MAX or (high is not None and high < low):
            raise BadRegex("invalid repeat count")
        if not parts:
            raise BadRegex("missing argument to repetition operator")
        self.take("?")  # lazy or greedy: the same for a match of the whole name
        if self.take_match(REPETITION):
            raise BadRegex("invalid nested repetition operator")
        return Repeat(parts.pop(), low, high)

    def atom(self, flags: Flags) -> Node:  # noqa: PLR0911  # a table of first characters
        match char := self.next(""):
            case "(":
                return self.group(flags)
            case "[":
                return self.char_class(flags)
            case "\\":
                return self.escape(flags)
            case ".":
                return ALL if flags.dot_matches_newline else ALL_OF_A_LINE
            case "^":
                return Anchor.LINE_START if flags.many_lines else Anchor.START
            case "$":
                return Anchor.LINE_END if flags.many_lines else Anchor.END
        return cased(ord(char), flags)

    def group(self, flags: Flags) -> Node:
        if found := self.take_match(FLAGS_OF_GROUP):
            flags = changed(flags, found)
        elif found := self.take_match(GROUP_NAME):
            if found[1] in self.group_names:
                raise BadRegex("duplicate capture group name")
            self.group_names.add(found[1])
        elif self.take("?"):
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
        found = self.escaped_class(flags)
        return cased(self.escaped_char(), flags) if found is None else found

    def escaped_class(self, flags: Flags) -> Letters | None:
        """Parses the character class after a backslash; None if there is another escape."""
        if found := self.take_match(PERL_CLASS):
            found_class = PERL[found[0].lower()]
            return complement(found_class) if found[0].isupper() else found_class
        if found := self.take_match(UNICODE_CLASS):
            name = found[3] or found[4]
            if name not in UNICODE and name not in BEYOND_ASCII:
                raise BadRegex("invalid character class range")
            members = folded(UNICODE.get(name, frozenset()), flags)
            is_negated = (found[1] == "P") != bool(found[2])
            return complement(members) if is_negated else members
        return None

    def escaped_char(self) -> int:
        if found := self.take_match(HEX_CODE):
            code = int(found[1] or found[2], 16)
            if code > CODE_POINT_MAX:
                raise BadRegex("invalid escape sequence")
            return code
        if found := self.take_match(OCTAL_CODE):
            return int(found[0], 8)
        char = self.next("trailing backslash at end of expression")
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
        found = frozenset(members)
        return complement(found) if is_negated else found

    def class_part(self, flags: Flags) -> Letters:
        if found := self.take_match(POSIX_CLASS):
            if found[2] not in POSIX:
                raise BadRegex("invalid character class range")
            members = folded(POSIX[found[2]], flags)
            return complement(members) if found[1] else members
        low = self.class_char(flags)
        if not isinstance(low, int):
            return low
        high: int | Letters = low
        if not self.pattern.startswith("-]", self.at) and self.take("-"):
            high = self.class_char(flags)
        if not isinstance(high, int) or high < low:
            raise BadRegex("invalid character class range")
        return spanned(low, high, flags)

    def class_char(self, flags: Flags) -> int | Letters:
        char = self.next("missing closing ]")
        if char != "\\":
            return ord(char)
        found = self.escaped_class(flags)
        return self.escaped_char() if found is None else found


CHARS = tuple(frozenset({code}) for code in range(OTHER))
CHARS_OF_ANY_CASE = tuple(letters(chr(code).lower() + chr(code).upper()) for code in range(OTHER))


def cased(code: int, flags: Flags) -> Letters:
    """Returns the set of a character in both cases if `i` is set; empty beyond ASCII."""
    if flags.ignore_case:
        code = ord(FOLDED_TO_ASCII.get(code, chr(code)))
    if code >= OTHER:
        return frozenset()
    return CHARS_OF_ANY_CASE[code] if flags.ignore_case else CHARS[code]


def spanned(low: int, high: int, flags: Flags) -> Letters:
    """The ASCII characters of a range, and `OTHER` if it reaches to the last code point."""
    members = folded(frozenset(range(low, min(high, OTHER - 1) + 1)), flags)
    if flags.ignore_case:
        members = members.union(
            *(cased(code, flags) for code in FOLDED_TO_ASCII if low <= code <= high)
        )
    return members | {OTHER} if low <= OTHER and high == CODE_POINT_MAX else members


@lru_cache(maxsize=64)
def complement(members: Letters) -> Letters:
    return ALL - members


@lru_cache(maxsize=64)
def folded(members: Letters, flags: Flags) -> Letters:
    if not flags.ignore_case:
        return members
    return members.union(*(CHARS_OF_ANY_CASE[code] for code in members if code != OTHER))


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
    low = count(found[1])
    if found[2] is None:
        return low, low
    return low, count(found[3]) if found[3] else None


def count(digits: str) -> int:
    """Parses a count; Python rejects numbers of more than a few thousand digits."""
    return int(digits) if len(digits) <= COUNT_DIGITS_MAX else COUNT_MAX + 1
