"""The log: the bytes of one partition on disk, blocking, with a single writer."""
