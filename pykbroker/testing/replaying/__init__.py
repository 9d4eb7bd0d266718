"""Serves clients from a recorded session and reports requests that differ from it."""
