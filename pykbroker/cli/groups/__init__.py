"""The commands of `pykbroker groups`."""
