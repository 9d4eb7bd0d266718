"""Decoded frames in reports."""

from __future__ import annotations

from compat.suite.recording import LINES_SHOWN_MAX, Frame
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import encode
from pykbroker_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

VERSION = 3


def explanation(key_count: int, *, cut: int = 0) -> tuple[str, ...]:
    keys = [ApiVersion(api_key=it, min_version=0, max_version=9) for it in range(key_count)]
    answer = ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=77)
    content = bytes(4) + bytes(encode(answer, VERSION))
    content = content[: len(content) - cut]
    return Frame(
        at_seconds=0.0,
        connection=1,
        api_key=ApiKey.API_VERSIONS,
        version=VERSION,
        correlation_id=0,
        is_request=False,
        size=len(content),
        content=content,
    ).explanation()


def test_short_frame_is_shown_completely() -> None:
    assert not any("omitted" in it for it in explanation(5))


def test_middle_of_a_long_frame_is_omitted() -> None:
    lines = explanation(54)
    assert len(lines) == LINES_SHOWN_MAX + 1
    assert any("api_keys[0].api_key: 0 (PRODUCE)" in it for it in lines)
    assert any("api_keys[53].max_version: 9" in it for it in lines)
    assert any("throttle_time_ms: 77" in it for it in lines)
    fields = 3 * 54 + 4  # with the id, the code, the number of keys and the time
    assert f"… {fields - LINES_SHOWN_MAX} lines omitted" in lines


def test_decoding_error_of_a_long_frame_is_shown() -> None:
    assert "MALFORMED" in explanation(54, cut=3)[-1]
