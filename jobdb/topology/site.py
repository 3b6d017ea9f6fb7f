"""A site's folder, read and checked."""

from pathlib import Path

from . import checks
from .facts import Port, Site
from .files import Mistakes, read_folder
from .read import READERS, read


def load(folder: Path) -> Site:
    """What the files *.toml of a folder say. Raises BadTopology with all mistakes."""
    mistakes = Mistakes()
    blocks, digest = read_folder(folder, READERS, mistakes)
    # What a file that cannot be read says may be what others name.
    is_whole = not mistakes.found
    draft = read(blocks, mistakes)
    draft.names_known &= is_whole
    checks.check(draft, mistakes)
    mistakes.raise_any()
    facts = {kind: frozenset(found) for kind, found in draft.facts.items()}
    switches = draft.switches()
    facts[Port] = frozenset(port._replace(is_switch=port.peer in switches) for port in facts[Port])
    return Site(facts, frozenset(failover for failover, _ in draft.failovers), frozenset(draft.withdrawn), digest)
