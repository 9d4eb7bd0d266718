"""One property: how its text becomes a value, which values it takes and how a value is shown."""

import math
from collections.abc import Callable
from typing import NamedTuple

from pykbroker.settings.kinds import ConfigType, Importance, UpdateMode

Value = bool | int | float | str | tuple[str, ...]
"""What a property's text turns into."""

Check = Callable[[str, Value], str | None]
"""Takes a property's name and value; answers what a client is told when the value is refused."""

_JAVA_WHITESPACE = "".join(map(chr, range(33)))  # what Java's trim() takes away
_WHOLE_NUMBER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class InvalidSetting(Exception):
    """A property has a value it cannot have; the message is one sentence for an operator."""


class Property(NamedTuple):
    """A row of the table: everything known of one property name.

    A tuple, because a dataclass costs a start two milliseconds to make.
    """

    name: str
    type: ConfigType
    default: Value | None
    check: Check | None
    importance: Importance
    update_mode: UpdateMode
    documentation: str
    # Names asked in turn when this one has no value, each with what its unit is worth in ours.
    fallbacks: tuple[tuple[str, int], ...] = ()
    # Understood but not shown until somebody sets it.
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def read(self, text: str) -> Value:
        """The value of this text, or InvalidSetting with the sentence Apache Kafka would say."""
        value = self._converted(text)
        refusal = self.check(self.name, value) if self.check else None
        if refusal:
            raise InvalidSetting(refusal)
        return value

    def _converted(self, text: str) -> Value:
        try:
            return converted(self.type, text)
        except ValueError as reason:
            raise InvalidSetting(invalid_value(self.name, text, str(reason))) from None


def invalid_value(name: str, shown: object, reason: str) -> str:
    return f"Invalid value {shown} for configuration {name}: {reason}"


def converted(kind: ConfigType, text: str) -> Value:
    """Text as a value of this type, by Java's rules; a ValueError says why not."""
    if kind is ConfigType.PASSWORD:
        return text
    text = text.strip(_JAVA_WHITESPACE)
    if kind in _WHOLE_NUMBER_BITS:
        return _whole_number(kind, text)
    if kind is ConfigType.BOOLEAN:
        return _boolean(text)
    if kind is ConfigType.DOUBLE:
        return _double(text)
    if kind is ConfigType.LIST:
        return split_list(text)
    return text


def split_list(text: str) -> tuple[str, ...]:
    """The elements between commas, trimmed, each once; an empty text has none."""
    if not text:
        return ()
    return tuple(dict.fromkeys(part.strip(_JAVA_WHITESPACE) for part in text.split(",")))


def _boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("Expected value to be either true or false")


def _whole_number(kind: ConfigType, text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if digits.isdecimal():
        number = int(text)
        bound = 1 << (_WHOLE_NUMBER_BITS[kind] - 1)
        if -bound <= number < bound:
            return number
    raise ValueError(f"Not a number of type {kind.name}")


def _double(text: str) -> float:
    # Java takes a type suffix that Python does not, and no digit separators or other infinities.
    named = text.lstrip("+-") in {"Infinity", "NaN"}
    number = text if named or text[-1:] not in {"f", "F", "d", "D"} else text[:-1]
    try:
        if named or not number.strip("+-.0123456789eE"):
            return float(number)
    except ValueError:
        pass
    raise ValueError("Not a number of type DOUBLE")


def shown(value: Value | None) -> str | None:
    """A value as text, in the notation of Java's tools."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case tuple():
            return ",".join(value)
    return str(value)


def java_double(number: float) -> str:
    """A float as Java prints it: `0.5`, `1.0E-4`, `1.2345678E7`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(float(number))
    mantissa, exponent = _scientific(number)
    return f"{mantissa}E{exponent}"


def _scientific(number: float) -> tuple[str, int]:
    sign, digits, exponent = _shortest_digits(number)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}", exponent


def _shortest_digits(number: float) -> tuple[str, str, int]:
    sign = "-" if number < 0 else ""
    text = repr(abs(number))
    coefficient, _, power = text.partition("e")
    whole, _, fraction = coefficient.partition(".")
    exponent = int(power or 0) + len(whole) - 1
    digits = whole + fraction
    leading_zeros = len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0")
    return sign, digits, exponent - leading_zeros
