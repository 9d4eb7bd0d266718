"""The version of this package; `pykbroker.__version__` and the distribution take it from here."""

__version__ = "0.1.0"
