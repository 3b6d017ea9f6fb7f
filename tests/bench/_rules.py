"""Simple rules for slow servers, to hold what `anomaly` finds against: Beacon's released one, of a job, and a plain z-score. Both look at each hour, and hours that follow
each other are one finding (`joined`): rows of (component, first minute, minute after the last, minute in which it was known), shape (findings, 4)."""

import numpy as np

HOUR = 60
# Of the mean of the peers' maxima, and of their mean volume.
RATE_PART, VOLUME_PART = 0.5, 0.6
Z = 3.0


def beacon(bytes_: np.ndarray) -> np.ndarray:
    """Which of the servers of one job, in an hour of it, have an average rate (of minutes with any bytes) and a highest one below half of the mean of all their highest, with more
    than 0.6 of their mean volume, shape (components,). bytes_: moved for the job, shape (minutes, components)."""
    volume, busy, most = bytes_.sum(axis=0), (bytes_ > 0).sum(axis=0), bytes_.max(axis=0)
    at_work = volume > 0
    if not at_work.any():
        return at_work
    half = RATE_PART * most[at_work].mean()
    return (volume / np.maximum(busy, 1) < half) & (most < half) & (volume > VOLUME_PART * volume[at_work].mean())


def z_score(ops: np.ndarray, service_s: np.ndarray) -> np.ndarray:
    """Servers whose mean service of an hour is more than three standard deviations above that of all servers and hours of the same day. ops, service_s: requests and their summed
    service, shape (minutes, components)."""
    count, taken = (_hours(values).sum(axis=1) for values in (ops, service_s))
    mean = np.divide(taken, count, out=np.full(taken.shape, np.nan), where=count > 0)
    is_slow = np.zeros(mean.shape, dtype=bool)
    for first in range(0, len(mean), 24):
        day = mean[first : first + 24]
        if not np.isnan(day).all():
            is_slow[first : first + 24] = day - np.nanmean(day) > Z * np.nanstd(day)
    return joined(is_slow)


def _hours(values: np.ndarray) -> np.ndarray:
    """By hour, shape (hours, 60, components); what the last lacks is 0."""
    return np.pad(values, ((0, -len(values) % HOUR), (0, 0))).reshape(-1, HOUR, values.shape[1])


def joined(is_slow: np.ndarray) -> np.ndarray:
    """Hours that follow each other as findings; is_slow: shape (hours, components)."""
    change = np.diff(np.pad(is_slow.astype(np.int8), ((1, 1), (0, 0))), axis=0).T
    component, begin = np.nonzero(change > 0)
    _, end = np.nonzero(change < 0)
    return np.stack([component, begin * HOUR, end * HOUR, (begin + 1) * HOUR - 1], axis=1)
