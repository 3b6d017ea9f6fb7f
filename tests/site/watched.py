"""`python -m tests.site.watched NODE_RINGS WATCH JOB -- CMD…`: a program under watch on a node whose agent is there already; no server beside it."""

from __future__ import annotations

import os
import sys

from bellrock import program
from bellrock.run import run_program
from bellrock.watch import Watch


def main(rings: str, watch: str, job: str, dashes: str, *argv: str) -> int:
    assert dashes == "--"
    os.environ["BELLROCK_RINGS"] = rings
    with program.signals_held() as mask:
        return run_program(argv, job, Watch((watch,)), mask, lambda text: print(text, file=sys.stderr)).exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
