"""What comes with an extra of the package, and is missing where nobody asked for it."""

from __future__ import annotations


def missing_extra(missing: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The same, with what to do about it; what is missing of another kind is left as it is."""
    if missing.name is None or missing.name.startswith("pykbroker"):
        return missing
    text = f"{missing.name} is missing: pip install pykbroker[{extra}]"
    return ModuleNotFoundError(text, name=missing.name)
