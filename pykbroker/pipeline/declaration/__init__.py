"""The declaration of a pipeline: parsed from TOML and validated without Spark."""
