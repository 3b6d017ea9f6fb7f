"""What some servers did, and servers that come and go while they are screened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anomaly.episodes import Report, Screening
from anomaly.service import Cost

# A server that was not heard of for so many minutes is none any more; should it come back it is a new one.
GONE = 7 * 24 * 60

# A server's name: node and instance.
Server = tuple[str, str]


@dataclass(frozen=True)
class Served:
    """What some servers did in minutes: requests, bytes and service, s, shape (minutes, servers, classes), finite and not below 0; seen: shape (minutes, servers), whether
    there are data. keys: what names each for good."""

    keys: Sequence[str]
    names: Sequence[Server]
    ops: np.ndarray
    bytes: np.ndarray
    service_s: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True)
class Demand:
    """What servers took, and should have taken, for requests of all classes that have a cost, s; how many these were; what they moved, and the service of those that moved anything. Shape (minutes, servers)."""

    taken_s: np.ndarray
    expected_s: np.ndarray
    ops: np.ndarray
    moved: np.ndarray
    moving_s: np.ndarray

    def share(self, peak_bytes_s: float) -> np.ndarray:
        """Bytes for each second of service ÷ the known peak; NaN where nothing was moved, or there is none."""
        could = self.moving_s * peak_bytes_s
        # Bytes that took next to no time are no small share, whatever the quotient.
        return np.divide(self.moved, np.maximum(could, 1e-9), out=np.full(self.moved.shape, np.nan), where=could > 0)


def demand(served: Served, costs: Sequence[Cost | None]) -> Demand:
    """costs: by class."""
    found = Demand(*(np.zeros(served.seen.shape) for _ in range(5)))
    for number, cost in enumerate(costs):
        if cost is not None:
            of_class = served.ops[..., number], served.bytes[..., number], served.service_s[..., number]
            # What has no requests has no time either, and the other way round: else the two do not tell of the same.
            used = (of_class[0] > 0) & (of_class[2] > 0)
            ops, bytes_, service_s = (np.where(used, values, 0.0) for values in of_class)
            for sums, values in zip(vars(found).values(), (service_s, cost.expected_s(ops, bytes_), ops, bytes_, np.where(bytes_ > 0, service_s, 0.0)), strict=True):
                sums += values
    return found


def peak_of(known: float, costs: Sequence[Cost | None]) -> float:
    """Bytes for each second of service: as it is known, else (0) as costs tell; 0 where they do not."""
    return known or max((cost.peak_bytes_s for cost in costs if cost is not None), default=0.0)


class Followed:
    """Who is at which place of `screening`. names: by key. `to_dict` fits JSON."""

    def __init__(self, report: Report) -> None:
        self.screening = Screening(0, report)
        self.keys: list[str] = []
        self.names: dict[str, Server] = {}
        self._heard: dict[str, int] = {}

    def places(self, served: Served, at: int) -> np.ndarray:
        """Which of the followed servers each is, of minutes from `at` on; those that are new follow behind them."""
        known = {key: number for number, key in enumerate(self.keys)}
        new = [key for key in served.keys if key not in known]
        if new:
            self.screening.reshape(np.arange(len(self.keys)), len(new))
            self.keys += new
            known |= {key: number for number, key in enumerate(self.keys[len(known) :], len(known))}
        minutes = np.arange(1, len(served.seen) + 1)[:, None]
        last = np.max(minutes * served.seen, axis=0, initial=0)
        for key, name, minute in zip(served.keys, served.names, last.tolist(), strict=True):
            if minute or key not in self._heard:
                self.names[key], self._heard[key] = name, at + max(minute, 1) - 1
        return np.array([known[key] for key in served.keys], dtype=np.intp)

    def drop_gone(self, at: int) -> None:
        """Forgets those that are not there any more."""
        lasting = self.screening.suspected()
        kept = [number for number, key in enumerate(self.keys) if number in lasting or at - self._heard[key] <= GONE]
        if len(kept) < len(self.keys):
            self.screening.reshape(np.array(kept, dtype=np.intp), 0)
            self.keys = [self.keys[number] for number in kept]
            self.names, self._heard = ({key: of[key] for key in self.keys} for of in (self.names, self._heard))

    def to_dict(self) -> dict[str, Any]:
        return {"screening": self.screening.to_dict(), "keys": self.keys, "names": self.names, "heard": self._heard}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Followed:
        followed = cls(Report())
        followed.screening, followed.keys, followed._heard = Screening.from_dict(kept["screening"]), list(kept["keys"]), dict(kept["heard"])
        followed.names = {key: (node, instance) for key, (node, instance) in kept["names"].items()}
        return followed
