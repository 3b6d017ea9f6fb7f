"""What servers say of a job: their values before it and after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from bellrock.errors import ApiError
from tests.field.machine import Machine
from tests.wait import until


S = 10**9
# By server: its values by name, a counter's as the total, a histogram's as totals of its buckets.
Told = Mapping[str, Mapping[str, Any]]


class Watch:
    """All that a machine's bricks and disks have told since it was made. Nobody else may use the volume meanwhile."""

    def __init__(self, machine: Machine) -> None:
        assert machine.gluster is not None
        self.machine, self.gluster = machine, machine.gluster
        self.start_ns = time.time_ns()
        self._mount = next(iter(machine.nodes.values())).path(machine.work)
        self._last: tuple[Told, Told] | None = None

    def during(self, work: Callable[[], None]) -> tuple[Told, Told]:
        """What bricks and disks told of the time that some work took."""
        before = self._last or self._now()
        work()
        after = self._last = self._now()
        bricks, disks = ({node: moved(first[node], then[node]) for node in then} for first, then in zip(before, after, strict=True))
        return bricks, disks

    def _now(self) -> tuple[Told, Told]:
        """The totals of bricks and of disks, once all of them have told of now."""
        for brick in self.gluster.bricks.values():
            brick.disk.sync()
        now_ns = time.time_ns()

        def told() -> tuple[Told, Told] | None:
            # Of what does nothing little is told.
            os.statvfs(self._mount)
            bricks, disks = {}, {}
            for node, brick in self.gluster.bricks.items():
                (brick.node.path(brick.disk.place) / "now").touch()
                brick.disk.sync()
                bricks[node] = self._component(node, "gluster_server", brick.instance, now_ns + S)
                disks[node] = self._component(node, "block_device", brick.disk.device, now_ns + S)
            return (bricks, disks) if all((*bricks.values(), *disks.values())) else None  # type: ignore[return-value]

        return until(told, "bricks and disks tell of now")

    def _component(self, node: str, component: str, instance: str, after_ns: int) -> dict[str, Any] | None:
        try:
            found = self.machine.client.component(node, component, instance, from_ns=self.start_ns, points=1)
        except ApiError as error:
            if error.status != 404:
                raise
            return None  # nothing has come from its agent yet
        if (found["last_ns"] or 0) <= after_ns:
            return None
        return {value["name"]: value.get("total", value.get("totals")) for value in found["values"]}


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What each value came to since."""

    def less(first: Any, then: Any) -> Any:
        return [less(*pair) for pair in zip(first, then, strict=True)] if isinstance(then, list) else then - first

    return {name: less(before[name], after[name]) for name in after if name in before and after[name] is not None}
