"""What is raised when Spark's jars cannot be had."""


class JarsUnavailableError(RuntimeError):
    """Spark would lack something; the message says which artifact, and what to do about it."""
