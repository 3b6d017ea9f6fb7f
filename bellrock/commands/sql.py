"""`bellrock sql` and `bellrock jobdb`."""

from pathlib import Path

import click

from bellrock import console
from bellrock.commands.options import CONFIG
from bellrock.errors import EXIT_CODES


@click.command(
    short_help="Ask the job database in SQL.",
    help=f"""Run a query on the job database with rights to read only, and print its rows.

--schema lists the views and their columns, with units; docs/analyst.md has worked queries. No server need run. Nothing can be changed, and a query ends
after --timeout.

\b
Examples:
  bellrock sql --schema
  bellrock sql "SELECT user, jobs, write_bytes FROM usage_by_user_month WHERE month = '2026-11'"
  bellrock sql --file slow.sql --format csv > slow.csv
  bellrock sql "SELECT * FROM job_summary" --format parquet -o jobs.parquet

{EXIT_CODES}""",
)
@click.option("--file", "-f", type=click.Path(path_type=Path, allow_dash=True), help="Read the query from a file; - is standard input.")
@click.option("--schema", is_flag=True, help="List views and columns, and end.")
@click.option("--format", "how", type=click.Choice(("table", "csv", "json", "parquet")), default="table", show_default=True, help="Of the result.")
@click.option("-o", "--output", "target", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE, whole or not at all.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.1, 86_400), default=60.0, show_default=True, metavar="SECONDS", help="End the query after so long.")
@click.option("--limit", type=click.IntRange(1), help="At most so many rows. Default: 1000 of a table, else all.")
@CONFIG
@click.argument("query", required=False)
def sql(file: Path | None, schema: bool, how: str, target: Path | None, timeout_s: float, limit: int | None, config_file: Path | None, query: str | None) -> None:
    from bellrock import config, paths
    from bellrock import sql as asking

    if schema:
        click.echo(asking.schema(), nl=False)
        return
    state = paths.state_dir()
    text = asking.read_query(query, file)
    way = asking.access(config.load(config_file, state), state)
    asking.run_sql(way, text, how, target, timeout_s, limit)


@click.group(short_help="Set up the job database.", help="Make the accounts and tables of a job database at MySQL or MariaDB.")
def jobdb() -> None:
    pass


@jobdb.command(
    "setup",
    short_help="Make database, accounts, tables and views.",
    help=f"""Make the database that jobdb.url names, the account there and the analyst's, the tables and the views; again at any time, as after an update.

The accounts' passwords are made where their files (jobdb.password_file, jobdb.analyst_password_file) are not there yet. The analyst may read the job tables
and views, and nothing else. The administrator's password comes from a file.

\b
Examples:
  sudo bellrock jobdb setup --config /etc/bellrock/server.toml --admin-socket /run/mysqld/mysqld.sock
  bellrock jobdb setup --admin dba --admin-password-file ~/.dba --from 10.77.0.%

{EXIT_CODES}""",
)
@click.option("--admin", default="root", show_default=True, metavar="NAME", help="The administrator's account.")
@click.option("--admin-password-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Its password, in a file of mode 0600; default: none.")
@click.option("--admin-socket", type=click.Path(path_type=Path), metavar="PATH", help="Reach the server by its Unix socket, not as jobdb.url says.")
@click.option("--from", "hosts", multiple=True, metavar="HOST", help="Where the accounts may come from; % is any. Default: this machine, or % where the server is another.")
@CONFIG
def setup(admin: str, admin_password_file: Path | None, admin_socket: Path | None, hosts: tuple[str, ...], config_file: Path | None) -> None:
    from bellrock import config, paths
    from bellrock.jobdb_setup import set_up

    settings = config.load(config_file, paths.state_dir()).jobdb
    for line in set_up(settings, admin, admin_password_file and admin_password_file.absolute(), admin_socket and admin_socket.absolute(), hosts):
        console.say(line)
