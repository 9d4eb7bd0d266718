"""Compares the embedded broker with other brokers for tests."""
