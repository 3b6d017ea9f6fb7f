"""Which components served a job, and when: by the topology, and by what was heard of."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jobdb.topology import FOREVER_NS
from jobdb.topology.facts import Held, Target
from jobdb.topology.layouts import file_id
from jobdb.topology.questions import Way
from jobdb.topology.repository import Topology
from pipeline.schema.components import COMPONENTS
from pipeline.store import Heard

from . import CACHE_NODES_MAX, CLIENT, COMPONENTS_MAX, FORWARDING, LAYERS, METADATA, STORAGE, Span, TooManyToTell
from . import each
from .spans import common, joined, without

_METADATA_KINDS = ("mdt", "mds")
Clients = Mapping[str, tuple[Span, ...]]
EVER = ((0, FOREVER_NS),)
# Components of Lustre's targets, and of its mounts, which are called as what stands before the targets' last dash.
_LUSTRE, _LUSTRE_CLIENT = ("lustre_ost", "lustre_mdt"), "lustre_client"
# Kinds of component that are looked for on a node: of the others what they are called is known.
HEARD = tuple(
    kind.name for kind in COMPONENTS.values() if (kind.figures and kind.figures.serves in ("files", "caches")) or (kind.clients and not kind.clients.is_exact)
)


@dataclass(frozen=True)
class Served:
    """A component that served the job in `spans`. target: the file system's that it is, or None. is_certain: the job is known to have used it. clients: by node, whom
    a forwarding node serves, when (these may be many: they are not in `repr`); None: whoever there is, `by_map` only on nodes that by the map reach the file system.
    counted: components on its node whose counts of its clients are shares, by kind and instance."""

    file_system: str
    layer: str
    node: str
    component: str
    instance: str
    target: str | None
    is_certain: bool
    spans: tuple[Span, ...]
    clients: Clients | None = field(repr=False)
    by_map: bool = False
    counted: tuple[tuple[str, str], ...] = ()


class Serving:
    """Finds them among what served a job's `nodes` (`way`). heard: the components of a node that samples of the time tell of."""

    def __init__(self, topology: Topology, way: Way, nodes: Sequence[str], heard: Callable[[str], Sequence[Heard]], from_ns: int, to_ns: int) -> None:
        self._topology, self._way, self._nodes, self._heard, self._from_ns, self._to_ns = topology, way, nodes, heard, from_ns, to_ns
        self._on: dict[str, Sequence[Heard]] = {}
        self._held: dict[str, Sequence[Held]] = {}
        self._targets = {(one.fact.component, one.fact.instance) for one in way.targets}

    def of(self, file_system: str, files: Sequence[str] | None, named: each.Counted | None) -> list[Served]:
        """Those of a file system, in the order of their layers. files: absolute paths of all that the job did something to in it; None where these are not
        known or too many. named: what of its targets bears the job's name. Raises TooManyToTell."""
        through = self._through(file_system)
        targets = self._serving(file_system)
        found = [one for name, spans in through.items() for one in self._forwarding(file_system, name, spans, targets)]
        found += self._behind(file_system, files, through, targets, named)
        _bound(len(found), file_system)
        return sorted(found, key=lambda one: (LAYERS.index(one.layer), one.target or "", one.node, one.component, one.instance))

    def through(self, file_system: str) -> dict[str, Clients]:
        """The forwarding nodes through which the job reaches a file system, and whom each served of all. Raises TooManyToTell."""
        return {name: _by_node((one.fact.node, (one.from_ns, one.to_ns)) for one in self._clients(name)) for name in self._through(file_system)}

    def direct(self, file_system: str) -> list[str]:
        """The job's nodes that by the map reach a file system, at some time of the job's, through no forwarding node."""
        through = _by_node((one.fact.node, (one.from_ns, one.to_ns)) for one in self._way.forwarding if one.fact.file_system == file_system)
        return [node for node in self._nodes if without([(self._from_ns, self._to_ns)], through.get(node, ()))]

    def targets(self, file_system: str) -> list[each.Target]:
        """Those of a file system, at each server that they really were at."""
        return [(server, target.component, target.instance) for target, server, _ in self._serving(file_system)]

    def caches(self, file_system: str) -> list[Served]:
        """Those of the job's own nodes; none where these are more than CACHE_NODES_MAX."""
        nodes, spans = self.direct(file_system), ((self._from_ns, self._to_ns),)
        return [
            Served(file_system, CLIENT, node, _LUSTRE_CLIENT, name, None, True, spans, {node: EVER})
            for name in sorted(self._mounts(file_system)) for node in nodes if len(nodes) <= CACHE_NODES_MAX
        ]  # fmt: skip

    def _mounts(self, file_system: str) -> set[str]:
        """How mounts of a file system of Lustre's are called: as its targets are."""
        targets = (one.fact for one in self._way.targets if one.fact.file_system == file_system and one.fact.component in _LUSTRE)
        return {target.instance.rpartition("-")[0] for target in targets} - {""}

    def _through(self, file_system: str) -> Mapping[str, tuple[Span, ...]]:
        found = _by_node((one.fact.forwarder, (one.from_ns, one.to_ns)) for one in self._way.forwarding if one.fact.file_system == file_system)
        _bound(len(found), file_system)
        return found

    def _clients(self, forwarder: str) -> Sequence[Held]:
        if forwarder not in self._held:
            self._held[forwarder] = self._topology.clients(forwarder, self._from_ns, self._to_ns)
        return self._held[forwarder]

    def _serving(self, file_system: str) -> list[tuple[Target, str, tuple[Span, ...]]]:
        """Each target with each server that it really was at, and when."""
        of: dict[tuple[Target, str], list[Span]] = defaultdict(list)
        at = defaultdict(list)
        for one in self._way.serving:
            if one.fact.file_system == file_system:
                at[one.fact.target].append(one)
        for one in self._way.targets:
            if one.fact.file_system == file_system:
                for there in at[one.fact.target]:
                    of[one.fact, there.fact.server].append((max(one.from_ns, there.from_ns), min(one.to_ns, there.to_ns)))
        return [(target, server, spans) for (target, server), found in of.items() if (spans := joined(found))]

    def _forwarding(self, file_system: str, name: str, spans: tuple[Span, ...], targets: Sequence[tuple[Target, str, tuple[Span, ...]]]) -> list[Served]:
        """What served files on a forwarding node: the file system's targets there, and what is nobody's target."""
        held = self._clients(name)
        clients = _by_node((one.fact.node, (one.from_ns, one.to_ns)) for one in held)
        # One that forwards for several file systems does not tell for which of them it did what.
        is_certain = all(one.fact.file_system == file_system for one in held)
        found = [
            self._one(FORWARDING, target, server, here, True, clients, False)
            for target, server, there in targets
            if server == name and _serves_files(target.component) and (here := common(there, spans))
        ]
        mounts = self._mounts(file_system)
        for one in self._components(name):
            if one.component == _LUSTRE_CLIENT and one.instance in mounts:
                found.append(Served(file_system, FORWARDING, name, one.component, one.instance, None, True, spans, clients))
            elif _serves_files(one.component) and (one.component, one.instance) not in self._targets:
                counted = self._counted(name, one.component, one.instance)
                found.append(Served(file_system, FORWARDING, name, one.component, one.instance, None, is_certain, spans, clients, counted=counted))
        return found

    def _behind(
        self, file_system: str, files: Sequence[str] | None, through: Mapping[str, tuple[Span, ...]], targets: Sequence[tuple[Target, str, tuple[Span, ...]]],
        named: each.Counted | None,
    ) -> list[Served]:  # fmt: skip
        """The other targets: those that name the job, or on which its files lie, as far as that is known."""
        held = self._topology.layouts.of(list(files), self._from_ns, self._to_ns) if files else []
        names = {str(target) for one in held for part in one.fact.parts for target in part.targets}
        is_told = bool(files) and {one.fact.file_id for one in held} >= {file_id(path) for path in files or ()}
        of_layer = defaultdict(set)
        for target, _, _ in targets:
            of_layer[_layer(target)].add(target.target)
        # Where one of its nodes reaches them by itself, others may that are not in the map either.
        by_map = not self.direct(file_system)
        found = []
        for target, server, spans in targets:
            layer = _layer(target)
            rest = without(spans, through.get(server, ())) if _serves_files(target.component) else spans
            count = named.at((server, target.component, target.instance)) if named is not None else None
            is_named = count is not None and bool(count.instances)
            # A layout says nothing of where a file's name lies.
            is_elsewhere = (layer == STORAGE and is_told) or (count is not None and count.instances == ())
            if not rest or (is_elsewhere and target.target not in names and not is_named):
                continue
            is_certain = target.target in names or is_named or len(of_layer[layer]) == 1
            found.append(self._one(layer, target, server, rest, is_certain, None, by_map))
        return found

    def _one(self, layer: str, target: Target, server: str, spans: tuple[Span, ...], is_certain: bool, clients: Clients | None, by_map: bool) -> Served:
        counted = self._counted(server, target.component, target.instance)
        return Served(target.file_system, layer, server, target.component, target.instance, target.target, is_certain, spans, clients, by_map, counted)

    def _counted(self, node: str, component: str, instance: str) -> tuple[tuple[str, str], ...]:
        kinds = {one.name for one in COMPONENTS.values() if one.clients is not None and component in one.clients.of and not one.clients.is_exact}
        if not kinds:
            return ()
        return tuple((one.component, one.instance) for one in self._components(node) if one.component in kinds and one.instance.rpartition(" ")[0] == instance)

    def _components(self, node: str) -> Sequence[Heard]:
        if node not in self._on:
            self._on[node] = self._heard(node)
        return self._on[node]


def _bound(count: int, file_system: str) -> None:
    if count > COMPONENTS_MAX:
        raise TooManyToTell(f"{count} components served the job's files in {file_system}, and {COMPONENTS_MAX} at most are looked at")


def _by_node(found) -> Clients:
    of = defaultdict(list)
    for node, span in found:
        of[node].append(span)
    return {node: joined(spans) for node, spans in of.items()}


def _layer(target: Target) -> str:
    return METADATA if target.kind in _METADATA_KINDS else STORAGE


def _serves_files(component: str) -> bool:
    known = COMPONENTS.get(component)
    return known is not None and known.figures is not None and known.figures.serves == "files"
