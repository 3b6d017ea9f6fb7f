"""Which server served a node, as it was at the time: file systems, forwarding nodes, targets and their servers, switches, cabinets, groups, classes of client.

A site keeps it as TOML files in git (docs/topology.md). `site.load` reads and checks them, `repository.Topology` keeps their history in the job database and answers
questions about it, `layouts` keeps which targets a file lies on.
"""

from dataclasses import dataclass

# Of a folder.
FILES_MAX = 200
BYTES_MAX = 8 << 20
# Names that lists and ranges of all files make, each as often as it is written.
NAMES_MAX = 1_000_000
# Of one target: the one that serves it as a rule, and those that take over.
SERVERS_MAX = 16
# Mistakes that are told; the others are counted.
MISTAKES_MAX = 200
# Of one target; a source that tells more is broken.
MOVES_MAX = 10_000
# No end yet: the largest instant that the databases hold.
FOREVER_NS = (1 << 63) - 1


@dataclass(frozen=True)
class Mistake:
    """Something wrong in a site's files. where: the file, with line or block as far as known."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class BadTopology(Exception):
    """The files cannot be taken. `mistakes`: all that was found, MISTAKES_MAX at most; `more`: how many besides."""

    def __init__(self, mistakes: list[Mistake], more: int = 0) -> None:
        super().__init__("; ".join(map(str, mistakes[:3])))
        self.mistakes, self.more = mistakes, more


class TopologyError(ValueError):
    """What was asked of the topology cannot be done; the text says why."""
