"""The faults that can be asked for by name: the methods of `Faults`, with JSON for arguments."""

from __future__ import annotations

import re
from inspect import Parameter, getdoc, signature
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.control.arguments import as_count, as_seconds, as_text, read_argument
from pykbroker.testing.control.http import HttpRefusal
from pykbroker.testing.faults import Faults, FaultScope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.testing.active_fault import ActiveFault
    from pykbroker.testing.control.arguments import Read

WHAT: Final = "fault"
"""The key that names the fault; the others are its arguments."""


def new_fault(faults: Faults, asked: Mapping[str, Any]) -> ActiveFault:
    """Raises HttpRefusal for what makes no sense."""
    word = asked.get(WHAT)
    if word not in FAULT_WORDS:
        raise HttpRefusal(400, f"there is no fault {word!r}; there are {', '.join(FAULT_WORDS)}")
    known = parameters_of(word)
    if strangers := sorted(set(asked) - {WHAT, *known}):
        raise HttpRefusal(400, f"{word} takes {', '.join(known)}, not {', '.join(strangers)}")
    arguments = {
        name: read_argument(name, read, asked[name])
        for name, read in known.items()
        if asked.get(name) is not None
    }
    if "api" in known:
        arguments.setdefault("api", None)
    try:
        fault: ActiveFault = getattr(faults, word)(**arguments)
    except (TypeError, ValueError) as reason:
        text = re.sub(r"^\w+\.(?=\w+\(\))", "", str(reason))  # the name of a class
        raise HttpRefusal(400, text) from None
    return fault


def fault_words() -> list[str]:
    """The public methods that hand out a fault."""
    return [
        name
        for part in Faults.__mro__[:-1]
        for name, method in vars(part).items()
        if not name.startswith("_")
        and callable(method)
        and "None" not in str(signature(method).return_annotation)
    ]


FAULT_WORDS: Final = tuple(fault_words())


def parameters_of(word: str) -> dict[str, Read]:
    """How each argument of a fault is read."""
    found: dict[str, Read] = {}
    for parameter in list(signature(getattr(Faults, word)).parameters.values())[1:]:
        if parameter.kind is Parameter.VAR_KEYWORD:
            found |= {name: reader_for(kind) for name, kind in FaultScope.__annotations__.items()}
        else:
            found[parameter.name] = reader_for(parameter.annotation)
    return found


def described() -> list[dict[str, Any]]:
    """Every fault, for whoever asks what there is."""
    return [
        {
            WHAT: word,
            "does": (getdoc(getattr(Faults, word)) or "").partition("\n")[0],
            "takes": list(parameters_of(word)),
        }
        for word in FAULT_WORDS
    ]


def reader_for(annotation: Any) -> Read:
    text = getattr(annotation, "__forward_arg__", None) or str(annotation)
    if "float" in text:
        return as_seconds
    return as_count if "int" in text else as_text
