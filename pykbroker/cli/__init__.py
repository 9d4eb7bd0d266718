"""The command `pykbroker`: the broker's switch, and a client for people at a terminal."""
