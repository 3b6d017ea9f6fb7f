"""Figures of a process in Prometheus's text format, made of what `status()` of its parts tells."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# What goes up and down, and bounds. All other numbers only grow, until the process is started again.
GAUGES = frozenset(
    {
        "connections",
        "queued_windows",
        "waiting",
        "length",
        "items_max",
        "memory_max_bytes",
        "taken",
        "memory_bytes",
        "bytes",
        "wal_bytes",
        "backlog",
        "failed",
        "missing",
        "known",
        "silent",
        "with_losses",
    }
)
# Numbers that are no figures.
LEFT_OUT = frozenset({"pid", "started_ns"})
PREFIX = "bellrock"


def families(prefix: str, status: Mapping[str, Any]) -> Iterator[Metric]:
    """One family a number of `status`, and of the mappings in it: `PREFIX_NAME`. Instants (`…_ns`) become seconds since the epoch; `error` becomes
    `PREFIX_failing`, 1 while there is a text; other texts, lists and what is None are left out."""
    for name, value in status.items():
        whole = f"{prefix}_{name}"
        if name == "error":
            yield GaugeMetricFamily(f"{prefix}_failing", "1 while it fails; the log and the status page tell why.", 0 if value is None else 1)
        elif isinstance(value, Mapping):
            yield from families(whole, value)
        elif name in LEFT_OUT or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        elif name.endswith("_ns"):
            yield GaugeMetricFamily(f"{whole.removesuffix('_ns')}_timestamp_seconds", f"{name} of the status, in seconds since the epoch.", value / 1e9)
        elif name in GAUGES:
            yield GaugeMetricFamily(whole, f"{name} of the status, now.", value)
        else:
            yield CounterMetricFamily(whole, f"{name} of the status, since the process began.", value)


class StatusCollector(Collector):
    """What `ask` gives, each time that somebody scrapes, and the version. `ask` must not raise: a scrape that fails tells less than one
    with a part that is failing."""

    def __init__(self, version: str, ask: Callable[[], Mapping[str, Any]]) -> None:
        self._version, self._ask = version, ask

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        info = GaugeMetricFamily(f"{PREFIX}_build_info", "1; the label tells the version.", labels=["version"])
        info.add_metric([self._version], 1)
        yield info
        yield from families(PREFIX, self._ask())

    def describe(self) -> list[Metric]:
        """Names are known when it is asked only; asking is not for the start."""
        return []


def registry(version: str, ask: Callable[[], Mapping[str, Any]]) -> CollectorRegistry:
    """A registry of its own with that collector, so that two servers in one process tell each its own."""
    made = CollectorRegistry()
    made.register(StatusCollector(version, ask))
    return made
