"""Prints docs/records.md."""

import sys

from pipeline.schema import markdown

sys.stdout.write(markdown())
