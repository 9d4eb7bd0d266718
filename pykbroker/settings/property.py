"""One property: parsing of its text, validation, and formatting of its value."""

import math
from collections.abc import Callable
from typing import NamedTuple

from pykbroker.settings.kinds import ConfigType, Importance, UpdateMode

Value = bool | int | float | str | tuple[str, ...]
"""The parsed value of a property."""

Check = Callable[[str, Value], str | None]
"""Validates the value of a property by name; returns the error message, or None if it is valid."""

_JAVA_WHITESPACE = "".join(map(chr, range(33)))  # the characters that Java's trim() removes
_WHOLE_NUMBER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class InvalidSetting(Exception):
    """A property name or value is invalid; the message is for operators and clients."""


class Property(NamedTuple):
    """A row of the table: one property.

    A tuple, because creating these rows as dataclasses would take two milliseconds of each start.
    """

    name: str
    type: ConfigType
    default: Value | None
    check: Check | None
    importance: Importance
    update_mode: UpdateMode
    documentation: str
    # Properties that provide the value if this one has none, each with the factor for its unit.
    fallbacks: tuple[tuple[str, int], ...] = ()
    # Not described unless it is set.
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def read(self, text: str) -> Value:
        """Parses and validates a text; raises InvalidSetting with Apache Kafka's message."""
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
    """Parses a text by the rules of Java; raises ValueError with the reason."""
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
    """Splits a text at commas, trims the elements and removes duplicates; "" has no elements."""
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
    # Unlike Python, Java accepts a type suffix, and rejects digit separators and "inf".
    named = text.lstrip("+-") in {"Infinity", "NaN"}
    number = text if named or text[-1:] not in {"f", "F", "d", "D"} else text[:-1]
    try:
        if named or not number.strip("+-.0123456789eE"):
            return float(number)
    except ValueError:
        pass
    raise ValueError("Not a number of type DOUBLE")


def shown(value: Value | None) -> str | None:
    """Formats a value like Apache Kafka's tools."""
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
    """Formats a float like Java: `0.5`, `1.0E-4`, `1.2345678E7`."""
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
