"""Measurements, never tests: `make bench [ONLY=name]`. Each module here is one benchmark: run() -> list of rows."""
