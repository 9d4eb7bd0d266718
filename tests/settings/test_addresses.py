import pytest

from pykbroker.settings import Listener, connections_by_host, parse_listener

LISTENERS = [
    ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092)),
    ("PLAINTEXT://127.0.0.1:0", Listener("PLAINTEXT", "127.0.0.1", 0)),
    ("plaintext://kafka-1.fleet:9092", Listener("PLAINTEXT", "kafka-1.fleet", 9092)),
    ("OUTSIDE://[::1]:9092", Listener("OUTSIDE", "::1", 9092)),
]


@pytest.mark.parametrize(("text", "expected"), LISTENERS)
def test_a_listener_is_parsed_to_name_host_and_port(text: str, expected: Listener) -> None:
    assert parse_listener(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "PLAINTEXT", "localhost:9092", "://h:1", "A://h", "A://h:", "A://h:x", "A://h:-1",
     "A://h:65536", "A://::1:9092", "A://h:٣"],
)  # fmt: skip
def test_an_invalid_listener_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="NAME://host:port"):
        parse_listener(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("127.0.0.1:5, fleet.example:200", {"127.0.0.1": 5, "fleet.example": 200}),
        ("::1:7", {"::1": 7}),
    ],
)
def test_connection_limits_are_parsed_by_host(text: str, expected: dict[str, int]) -> None:
    assert connections_by_host(text) == expected


@pytest.mark.parametrize("text", ["h", "h:", ":5", "h:x", "h:-1"])
def test_a_host_without_a_number_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="host:connections"):
        connections_by_host(text)
