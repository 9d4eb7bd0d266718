"""An error about a missing package names the extra that installs it."""

import subprocess
import sys

import pytest

from pykbroker.extras import how_to_install

pytestmark = pytest.mark.slow

WITHOUT = "import sys; sys.modules[{module!r}] = None\n"


@pytest.mark.parametrize(
    ("module", "program", "extra"),
    [
        ("pyarrow", "from pykbroker import Broker\nwith Broker(['t']) as k: k.arrow('t')", "arrow"),
        ("testcontainers", "import pykbroker.testing.containers", "containers"),
    ],
)
def test_error_about_a_missing_package_names_its_extra(
    module: str, program: str, extra: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(module=module) + program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stderr.splitlines()[-1].endswith(f"is not installed: {how_to_install(extra)}")


def test_the_embedded_broker_imports_no_optional_package() -> None:
    program = (
        "import sys, pykbroker.testing, pykbroker.testing.embedded\n"
        "print([it for it in ('pyarrow', 'construct', 'pytest', 'testcontainers', 'numpy', "
        "'pyspark', 'kafka', 'confluent_kafka', 'aiokafka') if it in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == "[]\n"
