"""Small files in the file systems of Spark: S3, HDFS, mounted directories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Files below a Hadoop path, accessed through Spark's JVM."""

    spark: SparkSession
    root: str

    def read(self, name: str) -> str | None:
        files, path = self._open(name)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text

    def write(self, name: str, text: str) -> None:
        files, path = self._open(name)
        stream = files.create(path, True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()

    def names(self, directory: str) -> list[str]:
        files, path = self._open(directory)
        if not files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in files.listStatus(path))

    @property
    def _jvm(self) -> Any:
        return self.spark.sparkContext._jvm  # noqa: SLF001  # pyspark has no other access to Hadoop file systems

    def _open(self, name: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self.root.rstrip('/')}/{name}")
        settings = self.spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  # likewise
        return path.getFileSystem(settings), path
