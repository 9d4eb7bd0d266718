"""The commands of `pykbroker pipeline`."""
