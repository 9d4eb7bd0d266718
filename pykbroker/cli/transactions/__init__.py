"""The commands of `pykbroker transactions`."""
