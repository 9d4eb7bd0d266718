"""How much of its answers a broker leaves to the kernel."""

import socket

import pytest

from pykbroker import AsyncBroker


@pytest.mark.parametrize(
    ("asked", "set_to"), [({}, []), ({"socket.send.buffer.bytes": 50_000}, [50_000])]
)
async def test_the_kernel_sizes_send_buffers_unless_told(
    asked: dict[str, int], set_to: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    plain = socket.socket.setsockopt

    def listen_in(of: socket.socket, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_SNDBUF):
            told.append(value)
        plain(of, level, option, value)

    monkeypatch.setattr(socket.socket, "setsockopt", listen_in)
    async with AsyncBroker(config=asked):
        assert told == set_to
