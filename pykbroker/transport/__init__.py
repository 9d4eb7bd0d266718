"""Listeners and connections: bytes from sockets to requests, responses in request order."""
