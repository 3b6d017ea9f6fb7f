"""Reads the archive's blocks as docs/format.md tells it, step by step: slow, and written from that text alone."""

from tests.unit.compression.reference.head import read_block
from tests.unit.compression.reference.records import file_id, read_primer, read_records

__all__ = ["file_id", "read_block", "read_primer", "read_records"]
