"""Validators for property values; they return the error messages of Apache Kafka."""

from pykbroker.settings.property import Check, Value, invalid_value, shown


def at_least(low: int) -> Check:
    def check(name: str, value: Value) -> str | None:
        return _refused_below(name, value, low)

    return check


def between(low: float, high: float) -> Check:
    def check(name: str, value: Value) -> str | None:
        return _refused_below(name, value, low) or _refused_above(name, value, high)

    return check


def between_or(low: int, high: int, exception: int) -> Check:
    reason = f"Value must be between {low} and {high} or equal to {exception}"

    def check(name: str, value: Value) -> str | None:
        assert isinstance(value, int)
        if low <= value <= high or value == exception:
            return None
        return invalid_value(name, value, reason)

    return check


def one_of(*names: str) -> Check:
    reason = f"String must be one of: {', '.join(names)}"

    def check(name: str, value: Value) -> str | None:
        return None if value in names else invalid_value(name, value, reason)

    return check


def one_of_any_case(*names: str) -> Check:
    reason = f"String must be one of (case insensitive): {', '.join(names)}"

    def check(name: str, value: Value) -> str | None:
        return None if str(value).upper() in names else invalid_value(name, value, reason)

    return check


def each_one_of(*names: str) -> Check:
    """Validates lists: every element is one of these names, none is empty."""
    single = one_of(*names)

    def check(name: str, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if "" in value:
            return f"Configuration '{name}' values must not be empty."
        return next(filter(None, (single(name, element) for element in value)), None)

    return check


def throttled_replicas(name: str, value: Value) -> str | None:
    """Validates a list of `partition:broker` pairs, or `*` for all replicas."""
    assert isinstance(value, tuple)
    if value == ("*",) or all(_is_replica(pair) for pair in value if pair):
        return None
    reason = (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )
    return invalid_value(name, f"[{', '.join(value)}]", reason)


def check_directories(name: str, value: Value) -> str | None:
    if not value:
        return f"requirement failed: At least one log directory must be defined via {name}."
    return None


def unlimited_or_positive(name: str, value: Value) -> str | None:
    if value == 0:
        return f"requirement failed: {name} must be unlimited (-1) or, greater than or equal to 1"
    return None


def required_at_least(low: int) -> Check:
    """Like `at_least`, with the "requirement failed" message of Apache Kafka."""

    def check(name: str, value: Value) -> str | None:
        assert isinstance(value, int)
        if value >= low:
            return None
        return f"requirement failed: {name} must be greater than or equal to {low}"

    return check


def _refused_below(name: str, value: Value, low: float) -> str | None:
    assert isinstance(value, int | float)
    if value < low:
        return invalid_value(name, shown(value), f"Value must be at least {low}")
    return None


def _refused_above(name: str, value: Value, high: float) -> str | None:
    assert isinstance(value, int | float)
    if value > high:
        return invalid_value(name, shown(value), f"Value must be no more than {high}")
    return None


def _is_replica(pair: str) -> bool:
    partition, _, broker = pair.partition(":")
    return partition.isdecimal() and broker.isdecimal()
