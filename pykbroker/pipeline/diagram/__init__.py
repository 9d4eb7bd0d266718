"""A declared pipeline as a picture: what flows where, drawn without Spark."""
