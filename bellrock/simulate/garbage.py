"""What real logs hold besides: lines that are none, and files whose names look like lines."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Each so-many-th file has a nasty name.
NASTY_EVERY = 3
NASTY = (
    " READ size=4096 offset=0",
    " => 0x1200bd3f0",
    "] lwfs-fuse: 7: WRITE (0x1, size=1, offset=0)",
    "\tä 日本 \x7f%s%n",
    "[2016-07-27 15:34:33] T READ 0x1 size=1 offset=9 count=3",
)
# No line of these is an operation, whole or cut.
FOREIGN = (
    "",
    "\n",
    "pending frames:",
    "[2016-07-27 15:34:33] E [client-protocol.c:415:client_ping_timer_expired] beacon: server has not responded",
    "READ (0x1200bd3f0, size=131072, offset=0)",
    "[2016-07-27 15:34:33] T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: 18049: WRITE (0x1200bd3f0, size=-1, offset=0)",
    "[2016-07-27 15:34:33] T [fuse-bridge.c:1967:fuse_writev] lwfs-fuse: 18049: WRITE (0x1200bd3f0, size=131072, offset=99999999999999999999)",
    "[2016-07-27 15:34:33] T READ 0x1200bd3f0 size=4096 offset=4096 count=99",
    "[2016-07-27 15:34:33] T READ 0x1200bd3f0 size=4096 offset=4096 count=",
    "\x00\x01\x02 \x1b[31m",
    "x" * 3000,
)
# Where true lines are cut: all of them have lost at least what they are about, `[YYYY-MM-DD HH:MM:SS] T OPEN() ` being 31.
CUTS = (1, 15, 27, 31)


def nasty(paths: pa.Array) -> pa.Array:
    """The paths, some of them with an ending that a careless reader takes for a log line."""
    number = np.arange(len(paths))
    ending = np.where(number % NASTY_EVERY == 0, number // NASTY_EVERY % len(NASTY) + 1, 0)
    return pc.binary_join_element_wise(paths, pa.array(["", *NASTY]).take(pa.array(ending)), "")


def put_between(lines: pa.Array, share: float, rng: np.random.Generator) -> pa.Array:
    """`lines` with others put in between, so that these are `share` of all: foreign ones, and beginnings of true ones."""
    extra = round(len(lines) * share / (1 - share))
    foreign = pa.array(FOREIGN).take(pa.array(rng.integers(0, len(FOREIGN), extra)))
    models = lines.take(pa.array(rng.integers(0, len(lines), extra)))
    cuts = [pc.utf8_slice_codeunits(models, 0, stop) for stop in CUTS]
    which = rng.integers(0, 2 * len(cuts), extra)
    chosen = pc.choose(pa.array(np.minimum(which, len(cuts))), *cuts, foreign)
    at = np.concatenate((np.arange(len(lines)) + 0.5, rng.uniform(0, len(lines), extra)))
    order = np.argsort(at, kind="stable")
    return pa.concat_arrays([lines, pc.binary_join_element_wise(chosen, "\n", "")]).take(pa.array(order))
