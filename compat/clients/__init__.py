"""Consumers of several libraries as programs, which can be watched, stopped and killed."""
