"""Send buffers are sized by the kernel or by socket.send.buffer.bytes."""

import socket

import pytest

from pykbroker import AsyncBroker


@pytest.mark.parametrize(
    ("config", "expected"), [({}, []), ({"socket.send.buffer.bytes": 50_000}, [50_000])]
)
async def test_send_buffers_are_set_only_if_configured(
    config: dict[str, int], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    plain = socket.socket.setsockopt

    def record_size(of: socket.socket, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_SNDBUF):
            sizes.append(value)
        plain(of, level, option, value)

    monkeypatch.setattr(socket.socket, "setsockopt", record_size)
    async with AsyncBroker(config=config):
        assert sizes == expected
