"""Parses Java .properties files: comments, continued lines, escapes and three separators."""

from collections.abc import Iterator

from pykbroker.settings.property import InvalidSetting

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """Returns the values of a .properties text by name; the last value of a repeated name wins."""
    return dict(_name_and_value(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Yields lines without comments; continued lines are joined."""
    pending: str | None = None
    for physical in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = physical.lstrip(_BLANKS)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending = ""
        if _ends_in_continuation(line):
            pending += line[:-1]
        else:
            yield pending + line
            pending = None
    if pending:
        yield pending


def _ends_in_continuation(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _name_and_value(line: str) -> tuple[str, str]:
    end = _end_of_name(line)
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANKS)
    return _unescaped(line[:end]), _unescaped(rest)


def _end_of_name(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 1
        elif line[position] in "=:" or line[position] in _BLANKS:
            return position
        position += 1
    return len(line)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    characters = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            character, position = _escape(text, position + 1)
        else:
            position += 1
        characters.append(character)
    return _joined_surrogates("".join(characters))


def _escape(text: str, position: int) -> tuple[str, int]:
    """Returns the character of an escape and the position after it."""
    escape = text[position : position + 1]
    if escape != "u":
        return _ESCAPES.get(escape, escape), position + 1
    digits = text[position + 1 : position + 5]
    try:
        if len(digits) == 4 and digits.isalnum():
            return chr(int(digits, 16)), position + 5
    except ValueError:
        pass
    raise InvalidSetting(f"properties file: invalid escape \\u{digits}")


def _joined_surrogates(text: str) -> str:
    """Joins surrogate pairs: Java writes a character beyond 16 bits as two escapes."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise InvalidSetting("properties file: \\u escape is half of a surrogate pair") from None
