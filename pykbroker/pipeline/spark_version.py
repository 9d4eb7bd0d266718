"""Which Spark is installed, and which versions go together."""


def spark_version() -> str:
    """The version of pyspark, such as 4.0.0; its import is quick, for it starts no JVM."""
    import pyspark  # noqa: PLC0415  # an extra: what is said without it is said by the caller

    return pyspark.__version__


def minor_line(version: str) -> str:
    """The two numbers that Spark and its connector must share: 4.0 of 4.0.0."""
    return ".".join(version.split(".")[:2])
