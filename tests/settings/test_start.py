import subprocess
import sys

HEAVY = {"asyncio", "difflib", "json", "random", "inspect", "ssl", "socket"}


def test_the_settings_import_nothing_that_a_start_would_wait_for() -> None:
    # What the interpreter and the two modules every start needs bring along is not counted.
    script = (
        "import sys, dataclasses, logging; before = set(sys.modules); "
        "import pykbroker.settings, pykbroker.clock, pykbroker.telemetry; "
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = run.stdout.split()
    assert "pykbroker.settings" in imported
    assert not HEAVY.intersection(imported)
