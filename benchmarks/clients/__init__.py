"""Clients that run in processes of their own and print their numbers as one JSON object."""
