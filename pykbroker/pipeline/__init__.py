"""Pipelines: Spark reads topics of a broker and writes to them, here and nowhere else."""
