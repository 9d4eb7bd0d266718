"""Collects the facts about this machine that `pipeline doctor` checks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.doctor import Machine
from pykbroker.pipeline.jar_cache import JarsUnavailableError
from pykbroker.pipeline.java import find_java
from pykbroker.pipeline.spark_jars import JarSet, jars_in_cache, spark_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.pipeline.spark_jars import FoundJars

VERSION_TIMEOUT_SECONDS: Final = 60.0
PACKAGES: Final = {"confluent_kafka": "confluent-kafka", "pyarrow": "pyarrow"}
PRINT_VERSION: Final = "import sys; print(*sys.version_info[:2])"
CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED: Final = Path("/sys/fs/cgroup/memory.current")


def this_machine(jar_sets: Sequence[JarSet] = (JarSet.CONNECTOR,)) -> Machine:
    spark = spark_version() if find_spec("pyspark") else None
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    return Machine(
        java=find_java(),
        java_home=os.environ.get("JAVA_HOME"),
        spark=spark,
        spark_home=spark_home_version(),
        jars={jar_set: jars_or_reason(jar_set) for jar_set in jar_sets} if spark else {},
        memory_bytes=memory_free(),
        worker_python=python,
        worker_version=python_version(python),
        packages_missing=tuple(name for module, name in PACKAGES.items() if not find_spec(module)),
    )


def jars_or_reason(jar_set: JarSet) -> FoundJars | str | None:
    try:
        return jars_in_cache(jar_set)
    except JarsUnavailableError as reason:
        return str(reason)


def spark_home_version() -> str | None:
    """Returns the version of the Spark in SPARK_HOME, from the file name of its core jar."""
    home = os.environ.get("SPARK_HOME")
    cores = sorted(Path(home).glob("jars/spark-core_*.jar")) if home else []
    return cores[0].stem.rpartition("-")[2] if cores else None


def python_version(python: str) -> tuple[int, int] | None:
    executable = shutil.which(python)
    if executable is None:
        return None
    completed = subprocess.run(  # noqa: S603  # from the environment of the user
        [executable, "-c", PRINT_VERSION],
        check=False,
        capture_output=True,
        text=True,
        timeout=VERSION_TIMEOUT_SECONDS,
    )
    numbers = completed.stdout.split()
    return (int(numbers[0]), int(numbers[1])) if completed.returncode == 0 else None


def memory_free() -> int | None:
    """Returns the available memory of the machine, limited by that of this container."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
    free = int(sizes["MemAvailable"].split()[0]) * 1024
    limit = container_limit()
    return free if limit is None else min(free, limit)


def container_limit() -> int | None:
    try:
        limit, used = CGROUP_LIMIT.read_text().strip(), CGROUP_USED.read_text().strip()
    except OSError:
        return None
    return int(limit) - int(used) if limit != "max" else None
