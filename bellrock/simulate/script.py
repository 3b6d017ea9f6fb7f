"""Writes a model burst by burst, so that a kind of job reads like the program that it stands for."""

import numpy as np

from bellrock.simulate.model import Burst, FileGroup, Model, Step

S = 10**9
MS = 10**6
# A pause at least so long ends a phase (the 5 s of anomaly/phases.py and some more), one at most so long does not.
PHASE_BREAK_S = 6.0
PHASE_HOLDS_S = 3.0
# Processes do the same thing with so much of a difference: the share of a burst by which the last starts later, or ends earlier.
SKEW = 0.04
# But for no longer: with a pause before it that must not end a phase.
SKEW_MAX_NS = S
OPEN_NS, CLOSE_NS = 2 * MS, MS
FIRST_HANDLE = 3
ENOENT = 2


class Script:
    """Takes down what the processes of one job do, one thing after the other; `model` gives the result.

    All times are since the job's start; `now_ns` is when all that was written down is over.
    """

    def __init__(self, rng: np.random.Generator, nodes: int, per_node: int) -> None:
        self.rng = rng
        self.nodes, self.per_node = nodes, per_node
        self.processes = nodes * per_node
        self.everyone = np.arange(self.processes)
        self.now_ns = int(rng.integers(100 * MS, 3 * S))
        self._phase = 0
        self._bursts: list[Burst] = []
        self._groups: list[FileGroup] = []
        self._steps: list[Step] = []
        self._n_files = 0

    def files(self, prefix: str, suffix: str, count: int) -> np.ndarray:
        """The numbers of `count` new files."""
        self._groups.append(FileGroup(prefix, suffix, count))
        numbers = np.arange(self._n_files, self._n_files + count)
        self._n_files += count
        return numbers

    def pause(self, *, breaks: bool) -> None:
        """The processes compute: for long enough to end the phase, or not."""
        seconds = self.rng.uniform(PHASE_BREAK_S, 60.0) if breaks else self.rng.uniform(0.0, PHASE_HOLDS_S)
        self.now_ns += round(seconds * S)
        self._phase += breaks and bool(self._bursts)

    def compute(self, seconds: float) -> None:
        """The processes compute for so long; it ends a phase if it is long enough."""
        self.now_ns += round(seconds * S)
        self._phase += seconds >= PHASE_BREAK_S and bool(self._bursts)

    def transfer(
        self, op: str, who: np.ndarray, file: np.ndarray, seconds: float, *, uneven: bool = False, count: int = 1, irregular: float = 0.0, stripes: int = 1,
        **more,
    ) -> None:  # fmt: skip
        """The processes `who` open their files, read or write (`Burst` tells by what fields), and close them; about `seconds` in all.
        uneven: their numbers of operations differ by up to a fifth, and each goes on in its file where its last run ended. irregular: share of
        operations that come besides, of an odd size and anywhere. stripes: on how many targets each file lies."""
        first, step_ns = len(self._bursts), self.now_ns
        begin_ns, end_ns = self._skewed(len(who), round(seconds * S))
        counts = np.full(len(who), count)
        if uneven:
            counts += self.rng.integers(-(count // 10), count // 10 + 1, len(who))
            more["run_step"] = counts * more["size"]
        self._metadata("open", who, file, begin_ns - OPEN_NS, begin_ns, handle=FIRST_HANDLE)
        busy = float(self.rng.uniform(0.3, 0.95))
        self._add(Burst(op, self._phase, who, file, begin_ns, end_ns, count=counts, handle=FIRST_HANDLE, busy=busy, **more))
        odd = round(irregular * int(counts.sum()) * more["runs"])
        if odd:
            some = np.sort(self.rng.choice(len(who), min(odd, len(who)), replace=False))
            size = int(self.rng.integers(1, more["size"])) | 1
            each, own = -(-odd // len(some)), int(counts.max()) * more["runs"]
            # Each takes about as long as one of the regular ones.
            slots = max(own // each, 1)
            self._add(
                Burst(
                    op, self._phase, who[some], file[some], begin_ns[some], end_ns[some], runs=each, count=np.ones(len(some), dtype=np.int64), size=size,
                    scatter=max(own * more["size"], size), handle=FIRST_HANDLE, busy=busy, slot=int(self.rng.integers(slots)), slots=slots,
                )
            )  # fmt: skip
        self._metadata("close", who, file, end_ns, end_ns + CLOSE_NS, handle=FIRST_HANDLE)
        self._step(step_ns, first, stripes, is_shared=len(who) > 1 and bool((file == file[0]).all()))

    def storm(self, file: np.ndarray, each: int, size: int, seconds: float) -> None:
        """Every process makes `each` files, one after the other from `file` (one element a process) on: looks whether it is there, creates it,
        writes `size` bytes once, closes, looks at it and removes it."""
        first, step_ns = len(self._bursts), self.now_ns
        begin_ns, end_ns = self._skewed(self.processes, round(seconds * S))
        one = np.ones(self.processes, dtype=np.int64)
        turns = (("stat", -1, ENOENT), ("open", FIRST_HANDLE, 0), ("write", FIRST_HANDLE, 0), ("close", FIRST_HANDLE, 0), ("stat", -1, 0), ("unlink", -1, 0))
        for slot, (op, handle, errno) in enumerate(turns):
            self._add(
                Burst(
                    op, self._phase, self.everyone, file, begin_ns, end_ns, runs=each, count=one, size=size if op == "write" else 0,
                    file_step=1, handle=handle, errno=errno, slot=slot, slots=len(turns),
                )
            )  # fmt: skip
        self._step(step_ns, first, 1, is_shared=False)

    def _step(self, begin_ns: int, first: int, stripes: int, is_shared: bool) -> None:
        self._steps.append(Step(begin_ns, self.now_ns, first, len(self._bursts), stripes, is_shared))

    def _skewed(self, n: int, length_ns: int) -> tuple[np.ndarray, np.ndarray]:
        skew_ns = min(max(int(length_ns * SKEW), 1), SKEW_MAX_NS)
        begin_ns = self.now_ns + OPEN_NS + self.rng.integers(0, skew_ns, n)
        end_ns = self.now_ns + OPEN_NS + length_ns - self.rng.integers(0, skew_ns, n)
        return begin_ns, np.maximum(end_ns, begin_ns + MS)

    def _metadata(self, op: str, who: np.ndarray, file: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray, handle: int) -> None:
        self._add(Burst(op, self._phase, who, file, start_ns, end_ns, runs=1, count=np.ones(len(who), dtype=np.int64), handle=handle))

    def _add(self, burst: Burst) -> None:
        self._bursts.append(burst)
        self.now_ns = max(self.now_ns, int(burst.end_ns.max()))

    def model(self, kind: str, program: str, *, mode_read: str | None, mode_write: str | None, ranked: bool = True) -> Model:
        """The job as it was taken down; it ends a little after its last operation."""
        wall_ns = self.now_ns + int(self.rng.integers(50 * MS, 2 * S))
        return Model(kind, program, self.nodes, self.per_node, ranked, mode_read, mode_write, wall_ns, self._bursts, self._groups, self._steps)
