"""The commands of `pykbroker pipeline`: here Spark is imported, and only when one of them runs."""
