"""What analysts ask: views on the job database. Each is one `select`, compiled for the database that it is made in, and made anew by
`migrate` whenever its text has changed. `READABLE` is all that the analyst's account may read."""

import hashlib
import json
from dataclasses import dataclass

from sqlalchemy import BigInteger, Connection, Double, Select, case, cast, delete, distinct, func, insert, inspect, select

from .job_rows import has_profile
from .models import JobRow, LaunchRow, PlaceRow, ProfileRow, ProfileTextRow, QueueNodeRow, QueueRow, QueueStepRow
from .queue import FAILED, NODE_FAIL, OUT_OF_MEMORY, TIMEOUT
from .topology import selects

# The row of `places` that knows which views were made.
_MADE = "views"


@dataclass(frozen=True)
class Column:
    """One column: unit ("" for none) and what it says."""

    name: str
    unit: str
    doc: str


@dataclass(frozen=True)
class View:
    """A view, with the columns of its select in order."""

    name: str
    doc: str
    select: Select

    @property
    def columns(self) -> list[Column]:
        return [COLUMNS[name] for name in self.select.selected_columns.keys()]


COLUMNS = {
    name: Column(name, unit, doc)
    for name, unit, doc in (
        ("job", "", "key of the job, as in the address of its page and in `bellrock show`"),
        ("job_id", "", "id that the queue or the user gave it; of several users' jobs with one id each is another job"),
        ("user", "", "who ran it"),
        ("uid", "", "number of that user"),
        ("cluster", "", "cluster that it ran on, empty where none was told"),
        ("program", "", "base name of the first launch's executable; where none is known, the name that the batch system has of the job"),
        ("command", "", "command line of the first launch"),
        ("state", "", "running, completed or failed; of jobs that the batch system tells of also suspended, cancelled, timeout, node_fail, out_of_memory, preempted, requeued, unknown"),
        ("exit_code", "", "of the first launch that failed, else 0; NULL while it runs or where none was told"),
        ("start_utc", "UTC", "when it began, YYYY-MM-DD HH:MM:SS"),
        ("end_utc", "UTC", "when it ended; NULL while it runs"),
        ("start_ns", "ns", "when it began, since the epoch"),
        ("end_ns", "ns", "when it ended, since the epoch; NULL while it runs"),
        ("day", "UTC", "YYYY-MM-DD in which jobs began"),
        ("month", "UTC", "YYYY-MM in which jobs began"),
        ("runtime_s", "s", "from start to end, added up; NULL while it runs"),
        ("node_s", "s", "runtime times nodes, added up"),
        ("figures", "", "known; pending: not worked out yet; unseen: what it ran could not be watched. All that follows is NULL but where known"),
        ("granularity", "", "process, or node where only records of its nodes were there"),
        ("nodes", "", "nodes that it ran on; while figures are pending those that the batch system gave it, or those of its launches"),
        ("io_nodes", "", "nodes with a read or write"),
        ("processes", "", "processes, N"),
        ("io_processes", "", "processes with at least 1 % of the bytes of the busiest"),
        ("files", "", "distinct files with a read or write"),
        ("phases", "", "spans of sustained I/O, background left out"),
        ("read_bytes", "bytes", "that reads returned"),
        ("write_bytes", "bytes", "that writes took"),
        ("mapped_bytes", "bytes", "length of memory mappings"),
        ("read_ops", "operations", "reads"),
        ("write_ops", "operations", "writes"),
        ("metadata_ops", "operations", "open, close, stat, access, unlink, rename, mkdir, rmdir, readdir, link, truncate, sync"),
        ("folded_ops", "operations", "operations whose sizes and times are means"),
        ("errors", "operations", "calls that failed"),
        ("unseen_programs", "", "programs that it ran and whose calls could not be seen"),
        ("bandwidth_avg_read", "bytes/s", "bytes read in phases by the time of reading there"),
        ("bandwidth_avg_write", "bytes/s", "bytes written in phases by the time of writing there"),
        ("bandwidth_peak_read", "bytes/s", "bytes read in the busiest second"),
        ("bandwidth_peak_write", "bytes/s", "bytes written in the busiest second"),
        ("iops_avg", "1/s", "reads and writes in phases by their time there"),
        ("mdops_avg", "1/s", "metadata operations inside phases by the phases' time"),
        ("io_mode_read", "", "N-N, N-M, N-1, 1-1; NULL where it read nothing"),
        ("io_mode_write", "", "N-N, N-M, N-1, 1-1; NULL where it wrote nothing"),
        ("slowest_op_s", "s", "its longest operation"),
        ("node", "", "name of a node"),
        ("launches", "", "launches (`bellrock run`), a job may have several"),
        ("jobs", "", "how many jobs"),
        ("jobs_known", "", "how many of them have figures: bytes and operations are the sums over these, NULL where there is none"),
        ("jobs_failed", "", "how many of them failed, ran out of time or memory, or lost a node"),
        ("queue_id", "", "id as the batch system shows it"),
        ("submit_ns", "ns", "when it was submitted, since the epoch"),
        ("project", "", "project, or account, that it is charged to"),
        ("queue", "", "partition, or queue"),
        ("job_name", "", "what its user called it"),
        ("array", "", "id of the array that it is a task of, empty where it is none"),
        ("het", "", "id of the heterogeneous job that it is a component of, empty where it is none"),
        ("cores", "", "cores on all nodes; NULL where none were told"),
        ("tasks", "", "tasks; NULL where none were told"),
        ("suspended_s", "s", "for how long it was halted"),
        ("restarts", "", "how often it began again under the same submission"),
        ("users", "", "distinct users"),
        ("programs", "", "distinct programs"),
        *selects.COLUMNS,
    )
}

# A plain division would be one of integers in SQLite, and one of few decimals in MySQL.
_RUNTIME_S = cast(JobRow.end_ns - JobRow.start_ns, Double) / cast(10**9, Double)
_GIVEN = select(func.count()).where(QueueNodeRow.job == JobRow.id).correlate(JobRow).scalar_subquery()
_LAUNCHED = select(func.count(distinct(LaunchRow.node))).where(LaunchRow.job == JobRow.id).correlate(JobRow).scalar_subquery()
_NODES = func.coalesce(ProfileRow.nodes, func.nullif(_GIVEN, 0), _LAUNCHED)
# Ends for which the job, or what it ran on, is to blame.
FAILURES = (FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY)
_DAY, _MONTH = func.substr(JobRow.start_utc, 1, 10), func.substr(JobRow.start_utc, 1, 7)


def _total(expression):
    """The sum of counts. Through floating point, exact up to 2^53: whatever records claim, no sum may be too large for SQLite to give any answer."""
    return cast(func.sum(cast(expression, Double)), BigInteger)


def _job_summary() -> Select:
    named = [
        JobRow.key.label("job"), JobRow.job_id, JobRow.user, JobRow.uid, JobRow.cluster, JobRow.program, JobRow.command, JobRow.state, JobRow.exit_code,
        JobRow.start_utc, JobRow.end_utc, JobRow.start_ns, JobRow.end_ns, _RUNTIME_S.label("runtime_s"),
        case((ProfileRow.job.is_(None), "pending"), (ProfileRow.read_ops.is_(None), "unseen"), else_="known").label("figures"),
        ProfileRow.granularity, _NODES.label("nodes"),
    ]  # fmt: skip
    figures = (
        "io_nodes", "processes", "io_processes", "files", "phases", "read_bytes", "write_bytes", "mapped_bytes", "read_ops", "write_ops", "metadata_ops",
        "folded_ops", "errors", "unseen_programs", "bandwidth_avg_read", "bandwidth_avg_write", "bandwidth_peak_read", "bandwidth_peak_write",
        "iops_avg", "mdops_avg", "io_mode_read", "io_mode_write", "slowest_op_s",
    )  # fmt: skip
    return select(*named, *(getattr(ProfileRow, name) for name in figures)).outerjoin_from(JobRow, ProfileRow, has_profile())


def _job_nodes() -> Select:
    counted = func.count().label("launches")
    query = select(JobRow.key.label("job"), LaunchRow.node, JobRow.user, JobRow.program, JobRow.start_utc, JobRow.end_utc, counted)
    query = query.join_from(JobRow, LaunchRow, LaunchRow.job == JobRow.id)
    return query.group_by(JobRow.key, LaunchRow.node, JobRow.user, JobRow.program, JobRow.start_utc, JobRow.end_utc)


def _queue_job() -> Select:
    told = (getattr(QueueRow, name) for name in ("array", "het", "cores", "tasks", "suspended_s", "restarts"))
    query = select(JobRow.key.label("job"), QueueRow.queue_id, QueueRow.submit_ns, QueueRow.project, QueueRow.queue, QueueRow.name.label("job_name"), *told)
    return query.join_from(QueueRow, JobRow, JobRow.id == QueueRow.job)


def _queue_job_nodes() -> Select:
    query = select(JobRow.key.label("job"), QueueNodeRow.node, JobRow.user, JobRow.program, JobRow.start_utc, JobRow.end_utc)
    return query.join_from(QueueNodeRow, JobRow, JobRow.id == QueueNodeRow.job)


def _usage(*keys, more=(), of_queue=False) -> Select:
    """Sums over the jobs that share the keys. of_queue: over those that the batch system tells of."""
    sums = [_total(getattr(ProfileRow, name)).label(name) for name in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "errors")]
    query = select(
        *keys, func.count().label("jobs"), func.count(ProfileRow.read_ops).label("jobs_known"),
        _total(case((JobRow.state.in_(FAILURES), 1), else_=0)).label("jobs_failed"), *more,
        func.sum(_RUNTIME_S).label("runtime_s"), func.sum(_RUNTIME_S * _NODES).label("node_s"), *sums,
    )  # fmt: skip
    query = query.outerjoin_from(JobRow, ProfileRow, has_profile())
    if of_queue:
        query = query.join(QueueRow, QueueRow.job == JobRow.id)
    return query.group_by(*(key.element if hasattr(key, "element") else key for key in keys))


VIEWS = (
    View("job_summary", "One row a job.", _job_summary()),
    View("job_nodes", "One row a job and node from which launches of it were told.", _job_nodes()),
    View("queue_job", "One row a job that the batch system tells of.", _queue_job()),
    View("queue_job_nodes", "One row a job and node that the batch system gave it.", _queue_job_nodes()),
    View(
        "usage_by_project_month", "Sums over the jobs of a project that began in a month, of those that the batch system tells of.",
        _usage(_MONTH.label("month"), QueueRow.project, of_queue=True),
    ),
    View("usage_by_user_month", "Sums over the jobs of a user that began in a month.", _usage(_MONTH.label("month"), JobRow.user)),
    View("usage_by_program_month", "Sums over the jobs of a program that began in a month.", _usage(_MONTH.label("month"), JobRow.program)),
    View("usage_by_cluster_month", "Sums over the jobs of a cluster that began in a month.", _usage(_MONTH.label("month"), JobRow.cluster)),
    View(
        "usage_by_day", "Sums over the jobs that began on a day.",
        _usage(_DAY.label("day"), more=(func.count(distinct(JobRow.user)).label("users"), func.count(distinct(JobRow.program)).label("programs"))),
    ),
    View("usage_by_io_mode_month", "Sums over the jobs of a month whose writes have a mode in common.", _usage(_MONTH.label("month"), ProfileRow.io_mode_write)),
    View("job_forwarding", "One row a job, file system and forwarding node that served any of its nodes while it ran.", selects.job_forwarding()),
    View("node_forwarding", "Through which forwarding node a node reaches a file system, one row for each time.", selects.node_forwarding()),
    View("targets", "What file systems lie on, one row for each time.", selects.targets()),
    View("target_servers", "Which server really served a target, one row for each time.", selects.target_servers()),
    View("node_members", "In which cabinet, group, class and enclosure a node is, one row for each time.", selects.node_members()),
    View("switch_ports", "What the ports of switches lead to, one row for each time.", selects.switch_ports()),
    View("file_targets", "On which targets files lie, as far as told, one row for each target, part of the file and time.", selects.file_targets()),
    View("topology_log", "Who changed the topology, one row a change: it holds until the next one's time.", selects.topology_log()),
)  # fmt: skip
# Nothing of accounts or tokens: what is not named here is refused.
READABLE = tuple(model.__tablename__ for model in (JobRow, LaunchRow, ProfileRow, ProfileTextRow, QueueRow, QueueNodeRow, QueueStepRow, *selects.TABLES)) + tuple(view.name for view in VIEWS)


def refresh(connection: Connection) -> None:
    """Make the views as they are defined here, if they are not so already."""
    texts = {view.name: _text(connection, view) for view in VIEWS}
    made = {"digest": hashlib.sha256(json.dumps(texts).encode()).hexdigest(), "names": list(texts)}
    if _made(connection) == made:
        return
    drop(connection)
    for name, text in texts.items():
        # MySQL: with the rights of whoever asks, so that the account that made it may go.
        how = "CREATE VIEW" if connection.dialect.name == "sqlite" else "CREATE SQL SECURITY INVOKER VIEW"
        connection.exec_driver_sql(f"{how} {name} AS {text}")
    connection.execute(insert(PlaceRow).values(name=_MADE, json=json.dumps(made)))


def drop(connection: Connection) -> None:
    """Remove our views, those of other versions too."""
    ours = {view.name for view in VIEWS}
    if PlaceRow.__tablename__ in inspect(connection).get_table_names():
        ours |= set((_made(connection) or {"names": []})["names"])
    for name in ours & set(inspect(connection).get_view_names()):
        connection.exec_driver_sql(f"DROP VIEW {name}")
    if PlaceRow.__tablename__ in inspect(connection).get_table_names():
        connection.execute(delete(PlaceRow).where(PlaceRow.name == _MADE))


def _made(connection: Connection) -> dict | None:
    text = connection.scalar(select(PlaceRow.json).where(PlaceRow.name == _MADE))
    return None if text is None else json.loads(text)


def _text(connection: Connection, view: View) -> str:
    return str(view.select.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))
