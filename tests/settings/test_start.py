import subprocess
import sys

HEAVY = {"asyncio", "difflib", "json", "random", "inspect", "ssl", "socket"}


def test_settings_do_not_import_slow_modules() -> None:
    # Modules that the interpreter and these two modules import are not counted.
    script = (
        "import sys, dataclasses, logging; before = set(sys.modules); "
        "import pykbroker.settings, pykbroker.clock, pykbroker.telemetry; "
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = run.stdout.split()
    assert "pykbroker.settings" in imported
    assert not HEAVY.intersection(imported)
