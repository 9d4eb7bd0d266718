"""Draws a declared pipeline as a diagram, without Spark."""
