"""PyKBroker runs on Windows, simulated by removing the Linux parts of the standard library."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ON_WINDOWS = [sys.executable, str(HERE / "simulated_windows.py")]
PATHS = os.pathsep.join(str(ROOT / it) for it in (".", "protocol", "storage"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS}

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="needs /proc to find files in use"
)


def test_a_broker_serves_clients_and_survives_restart_crash_and_fork() -> None:
    from kafka import KafkaConsumer, KafkaProducer

    with subprocess.Popen(
        [*ON_WINDOWS, str(HERE / "broker_life_cycle.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as broker:
        assert broker.stdin is not None
        assert broker.stdout is not None
        bootstrap = broker.stdout.readline().strip()
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        for partition, value in enumerate((b"80", b"81")):
            producer.send("trucks", value, partition=partition).get(60)
        producer.close()
        consumer = KafkaConsumer(
            "trucks",
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        assert {next(consumer).value for _ in range(2)} == {b"80", b"81"}
        consumer.close()
        broker.stdin.write("written\n")
        broker.stdin.flush()
        assert broker.stdout.readline() == "done\n"
        assert broker.wait(60) == 0


def test_serve_ends_on_sigterm(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    for _ in range(2):  # the second run starts on the data of the first
        with subprocess.Popen(
            [*ON_WINDOWS, "-m", "pykbroker", "serve", "--listen", "127.0.0.1:0", "--data", data],
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        ) as broker:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith("pykbroker ready ")
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(60) == 0


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(IMPORT_ALL)
    ran = subprocess.run(
        [*ON_WINDOWS, str(program)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {}


def test_one_process_at_a_time_fills_the_jar_cache(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(FETCH)

    def fetcher() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*ON_WINDOWS, str(program), str(tmp_path / "jars")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    with fetcher() as first, fetcher() as second:
        assert first.stdin is not None
        assert second.stdin is not None
        assert first.stdout is not None
        assert second.stdout is not None
        ready, _, _ = select.select([first.stdout, second.stdout], [], [], 60)
        (waits,) = {first, second} - {it for it in (first, second) if it.stdout in ready}
        assert waits.stdout is not None
        assert select.select([waits.stdout], [], [], 0.5)[0] == []
        for it in (first, second):
            assert it.stdin is not None
            it.stdin.close()
        assert (first.wait(60), second.wait(60)) == (0, 0)
        assert waits.stdout is not None
        assert waits.stdout.read() == "mine\n"


FETCH = """\
import sys
from pathlib import Path
from pykbroker.pipeline.jar_cache import JarCache
with JarCache(Path(sys.argv[1])).filling():
    print("mine", flush=True)
    sys.stdin.read()
"""

IMPORT_ALL = """\
import importlib, json, pkgutil
failed = {}
for package in ("pykbroker_protocol", "pykbroker_storage", "pykbroker"):
    for it in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if it.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(it.name)
        except ImportError as problem:
            failed[it.name] = str(problem)
print(json.dumps(failed))
"""
