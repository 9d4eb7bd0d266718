"""Clients that run as separate processes and print their measurements as one JSON object."""
