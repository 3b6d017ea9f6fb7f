"""For whom a brick did what: which jobs ran on its clients' nodes, and whose its bytes are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

# Of the hooks' file at a look.
LOG_BYTES_MAX = 1 << 20
# Looks in a row without a byte, after which those that were sent are talk.
IDLE_LOOKS = 3

# A client, and the job of its node; None where that is not known.
Owner = tuple[str, str | None]


class Jobs:
    """Jobs by node, as Slurm's prologs and epilogs tell (`prolog_slurmd NODE JOB`)."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0
        self._running: dict[str, set[str]] = defaultdict(set)

    def look(self) -> dict[str, set[str]]:
        """Those that ran on a node at any time since the last look. Raises OSError."""
        ran = {node: set(jobs) for node, jobs in self._running.items()}
        with self._log.open("rb") as file:
            file.seek(self._read)
            lines = file.read(LOG_BYTES_MAX)
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            event, node, job = line.split()
            if event == "prolog_slurmd":
                self._running[node].add(job)
                ran.setdefault(node, set()).add(job)
            else:
                self._running[node].discard(job)
        return ran


class Shares:
    """Shares out a brick's bytes by what its clients sent, or got, meanwhile. A brick tells of bytes up to a second after its clients, so that those keep
    what they have not been given yet."""

    def __init__(self) -> None:
        self._open = self._idle = 0
        self._credit: dict[Owner, int] = {}

    def look(self, bytes_: int, wire: Mapping[Owner, int]) -> dict[Owner, int]:
        """What each gets of all bytes that nobody has got yet: all of them, once anybody has sent any. wire: bytes since the last look."""
        self._open += bytes_
        for owner, sent in wire.items():
            self._credit[owner] = self._credit.get(owner, 0) + sent
        self._idle = 0 if bytes_ or wire else self._idle + 1
        if self._idle >= IDLE_LOOKS:
            self._credit.clear()
        total = sum(self._credit.values())
        if not self._open or not total:
            return {}
        given: dict[Owner, int] = {}
        passed = taken = 0
        for owner, credit in self._credit.items():
            passed += credit
            given[owner] = self._open * passed // total - taken
            taken += given[owner]
        self._credit = {owner: left for owner, credit in self._credit.items() if (left := credit - given[owner]) > 0}
        self._open = 0
        return given
