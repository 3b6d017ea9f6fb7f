"""`bellrock retention`."""

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bellrock import console, output, text
from bellrock.commands.options import CONFIG
from bellrock.errors import EXIT_CODES, BellrockError

if TYPE_CHECKING:
    from bellrock.config import Config
    from pipeline.retention import Keeper

Ask = Callable[[], dict[str, Any]]
# A server may have many indices to drop.
TIMEOUT_S = 3600.0


@click.command(
    short_help="Drop what was kept long enough.",
    help=f"""Show what is older than [retention] in server.toml says, by class of data, and with --apply drop it.

Without --apply nothing is changed. In Elasticsearch whole indices go, once all of their period is older than the limit, and never one that is
being written; in DuckDB the rows of whole days. What went is kept in the books: an audit stays clean, and tells what was dropped when.
Runs are packed into the archive before they go, where [archive] does not say otherwise.
A running server does it; without one this command does, by the settings of --config and with the account of [elasticsearch].

\b
Examples:
  bellrock retention
  bellrock retention --plan
  bellrock retention --plan --groups 84 --data-nodes 90 --config server.toml
  bellrock retention --apply
  bellrock retention --json | jq '[.expired[].bytes] | add'

{EXIT_CODES}""",
)
@click.option("--apply", "is_applied", is_flag=True, help="Drop it.")
@click.option("--plan", "shows_shards", is_flag=True, help="Show how many shards the groups make within the retention, and how many the cluster takes.")
@click.option("--groups", type=click.IntRange(1), metavar="N", help="With --plan: of so many groups, by [retention] and elasticsearch.period alone, before there is a cluster; exit 1 where it is too many.")
@click.option("--data-nodes", type=click.IntRange(1), metavar="N", help="With --groups: so many nodes of Elasticsearch; those beyond one a group are second nodes, which keep copies. Default: one a group.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@CONFIG
def retention(is_applied: bool, shows_shards: bool, groups: int | None, data_nodes: int | None, as_json: bool, config_file: Path | None) -> None:
    from bellrock import config, paths

    if is_applied and shows_shards:
        raise click.UsageError("--plan shows and --apply drops: give one of them")
    if (groups and not shows_shards) or (data_nodes and not groups):
        raise click.UsageError("--groups is for --plan, and --data-nodes for --groups")
    state = paths.state_dir()
    if groups:
        _reckon(config.load(config_file, state), groups, data_nodes or groups, as_json)
        return
    with _asked(state, lambda: config.load(config_file, state)) as (plan, apply):
        told = apply() if is_applied else plan()
    if as_json:
        output.show_json(told)
    elif is_applied:
        console.say(f"dropped {_sum(told['dropped'])}" if told["dropped"] else "nothing was old enough")
        if told["left"]:
            console.warn(f"{text.of(len(told['left']), 'index')} left for the next time: somebody writes there ({', '.join(part['name'] for part in told['left'][:5])})")
        _table(told["dropped"])
    elif shows_shards:
        output.show(_shards(told["shards"]))
    else:
        kept = ", ".join(f"{name.replace('_', ' ')} {f'{days} days' if days else 'for ever'}" for name, days in told["days"].items())
        console.say(f"kept: {kept}{'; the server drops by itself, once a day' if told['automatic'] else ''}")
        if told["held_ns"] is not None:
            console.warn(f"samples since {_day(told['held_ns'])} are not all in summaries, and stay until they are; a running server sees to that, and tells in its log what keeps it")
        console.say(f"would go: {_sum(told['expired'])}; `bellrock retention --apply` drops it" if told["expired"] else "nothing is old enough to go")
        _table(told["expired"])
    if not is_applied and not shows_shards and not as_json and told["unarchived_ns"] is not None:
        console.warn(f"runs since {_day(told['unarchived_ns'])} are old enough and stay: not all of them are archived")


def _reckon(settings: "Config", groups: int, data_nodes: int, as_json: bool) -> None:
    """Tells the shards of a site that is to be. Raises BellrockError where its cluster would not take them."""
    from pipeline.store.elastic.shards import PER_NODE, budget, tell

    copied = min(groups, max(0, data_nodes - groups))
    found = budget(groups, settings.retention.days, settings.elasticsearch.period, PER_NODE, data_nodes, copied)
    if as_json:
        output.show_json(dataclasses.asdict(found))
    elif not found.advice:
        output.show(tell(found))
    if found.advice:
        raise BellrockError(tell(found), "change the settings, then reckon again")


@contextmanager
def _asked(state: Path, load: "Callable[[], Config]") -> Iterator[tuple[Ask, Ask]]:
    """What plans and what applies: those of the server that runs on the state, else of a store of our own."""
    from bellrock.client import Client
    from bellrock.state import StateLock, find

    found = find(state)
    if found is not None:
        client = Client(found.url, TIMEOUT_S, found.key)
        yield lambda: client.get("/api/v1/retention"), lambda: client.send("POST", "/api/v1/retention")[0]
        return
    lock, settings = StateLock(state), load()
    is_file = settings.store.kind == "duckdb"
    if is_file:
        lock.acquire()
    try:
        with _own(settings, state) as keeper:
            yield keeper.report, keeper.apply_and_report
    finally:
        if is_file:
            lock.release()


@contextmanager
def _own(settings: "Config", state: Path) -> "Iterator[Keeper]":
    from bellrock.opening import open_jobdb, open_second_pass, open_store
    from jobdb.repository import JobDBError
    from pipeline.retention import Keeper, NotHere
    from pipeline.store import StoreError

    try:
        with ExitStack() as closing:
            store = open_store(settings, state)
            closing.callback(store.close)
            second_pass = None
            if settings.archive.run:
                jobdb = open_jobdb(settings, state)
                closing.callback(jobdb.close)
                second_pass = open_second_pass(settings, state, store, jobdb)
                if second_pass is not None:
                    closing.callback(second_pass.archive.close)
            yield Keeper(store, settings.retention.days, second_pass, is_elsewhere=settings.is_archived_elsewhere)
    except NotHere as error:
        raise BellrockError(str(error), error.hint) from error
    except (StoreError, JobDBError) as error:
        raise BellrockError(str(error), "nothing else was dropped; run `bellrock retention` again") from error


def _sum(parts: Sequence[dict[str, Any]]) -> str:
    size = [part["bytes"] for part in parts if part["bytes"] is not None]
    return f"{text.of(sum(part['records'] for part in parts), 'record')}{f', {text.data(sum(size))}' if size else ''}, in {text.of(len(parts), 'part')}"


def _table(parts: Sequence[dict[str, Any]]) -> None:
    if not parts:
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, side in (("GROUP", "left"), ("CLASS", "left"), ("WHAT", "left"), ("RECORDS", "right"), ("SIZE", "right"), ("FROM", "left"), ("TO", "left")):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for part in parts:
        size = text.data(part["bytes"])
        table.add_row(part["group"] or "-", part["data"], part["name"], text.number(part["records"]), size, _day(part["first_ns"]), _day(part["last_ns"]))
    output.show(table)


def _day(instant_ns: int) -> str:
    return f"{datetime.datetime.fromtimestamp(max(0, instant_ns) // 10**9, datetime.UTC):%Y-%m-%d}"


def _shards(found: dict[str, Any] | None) -> str:
    if found is None:
        return "the store is DuckDB, which has no shards"
    from pipeline.store.elastic.shards import Budget, tell

    return tell(Budget(**found))
