"""The kinds of component, and what values their samples bear: defined once, in components.toml beside this file.

A sample may bear values that the file does not know, or be of a component that it does not know (other versions of agents): they are kept and shown
as they came, as gauges are.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

VALUE_KINDS = ("counter", "gauge", "histogram")
# Of a value that is not in the file.
UNKNOWN = "unknown"
# Keys of the file's tables: those that must be there, and that may be.
_COMPONENT_KEYS, _COMPONENT_MAY = ("name", "instance", "value"), ("figures", "queue", "clients", "jobs")
_VALUE_KEYS, _VALUE_MAY = ("name", "kind", "what"), ("unit",)
# What serves files, and what files lie on beneath that: the same bytes once more, so that both are never added up. Caches through which files are reached, of which
# only the cache's figures count; and services that take requests for others of their node, of which only the queue does.
SERVES = ("files", "devices", "caches", "requests")
# Figures of a layer, and of which kinds the values are that bear them. Those whose name ends with _time are sums of times, of which the unit tells.
FIGURES = {
    "read_bytes": ("counter",), "write_bytes": ("counter",), "read_ops": ("counter", "histogram"), "write_ops": ("counter", "histogram"),
    "metadata_ops": ("counter", "histogram"), "read_time": ("counter", "histogram"), "write_time": ("counter", "histogram"),
    "metadata_time": ("counter", "histogram"), "queue": ("gauge", "counter"), "cache_hits": ("counter",), "cache_misses": ("counter",),
    "cache_discards": ("counter",),
}  # fmt: skip
# Of one client, or one job: counters alone.
_OF_EACH = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "read_time", "write_time", "metadata_time")
_OF_SHARES = ("read_bytes", "write_bytes")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_BUCKET = re.compile(r"(.+)_to_([0-9]+(?:\.[0-9]+)?|inf)")


@dataclass(frozen=True)
class Value:
    """One value of a component. kind: one of VALUE_KINDS, or UNKNOWN; unit: of a histogram that of its bounds, None where there is none."""

    name: str
    kind: str
    what: str
    unit: str | None = None


@dataclass(frozen=True)
class Figures:
    """What a kind of component tells of the layer that it is part of. serves: one of SERVES; values: by figure (of FIGURES) the values that it is the sum of; queue is one value."""

    serves: str
    values: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Queue:
    """Requests to a component wait in the queue of the component `of` on its node that is called `instance`."""

    of: str
    instance: str


@dataclass(frozen=True)
class Each:
    """That each instance counts what one client, or one job, had of a component of the kinds `of` on the same node: its instance is that one's, a blank, and the client's
    address, or the job's name. values: as of `Figures`, counters alone. is_exact: it counts the same as they do; else only shares among all clients count, and only bytes."""

    of: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    is_exact: bool


@dataclass(frozen=True)
class Component:
    """One kind of component. instance: what names one of its kind on a node. The rest: None where it tells no such."""

    name: str
    instance: str
    values: tuple[Value, ...]
    figures: Figures | None = None
    queue: Queue | None = None
    clients: Each | None = None
    jobs: Each | None = None

    def unit_s(self, value: str) -> float:
        """How many seconds the unit of a value is. Raises KeyError for one that is no time."""
        return SECONDS[next(one.unit for one in self.values if one.name == value) or ""]

    def names(self, figures: Mapping[str, tuple[str, ...]]) -> list[str] | None:
        """By which names samples bear the values of some figures; None where some are histograms, whose bounds only samples tell."""
        names = {name for names in figures.values() for name in names}
        return None if any(one.kind == "histogram" for one in self.values if one.name in names) else sorted(names)


@dataclass(frozen=True)
class Told:
    """A value, and by which names samples bear it: one name, or of a histogram one for each bucket, with the buckets' upper bounds, which rise."""

    value: Value
    names: tuple[str, ...]
    bounds: tuple[float, ...] = ()


def read(text: str) -> dict[str, Component]:
    """The components of a file by name. Raises ValueError, which says what is wrong with which of them."""
    tables = tomllib.loads(text)
    found: dict[str, Component] = {}
    for table in _tables(tables, "component", "components.toml", ("component",), ()):
        component = _component(table)
        if component.name in found:
            raise ValueError(f"component {component.name}: it is there twice")
        found[component.name] = component
    for component in found.values():
        for what, each in (("clients", component.clients), ("jobs", component.jobs)):
            for of in each.of if each else ():
                if of not in found or found[of].figures is None:
                    raise ValueError(f"component {component.name}: {what}: of is {of!r}, which is no component with figures")
        of = component.queue.of if component.queue else component.name
        figures = found[of].figures if of in found else None
        if component.queue is not None and (figures is None or "queue" not in figures.values):
            raise ValueError(f"component {component.name}: queue: of is {of!r}, which is no component that tells a queue")
    return found


def _component(table: dict[str, Any]) -> Component:
    where = f"component {table.get('name')!r}"
    values = [_value(one, where) for one in _tables(table, "value", where, _COMPONENT_KEYS, _COMPONENT_MAY)]
    name = _name(table["name"], where)
    histograms = {value.name for value in values if value.kind == "histogram"}
    for place, value in enumerate(values):
        bucket = _BUCKET.fullmatch(value.name)
        if bucket is not None and bucket[1] in histograms:
            raise ValueError(f"component {name}: value {value.name} is called like a bucket of histogram {bucket[1]}")
        if any(other.name == value.name for other in values[:place]):
            raise ValueError(f"component {name}: value {value.name} is there twice")
    instance = _text(table["instance"], f"component {name}: instance")
    figures = queue = None
    if "figures" in table:
        given = _table(table["figures"], f"component {name}: figures", ("serves",), FIGURES)
        if given["serves"] not in SERVES:
            raise ValueError(f"component {name}: figures: serves is {given['serves']!r}; known: {', '.join(SERVES)}")
        figures = Figures(given["serves"], _bearers(given, values, f"component {name}: figures", FIGURES))
    if "queue" in table:
        given = _table(table["queue"], f"component {name}: queue", ("of", "instance"), ())
        queue = Queue(_name(given["of"], f"component {name}: queue: of"), _text(given["instance"], f"component {name}: queue: instance"))
    clients = _each(table["clients"], values, f"component {name}: clients", ("of", "is_exact")) if "clients" in table else None
    jobs = _each(table["jobs"], values, f"component {name}: jobs", ("of",)) if "jobs" in table else None
    return Component(name, instance, tuple(values), figures, queue, clients, jobs)


def _each(table: object, values: list[Value], where: str, needed: tuple[str, ...]) -> Each:
    given = _table(table, where, needed, _OF_EACH)
    is_exact = given.get("is_exact", True)
    if type(given["of"]) is not list or not given["of"] or type(is_exact) is not bool:
        raise ValueError(f"{where}: of must be a list of components, is_exact true or false")
    figures = _OF_EACH if is_exact else _OF_SHARES
    for figure in given.keys() - {"of", "is_exact", *figures}:
        raise ValueError(f"{where}: {figure} is no share: {', '.join(figures)} are")
    bearers = _bearers(given, values, where, figures)
    if any(value.kind != "counter" for value in values if value.name in {name for names in bearers.values() for name in names}):
        raise ValueError(f"{where}: only counters are added up")
    return Each(tuple(_name(of, f"{where}: of") for of in given["of"]), bearers, is_exact)


def _table(given: object, where: str, needed: tuple[str, ...], may: Iterable[str]) -> dict[str, Any]:
    if type(given) is not dict:
        raise ValueError(f"{where} must be a table")
    _check_keys(given, where, needed, tuple(may))
    return given


def _bearers(given: dict[str, Any], values: list[Value], where: str, figures: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """By figure, the names of the values that bear it."""
    known, found = {value.name: value for value in values}, {}
    for figure in figures:
        names = given.get(figure, [])
        if type(names) is not list or not all(type(name) is str for name in names) or len(set(names)) != len(names):
            raise ValueError(f"{where}: {figure} must be a list of names of values, each once")
        if figure == "queue" and len(names) > 1:
            raise ValueError(f"{where}: queue is one value, not {len(names)}")
        for name in names:
            if name not in known:
                raise ValueError(f"{where}: {figure}: there is no value {name!r}")
            value = known[name]
            is_time = figure.endswith("_time") or (figure == "queue" and value.kind == "counter")
            if value.kind not in FIGURES[figure] or (is_time and value.unit not in SECONDS):
                unit = f" in one of {', '.join(SECONDS)}" if is_time else ""
                raise ValueError(f"{where}: {figure}: {name} is a {value.kind} in {value.unit or 'no unit'}, not a {' or '.join(FIGURES[figure])}{unit}")
        if names:
            found[figure] = tuple(names)
    return found


def _value(table: dict[str, Any], component: str) -> Value:
    where = f"{component}, value {table.get('name')!r}"
    _check_keys(table, where, _VALUE_KEYS, _VALUE_MAY)
    if table["kind"] not in VALUE_KINDS:
        raise ValueError(f"{where}: kind is {table['kind']!r}; known: {', '.join(VALUE_KINDS)}")
    unit = table.get("unit", "")
    if type(unit) is not str:
        raise ValueError(f"{where}: unit must be a text, empty where there is none")
    return Value(_name(table["name"], where), table["kind"], _text(table["what"], f"{where}: what"), unit or None)


def _tables(table: dict[str, Any], name: str, where: str, needed: tuple[str, ...], may: tuple[str, ...]) -> list[dict[str, Any]]:
    _check_keys(table, where, needed, may)
    if type(table[name]) is not list or not all(type(one) is dict for one in table[name]):
        raise ValueError(f"{where}: {name} must be tables: write [[{'component.' * (name == 'value')}{name}]]")
    return table[name]


def _check_keys(table: dict[str, Any], where: str, needed: tuple[str, ...], may: tuple[str, ...]) -> None:
    for key in needed:
        if key not in table:
            raise ValueError(f"{where}: {key} is missing")
    for key in table:
        if key not in (*needed, *may):
            raise ValueError(f"{where}: unknown key {key!r}; known: {', '.join((*needed, *may))}")


def _name(given: object, where: str) -> str:
    if type(given) is not str or _NAME.fullmatch(given) is None:
        raise ValueError(f"{where}: a name is 1 to 100 of a to z, 0 to 9 and _, the first a letter")
    return given


def _text(given: object, where: str) -> str:
    if type(given) is not str or not given.strip():
        raise ValueError(f"{where} must be a text that is not empty")
    return given


COMPONENTS = read(resources.files(__package__).joinpath("components.toml").read_text("utf-8"))


# Kinds of which a server has one for each of its jobs, or clients: tens of thousands.
CROWDED = tuple(kind.name for kind in COMPONENTS.values() if kind.jobs is not None or (kind.clients is not None and kind.clients.is_exact))


def told(component: str, names: Iterable[str]) -> list[Told]:
    """What the values called `names` of samples of a component are: those that the file knows in its order, then the others by name."""
    known = COMPONENTS[component].values if component in COMPONENTS else ()
    histograms = {value.name for value in known if value.kind == "histogram"}
    buckets: dict[str, list[tuple[float, str]]] = {}
    single = set()
    for name in names:
        bucket = _BUCKET.fullmatch(name)
        if bucket is not None and bucket[1] in histograms:
            buckets.setdefault(bucket[1], []).append((math.inf if bucket[2] == "inf" else float(bucket[2]), name))
        else:
            single.add(name)
    found = []
    for value in known:
        if value.name in buckets:
            bounds, of_bounds = zip(*sorted(buckets[value.name]), strict=True)
            found.append(Told(value, of_bounds, bounds))
        elif value.name in single and value.kind != "histogram":
            found.append(Told(value, (value.name,)))
            single.discard(value.name)
    return found + [Told(Value(name, UNKNOWN, ""), (name,)) for name in sorted(single)]


def markdown() -> list[str]:
    """Lines of docs/records.md."""
    lines = [
        "",
        "## Components",
        "",
        "What samples bear in `values`, by `component`. `counter`: moved in the interval; `gauge`: stood so at its end; `histogram`: a counter for each bucket, called `NAME_to_BOUND`",
        "(the last bound is `inf`), of what is above the bound before and up to this one; the unit is that of the bounds. Other values, and other components, are kept and shown as they came.",
    ]
    for component in COMPONENTS.values():
        lines += [
            "",
            f"### {component.name}",
            "",
            f"`instance`: {component.instance}",
            *_layer_lines(component),
            "",
            "| value | kind | unit | what |",
            "| --- | --- | --- | --- |",
        ]
        lines += [f"| `{value.name}` | {value.kind} | {value.unit or ''} | {value.what} |" for value in component.values]
    return lines


def _layer_lines(component: Component) -> list[str]:
    parts: list[tuple[str, Mapping[str, tuple[str, ...]]]] = []
    if component.figures is not None:
        parts.append((f"Serves {component.figures.serves}", component.figures.values))
    for what, each in (("client", component.clients), ("job", component.jobs)):
        if each is not None:
            parts.append((f"Counts each {what} of a {' or '.join(f'`{of}`' for of in each.of)}{'' if each.is_exact else ', to share its bytes out'}", each.values))
    lines: list[str] = []
    for what, values in parts:
        borne = "; ".join(f"{figure}: {_shortened(names)}" for figure, names in values.items())
        lines += ["", f"{what} ([layers](layers.md)): {borne}."]
    if component.queue is not None:
        lines += ["", f"Requests to it wait in that of `{component.queue.of}` {component.queue.instance}."]
    return lines


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
