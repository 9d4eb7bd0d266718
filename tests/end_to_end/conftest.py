"""Fixtures that start brokers in their own processes and stop them after the test."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from compat.broker_process import BrokerProcess


class StartBroker(Protocol):
    """Starts a broker, by default with a new data directory."""

    def __call__(
        self,
        *arguments: str,
        data: Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> BrokerProcess: ...


@pytest.fixture
def start_broker(
    tmp_path: Path, show_on_failure: Callable[[str, Callable[[], str]], None]
) -> Iterator[StartBroker]:
    """Starts brokers; afterwards each that was not killed must stop with exit code 0."""
    started: list[BrokerProcess] = []

    def start(
        *arguments: str, data: Path | None = None, settings: Mapping[str, object] | None = None
    ) -> BrokerProcess:
        name = f"broker-{len(started)}"
        broker = BrokerProcess(data or tmp_path / name, settings=settings, arguments=arguments)
        started.append(broker)
        show_on_failure(name, broker.log)
        return broker.start()

    yield start
    running = [broker for broker in started if broker.is_running]
    exit_codes = [broker.stop() for broker in running]
    for broker, exit_code in zip(running, exit_codes, strict=True):
        assert exit_code == 0, f"{broker.data_dir.name} ended with exit code {exit_code}"
    for broker in started:
        assert "Traceback (most recent call last)" not in broker.log()


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """One broker with default settings."""
    return start_broker()
