"""The I/O mode of each phase: who shares files with whom."""

import numpy as np

from .grouping import group, highest, sums

CUT = 100  # a file or process counts from 1/100 of the largest's bytes


def io_modes(
    phase: np.ndarray, file: np.ndarray, process: np.ndarray, size_bytes: np.ndarray, n_phases: int, n_processes: int
) -> list[str | None]:
    """The I/O mode of each phase in one direction, from its runs (any order, one element a run).

    phase: number of the run's phase. file: number, or -1 where the file is not known. process: number. size_bytes: bytes moved.
    n_processes: N, the job's processes.

    Returns "N-N", "N-M", "N-1", "1-1" or None (no bytes, or several processes of which no file is known) for each phase.

    A file counts from 1 % of the largest file's bytes; an I/O process from 1 % of the busiest one's; k is the number of I/O processes,
    and a file's users are the I/O processes that moved bytes to or from it, or, where none did, all processes that did.
    "The bytes" are those of the files that count.
    k = 1: 1-1. Files with one user hold at least 95 %: N-N where k ≥ 0.9 N, else N-M. Files with at least 0.9 k users hold
    at least 95 %: N-1. Else N-M. All in whole numbers, so that a bound is met exactly.

    Source: DESIGN "I/O mode".
    """
    moved = size_bytes > 0
    phase, file, process, size_bytes = phase[moved], file[moved], process[moved], size_bytes[moved]
    if not len(phase):
        return [None] * n_phases
    (pp_phase, _), pp = group((phase, n_phases), (process, int(process.max()) + 1))
    pp_bytes = sums(pp, size_bytes, len(pp_phase))
    is_io = pp_bytes >= _share(highest(pp_phase, pp_bytes, n_phases))[pp_phase]
    k = np.bincount(pp_phase[is_io], minlength=n_phases)

    known = file >= 0
    (file_phase, _), run_file = group((phase[known], n_phases), (file[known], max(int(file.max()) + 1, 1)))
    file_bytes = sums(run_file, size_bytes[known], len(file_phase))
    (user_pp, user_file), _ = group((pp[known], len(pp_phase)), (run_file, max(len(file_phase), 1)))
    users = np.bincount(user_file[is_io[user_pp]], minlength=len(file_phase))
    minor_users = np.bincount(user_file[~is_io[user_pp]], minlength=len(file_phase))
    counts = file_bytes >= _share(highest(file_phase, file_bytes, n_phases))[file_phase]

    total = sums(file_phase[counts], file_bytes[counts], n_phases)
    alone = counts & ((users == 1) | ((users == 0) & (minor_users == 1)))
    shared = counts & (10 * users >= 9 * k[file_phase])
    enough = total - total // 20  # 95 %, rounded up
    alone_enough = sums(file_phase[alone], file_bytes[alone], n_phases) >= enough
    shared_enough = sums(file_phase[shared], file_bytes[shared], n_phases) >= enough

    modes: list[str | None] = []
    for number in range(n_phases):
        if k[number] == 1:
            modes.append("1-1")
        elif total[number] == 0:
            modes.append(None)
        elif alone_enough[number]:
            modes.append("N-N" if 10 * k[number] >= 9 * n_processes else "N-M")
        else:
            modes.append("N-1" if shared_enough[number] else "N-M")
    return modes


def job_mode(modes: list[str | None], phase_bytes: np.ndarray) -> str | None:
    """The mode with most bytes over the phases; of equals the one that came first. None where no phase has a mode."""
    total: dict[str, int] = {}
    for mode, size_bytes in zip(modes, phase_bytes.tolist(), strict=True):
        if mode is not None:
            total[mode] = total.get(mode, 0) + size_bytes
    return max(total, key=total.__getitem__) if total else None


def _share(largest: np.ndarray) -> np.ndarray:
    """1 % of `largest`, rounded up."""
    return largest // CUT + (largest % CUT > 0)
