"""Runs a declared pipeline on Spark: reads topics, computes steps, writes targets."""
