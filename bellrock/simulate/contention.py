"""How fast those get on who use shared servers at once.

Each server has work for a second in a second. Whoever uses it at full speed asks for `demand` seconds of its work a second; all get on at the same
share of their speed until a server is full, then those that use it stay at that share, and the others go on (max-min fairness by progressive filling).
Forwarding nodes serve metadata before data, as LWFS did (Beacon, section 4.1).
"""

import numpy as np

# Nobody stands still, whoever goes before.
SPEED_MIN = 1e-3
# Data gets at least so much of a server that is full of metadata.
DATA_SHARE_MIN = 0.05


def speeds(demand: np.ndarray, limit: np.ndarray, is_first: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """The share of its full speed that each user gets, shape (users,), more than 0 and at most 1.

    demand: seconds of work a second at full speed, shape (users, servers). limit: the most that a user can get, shape (users,). is_first: users that
    are served before the others. capacity: what part of a server's usual work it can do, shape (servers,)."""
    result = np.empty(len(demand))
    first, rest = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    result[first] = _fill(demand[first], limit[first], capacity)
    used = (demand[first] * result[first, None]).sum(axis=0)
    result[rest] = _fill(demand[rest], limit[rest], np.maximum(capacity - used, capacity * DATA_SHARE_MIN))
    return np.maximum(result, SPEED_MIN)


def _fill(demand: np.ndarray, limit: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    if (limit == 1).all() and (demand.sum(axis=0) <= capacity).all():
        # Nobody is in the way, as most of the time.
        return np.ones(len(demand))
    result = np.zeros(len(demand))
    left = capacity.copy()
    going = np.ones(len(demand), dtype=bool)
    while going.any():
        total = demand[going].sum(axis=0)
        level = np.divide(left, total, out=np.full(len(left), np.inf), where=total > 0)
        lowest = min(float(level.min(initial=np.inf)), float(limit[going].min()))
        # Within a rounding error of the lowest, for all of these stop there.
        full = level <= lowest * (1 + 1e-9)
        stops = going & ((limit <= lowest * (1 + 1e-9)) | (demand[:, full] > 0).any(axis=1))
        result[stops] = lowest
        left = np.maximum(left - (demand[stops] * lowest).sum(axis=0), 0.0)
        going &= ~stops
    return result
