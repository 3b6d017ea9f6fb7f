"""Phases of a real program against its own clock."""

from __future__ import annotations

import json
import sys

from tests.e2e.site import PROGRAMS, Site

PROGRAM = PROGRAMS / "checkpoints.py"
CHECKPOINTS, PAUSE_S = 3, 11
TOLERANCE_NS = 2 * 10**9


def test_checkpoints_are_phases_and_the_log_between_them_is_none(site: Site) -> None:
    job = site.new_job()
    data = site.data / job
    data.mkdir()
    with open(site.folder / "measured", "w") as out:
        site.run([sys.executable, PROGRAM, data, CHECKPOINTS, PAUSE_S], job, watch=data, stdout=out)
    own = json.loads((site.folder / "measured").read_text())
    profile = site.profile(job)
    assert profile["phases"] == CHECKPOINTS == len(own)
    for phase, (begin_ns, end_ns) in zip(profile["phase_list"], own, strict=True):
        assert abs(phase["start_ns"] - begin_ns) <= TOLERANCE_NS and abs(phase["end_ns"] - end_ns) <= TOLERANCE_NS
        assert phase["write_bytes"] >= 64 << 20 and phase["write_ops"] >= 64 and phase["nodes"] == 1
    in_phases = sum(phase["write_bytes"] for phase in profile["phase_list"])
    assert 0 < profile["write_bytes"] - in_phases < 10_000, "lines of log"
