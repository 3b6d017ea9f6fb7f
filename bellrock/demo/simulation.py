"""A small time-stepping program: it reads its input, computes, keeps a log, and writes a checkpoint every few steps.

`python3 simulation.py DIR [STEPS [CHECKPOINT_EVERY [CHECKPOINT_BYTES [STEP_S]]]]`. It knows nothing of Bellrock.
"""

import os
import struct
import sys
import time

CELLS = 256


def step(cells: list[float]) -> list[float]:
    """One step of heat in a ring of cells."""
    return [0.5 * cells[i] + 0.25 * (cells[i - 1] + cells[(i + 1) % len(cells)]) for i in range(len(cells))]


def checkpoint(path: str, cells: list[float], size_bytes: int) -> None:
    """Write the state in blocks of 64 KiB to a file beside, sync it, and rename it to `path`."""
    block = (struct.pack(f"{len(cells)}d", *cells) * 32)[: 64 << 10]
    handle = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for _ in range(size_bytes // len(block)):
        os.write(handle, block)
    os.fsync(handle)
    os.close(handle)
    os.rename(path + ".part", path)


def main(folder: str, steps: int = 30, every: int = 10, size_bytes: int = 16 << 20, step_s: float = 0.2) -> None:
    """Simulate `steps` steps of `step_s`."""
    with open(os.path.join(folder, "input.dat"), "rb") as file:
        data = file.read()
    cells = [float(byte) for byte in data[:CELLS]]
    with open(os.path.join(folder, "simulation.log"), "w") as log:
        for number in range(1, steps + 1):
            cells = step(cells)
            time.sleep(step_s)
            log.write(f"step {number}: warmest {max(cells):.3f}\n")
            if number % every == 0:
                checkpoint(os.path.join(folder, f"state.{number:04d}"), cells, size_bytes)
                log.flush()


if __name__ == "__main__":
    words = sys.argv[1:]
    if not 1 <= len(words) <= 5:
        sys.exit("usage: simulation.py DIR [STEPS [CHECKPOINT_EVERY [CHECKPOINT_BYTES [STEP_S]]]]")
    main(words[0], *(int(word) for word in words[1:4]), *(float(word) for word in words[4:]))
