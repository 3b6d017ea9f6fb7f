"""The command line, and the one place that wires collectors, store, job database, API and pages together."""

__version__ = "0.1.0"
