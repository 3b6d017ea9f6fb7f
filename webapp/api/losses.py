"""What agents count of losses, by the names of the values in their samples: the one list of them."""

import math
from collections.abc import Mapping

# What makes figures too low, or poorer: name → what it is of.
LOSSES = {
    "lost": "operations that programs could not record",
    "lost_runs": "runs that were overwritten in a ring file before they were read",
    "lost_records": "records that were lost with a damaged spool",
    "lost_names": "file names that found no room",
    "lost_log_bytes": "bytes of a trace log that were gone before they were read",
}
# What costs detail and no sum.
OVERFLOWS = ("folded", "spool_full_seconds")
TOLD = (*LOSSES, *OVERFLOWS)
WHOLE_MAX = 1 << 53
# Of the losses, what programs did and no record tells. What a damaged spool loses (`lost_records`) is missing from the sequence, too.
_UNTOLD = ("lost", "lost_runs")


def lost(told: Mapping[str, float]) -> int:
    """Operations and runs that are lost, besides records that are missing from the sequence."""
    return whole(sum(told.get(name, 0) for name in _UNTOLD))


def whole(value: float) -> int:
    """A whole number that is not 0 where `value` is not: a small loss is one. Sums beyond what every reader of JSON can hold are told as that much."""
    return math.ceil(max(-WHOLE_MAX, min(value, WHOLE_MAX)))
