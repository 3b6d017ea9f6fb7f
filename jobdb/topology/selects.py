"""What the views on the topology select (`jobdb.views`), and what their columns say."""

from sqlalchemy import Select, case, func, null, select, union
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from jobdb.models import JobRow, LaunchRow, QueueNodeRow
from jobdb.types import Exact

from . import FOREVER_NS
from .models import ChangeRow, ForwardingRow, LayoutRow, MemberRow, PortRow, ServingRow, StripeRow, TargetRow, Valid

# Tables that the views read.
TABLES = (ChangeRow, ForwardingRow, TargetRow, ServingRow, PortRow, MemberRow, LayoutRow, StripeRow)

COLUMNS = (
    ("file_system", "", "name of a file system"),
    ("forwarding_node", "", "node through which others reach the file system"),
    ("target", "", "what the file system lies on, such as OST0003"),
    ("kind", "", "of a target ost, mdt, brick …; of what a node is in cabinet, group, class or enclosure"),
    ("number", "", "the target's index in the file system; NULL where it has none"),
    ("component", "", "kind of component in samples that tell of the target"),
    ("instance", "", "which one of its kind, in these samples"),
    ("server", "", "node that really served the target then"),
    ("served_as", "", "rule, or failover where another server does as a rule"),
    ("name", "", "of the cabinet, group, class or enclosure"),
    ("switch", "", "name of a switch"),
    ("port", "", "of the switch; empty where it was not told"),
    ("peer", "", "what the port leads to"),
    ("peer_kind", "", "node or switch"),
    ("path", "", "of a file; NULL where only its id was told"),
    ("file_id", "", "hash of the path, as in records"),
    ("first_byte", "bytes", "where in the file this part of its layout begins"),
    ("end_byte", "bytes", "where it ends; NULL: at the file's end"),
    ("stripe_bytes", "bytes", "length of the pieces that go to its targets in turn"),
    ("place", "", "of the target among them, from 0"),
    ("nodes_served", "", "how many of the job's nodes it served while the job ran, at any time"),
    ("from_utc", "UTC", "since when this held, YYYY-MM-DD HH:MM:SS"),
    ("to_utc", "UTC", "until when; NULL while it does"),
    ("from_ns", "ns", "since when this held, since the epoch"),
    ("to_ns", "ns", "until when, since the epoch; NULL while it does"),
    ("applied_utc", "UTC", "when it was applied"),
    ("applied_by", "", "who applied it"),
    ("source", "", "the folder that it came from"),
    ("note", "", "what was noted with it"),
    ("digest", "", "SHA-256 of the files"),
    ("added", "", "facts that began to hold"),
    ("removed", "", "facts that held no longer"),
)


class utc_text(FunctionElement):
    """ns since the epoch as "YYYY-MM-DD HH:MM:SS", UTC."""

    type = Exact(19)
    name = "utc_text"
    inherit_cache = True


@compiles(utc_text, "sqlite")
def _sqlite(element, compiler, **options) -> str:
    return f"datetime({compiler.process(element.clauses, **options)} / 1000000000, 'unixepoch')"


@compiles(utc_text, "mysql")
@compiles(utc_text, "mariadb")
def _mysql(element, compiler, **options) -> str:
    # Not FROM_UNIXTIME, which tells the session's own time.
    return f"CAST(TIMESTAMPADD(SECOND, {compiler.process(element.clauses, **options)} DIV 1000000000, TIMESTAMP'1970-01-01 00:00:00') AS CHAR(19))"


def _lasting(model: type[Valid]) -> list:
    lasts = model.to_ns == FOREVER_NS
    to_ns, to_utc = case((lasts, null()), else_=model.to_ns), case((lasts, null()), else_=utc_text(model.to_ns))
    return [utc_text(model.from_ns).label("from_utc"), to_utc.label("to_utc"), model.from_ns, to_ns.label("to_ns")]


def node_forwarding() -> Select:
    return select(ForwardingRow.node, ForwardingRow.file_system, ForwardingRow.forwarder.label("forwarding_node"), *_lasting(ForwardingRow))


def targets() -> Select:
    names = ("file_system", "target", "kind", "number", "component", "instance")
    return select(*(getattr(TargetRow, name) for name in names), *_lasting(TargetRow))


def target_servers() -> Select:
    served_as = case((ServingRow.is_failover, "failover"), else_="rule").label("served_as")
    return select(ServingRow.file_system, ServingRow.target, ServingRow.server, served_as, *_lasting(ServingRow))


def node_members() -> Select:
    return select(MemberRow.node, MemberRow.kind, MemberRow.name, *_lasting(MemberRow))


def switch_ports() -> Select:
    return select(PortRow.switch, PortRow.port, PortRow.peer, case((PortRow.is_switch, "switch"), else_="node").label("peer_kind"), *_lasting(PortRow))


def file_targets() -> Select:
    end_byte = case((StripeRow.end_byte == FOREVER_NS, null()), else_=StripeRow.end_byte).label("end_byte")
    named = (
        LayoutRow.file_system,
        LayoutRow.path,
        LayoutRow.file_id,
        StripeRow.first_byte,
        end_byte,
        StripeRow.stripe_bytes,
        StripeRow.place,
        StripeRow.target,
    )
    query = select(*named, *_lasting(LayoutRow))
    return query.join(StripeRow, StripeRow.layout == LayoutRow.id)


def topology_log() -> Select:
    names = ("source", "note", "digest", "added", "removed")
    return select(
        utc_text(ChangeRow.at_ns).label("from_utc"), ChangeRow.at_ns.label("from_ns"), utc_text(ChangeRow.applied_ns).label("applied_utc"), ChangeRow.applied_by,
        *(getattr(ChangeRow, name) for name in names),
    )  # fmt: skip


def job_forwarding() -> Select:
    on = union(select(LaunchRow.job, LaunchRow.node), select(QueueNodeRow.job, QueueNodeRow.node)).subquery("ran_on")
    ran = (ForwardingRow.node == on.c.node) & (ForwardingRow.to_ns > JobRow.start_ns) & (ForwardingRow.from_ns <= func.coalesce(JobRow.end_ns, FOREVER_NS))
    served = func.count(on.c.node.distinct()).label("nodes_served")
    keys = (JobRow.key, JobRow.user, JobRow.program, JobRow.start_utc, JobRow.end_utc, ForwardingRow.file_system, ForwardingRow.forwarder)
    named = (JobRow.key.label("job"), *keys[1:-1], ForwardingRow.forwarder.label("forwarding_node"), served)
    return select(*named).join_from(JobRow, on, on.c.job == JobRow.id).join(ForwardingRow, ran).group_by(*keys)
