"""The description of a virtual machine, from a TOML file such as machines/taihulight.toml, which says what each key means."""

import tomllib
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from bellrock.errors import UsageError

MODES = ("N-N", "N-M", "N-1", "1-1")
OPS = ("read", "write", "files")
# Speeds of InfiniBand: what a link of four lanes is called, Gbit/s, and what data it carries each way, bytes/s.
LINKS = {"QDR": (40, 4.0e9), "FDR": (56, 6.818e9), "EDR": (100, 12.5e9), "HDR": (200, 25.0e9), "NDR": (400, 50.0e9)}
# No file of more is read.
FILE_BYTES_MAX = 1 << 20
NODES_MAX = 100_000
# What nodes are that are no others.
KINDS = ("compute", "forwarding", "storage", "metadata")
# Of a switch.
PORTS_MAX = 128


@dataclass(frozen=True)
class Compute:
    nodes: int
    processes: int
    each_switch: int


@dataclass(frozen=True)
class Forwarding:
    spare: int
    each: int
    bytes_s: float
    threads: int
    request_us: float
    shared_file_nodes: int
    shared_file_bytes_s: float
    shared_file_threads: float


@dataclass(frozen=True)
class Storage:
    servers: int
    targets: int
    bytes_s: float
    request_us: float
    stripe_bytes: int


@dataclass(frozen=True)
class Metadata:
    servers: int
    operations_s: float


@dataclass(frozen=True)
class Fabric:
    """InfiniBand between forwarding nodes, servers and others. ports: of each switch. packet_bytes: of data in one packet at most. message_bytes: a request, or
    an answer, without data. tick_ns: what ports count waiting in."""

    speed: str
    ports: int
    packet_bytes: int
    message_bytes: int
    tick_ns: float


@dataclass(frozen=True)
class Others:
    """Nodes of a class that use the file system besides compute nodes, with `operations_s` metadata operations a second together."""

    class_: str
    nodes: int
    operations_s: float


@dataclass(frozen=True)
class Step:
    """What the processes of an application do at once. bytes: of each process that does I/O, or of each file where op is "files".

    writers: of mode N-M, the share of the nodes of which one process does the I/O of others. stripes: on so many targets a file lies.
    files: how many each process makes, of op "files"."""

    op: str
    bytes: int
    mode: str = "N-N"
    request: int = 0
    writers: float = 0.0
    stripes: int = 1
    files: int = 0


@dataclass(frozen=True)
class Application:
    name: str
    weight: float
    nodes: tuple[int, ...]
    run: int
    cycles: tuple[int, int]
    compute_s: tuple[float, float]
    begin: tuple[Step, ...]
    cycle: tuple[Step, ...]


@dataclass(frozen=True)
class Machine:
    """A machine, at its full size or scaled."""

    name: str
    mount: str
    file_system: str
    compute: Compute
    forwarding: Forwarding
    storage: Storage
    metadata: Metadata
    fabric: Fabric
    others: tuple[Others, ...] = ()
    application: tuple[Application, ...] = field(default=())

    @property
    def forwarders(self) -> int:
        """Forwarding nodes in use."""
        return -(-self.compute.nodes // self.forwarding.each)

    @property
    def linked(self) -> int:
        """Nodes that the fabric leads to."""
        return self.forwarders + self.forwarding.spare + self.storage.servers + self.metadata.servers + sum(other.nodes for other in self.others)

    @property
    def targets(self) -> int:
        """Object storage targets."""
        return self.storage.servers * self.storage.targets

    def scaled(self, scale: float) -> "Machine":
        """The machine at a part of its size, rounded down, no kind of node less than one. Rates of a node and sizes of jobs stay; what others ask of the
        metadata server, and what it can do, shrink with it. Raises UsageError where it is too small for any application."""

        def part(count: int) -> int:
            return max(int(count * scale + 1e-9), 1)

        nodes = part(self.compute.nodes)
        applications = tuple(
            replace(application, nodes=sizes) for application in self.application if (sizes := tuple(size for size in application.nodes if size <= nodes))
        )
        if not applications:
            raise UsageError(f"at scale {scale:g} {self.name} has {nodes} compute nodes, too few for each of its applications", "take a larger --scale")
        return replace(
            self,
            compute=replace(self.compute, nodes=nodes),
            forwarding=replace(self.forwarding, spare=part(self.forwarding.spare) if self.forwarding.spare else 0),
            storage=replace(self.storage, servers=part(self.storage.servers)),
            metadata=replace(self.metadata, operations_s=self.metadata.operations_s * scale),
            others=tuple(replace(other, nodes=part(other.nodes), operations_s=other.operations_s * scale) for other in self.others),
            application=applications,
        )


def names() -> list[str]:
    """The machines that come along."""
    return sorted(path.name.removesuffix(".toml") for path in resources.files(__package__).joinpath("machines").iterdir() if path.name.endswith(".toml"))


def read_machine(name: str) -> Machine:
    """The machine of that name, or of the file at that path. Raises UsageError where there is none, or says what is wrong in it."""
    try:
        if name in names():
            text = resources.files(__package__).joinpath("machines", f"{name}.toml").read_text("utf-8")
        else:
            with open(Path(name), "rb") as file:
                text = file.read(FILE_BYTES_MAX + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--machine {name}: {error}", f"name a file, or one of {', '.join(names())}") from error
    hint = "machines/taihulight.toml beside bellrock/simulate says what each key means"
    if len(text) > FILE_BYTES_MAX:
        raise UsageError(f"--machine {name}: more than {FILE_BYTES_MAX} bytes", hint)
    try:
        machine = _build(Machine, tomllib.loads(text), name)
        _check(machine)
    except (tomllib.TOMLDecodeError, _Wrong) as error:
        raise UsageError(f"--machine {name}: {error}", hint) from error
    return machine


class _Wrong(Exception):
    """A mistake in a description."""


def _build(kind: type, table: Any, where: str) -> Any:
    """A dataclass from a table, keys and types checked."""
    if not isinstance(table, dict):
        raise _Wrong(f"{where} must be a table")
    hints, known = get_type_hints(kind), {field.name.rstrip("_"): field for field in fields(kind)}
    unknown = [key for key in table if key not in known]
    missing = [key for key, field in known.items() if key not in table and field.default is MISSING]
    if unknown or missing:
        raise _Wrong(f"{where}: " + (f"there is no key {unknown[0]}" if unknown else f"{missing[0]} is missing"))
    return kind(**{known[key].name: _value(hints[known[key].name], value, f"{where}: {key}") for key, value in table.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if not isinstance(value, list) or (inner[-1] is not Ellipsis and len(value) != len(inner)):
            raise _Wrong(f"{where} must be a list" + ("" if inner[-1] is Ellipsis else f" of {len(inner)}"))
        return tuple(_value(inner[0], part, f"{where} {place + 1}") for place, part in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(hint, type) and not isinstance(hint, UnionType) and hint in (int, float, str):
        if type(value) is not hint:
            raise _Wrong(f"{where} must be {'a number' if hint is float else 'a whole number' if hint is int else 'a text'}")
        return value
    return _build(hint, value, where)


def _check(machine: Machine) -> None:
    """Raises _Wrong for what no machine can be."""

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise _Wrong(what)

    for part in (machine.compute, machine.forwarding, machine.storage, machine.metadata, machine.fabric, *machine.others):
        for entry in fields(part):
            value = getattr(part, entry.name)
            least = 0 if entry.name in ("spare", "request_us") else 1e-9
            need(isinstance(value, str) or least <= value < 1e15, f"{type(part).__name__.lower()}: {entry.name} must be more than 0")
    need(machine.compute.nodes <= NODES_MAX, f"compute: at most {NODES_MAX} nodes")
    need(machine.targets <= 10_000, "storage: at most 10000 targets")
    need(machine.forwarding.shared_file_threads <= 1, "forwarding: shared_file_threads is a share of 1")
    classes = set(KINDS)
    for other in machine.others:
        need(other.class_ not in classes, f"others: class {other.class_!r} must be named once, and be none of {', '.join(KINDS)}")
        classes.add(other.class_)
    fabric = machine.fabric
    need(fabric.speed in LINKS, f"fabric: speed is one of {', '.join(LINKS)}")
    need(fabric.ports % 2 == 0 and fabric.ports <= PORTS_MAX, f"fabric: ports must be even and at most {PORTS_MAX}")
    room = fabric.ports // 2 * fabric.ports
    need(machine.linked <= room, f"fabric: two levels of such switches have room for {room} nodes, and there are {machine.linked}")
    need(fabric.message_bytes <= fabric.packet_bytes, "fabric: message_bytes must be no more than packet_bytes")
    need(machine.mount.startswith("/"), "mount must begin with /")
    need(bool(machine.application), "at least one [[application]]")
    for application in machine.application:
        at = f"application {application.name}"
        need(application.weight > 0 and application.run > 0 and bool(application.nodes) and min(application.nodes) > 0, f"{at}: weight, run and nodes must be more than 0")
        for name, (least, most) in (("cycles", application.cycles), ("compute_s", application.compute_s)):
            need(0 <= least <= most, f"{at}: {name} must be [least, most]")
        for step in (*application.begin, *application.cycle):
            need(step.op in OPS and step.mode in MODES, f"{at}: op is one of {', '.join(OPS)}, mode one of {', '.join(MODES)}")
            need(step.bytes > 0 and step.stripes > 0, f"{at}: bytes and stripes must be more than 0")
            need(step.op != "files" or step.files > 0, f"{at}: op files needs files, more than 0")
            need(step.op == "files" or 0 < step.request <= step.bytes, f"{at}: request must be more than 0 and no more than bytes")
            need(step.mode != "N-M" or 0 < step.writers <= 0.5, f"{at}: mode N-M needs writers, more than 0 and at most 0.5")
        modes = {(step.op, step.mode) for step in (*application.begin, *application.cycle) if step.op != "files"}
        need(len(modes) == len({op for op, _ in modes}), f"{at}: all that it reads must be of one mode, and all that it writes")
