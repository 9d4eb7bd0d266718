"""The wire: bytes to values and back, with no sockets, files, clock or chance."""
