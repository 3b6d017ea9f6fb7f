"""MySQL of the stack, and the MariaDB of the tests: accounts and databases are there, what was committed survives SIGKILL, and nothing of them is left."""

import subprocess
import time

import pytest

from bellrock.stack.mysql import MySql
from bellrock.stack.process import processes
from bellrock.stack.sql import Account
from tests.mariadb import MariaDb
from tests.servers import started

pytestmark = pytest.mark.long  # each test starts a server of its own
ACCOUNTS = [Account("writer", "write-it", ("ALL PRIVILEGES ON bellrock.*",)), Account("reader", "read-it", ("SELECT ON bellrock.*",))]
ALL = [pytest.param(MariaDb, id="mariadb"), pytest.param(MySql, id="mysql")]


@pytest.fixture(params=ALL)
def server(request, server_folder, server_tls):
    server = request.param(server_folder(), accounts=ACCOUNTS, tls=server_tls)
    yield started(server)
    server.stop()


def run(server, sql: str, account: Account = ACCOUNTS[0], *, how: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    options = server.folder.parent / "client.cnf"
    options.write_text(f"[client]\nuser={account.name}\npassword={account.password}\n")
    command = [
        str(server.client),
        f"--defaults-file={options}",
        *(how or (f"--socket={server.socket}",)),
        "--batch",
        "--skip-column-names",
        "-e",
        sql,
        "bellrock",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_what_was_committed_survives_a_kill(server):
    made = run(server, "CREATE TABLE jobs (id INT PRIMARY KEY); INSERT INTO jobs VALUES (1), (2), (3)")
    assert made.returncode == 0, made.stderr
    port = server.port
    server.kill()
    server.start()
    assert server.port == port
    assert run(server, "SELECT SUM(id) FROM jobs").stdout.strip() == "6"


def test_accounts_may_do_what_they_were_granted_and_no_more(server):
    run(server, "CREATE TABLE jobs (id INT PRIMARY KEY)")
    assert run(server, "SELECT COUNT(*) FROM jobs", ACCOUNTS[1]).stdout.strip() == "0"
    refused = run(server, "INSERT INTO jobs VALUES (1)", ACCOUNTS[1])
    assert refused.returncode and "denied" in refused.stderr
    nobody = run(server, "SELECT 1", Account("root", ""))
    assert nobody.returncode and "Access denied" in nobody.stderr


def test_over_tcp_it_speaks_tls_with_the_certificate_given(server):
    verify = "--ssl-mode=VERIFY_IDENTITY" if isinstance(server, MySql) else "--ssl-verify-server-cert"
    tcp = ("--protocol=TCP", "--host=127.0.0.1", f"--port={server.port}")
    asked = run(server, "SHOW STATUS LIKE 'Ssl_version'", how=(*tcp, verify, f"--ssl-ca={server.ca}"))
    assert "TLSv1." in asked.stdout, asked.stderr
    plain = "--ssl-mode=DISABLED" if isinstance(server, MySql) else "--skip-ssl"
    refused = run(server, "SELECT 1", how=(*tcp, plain))
    assert refused.returncode and ("secure transport" in refused.stderr or "denied" in refused.stderr)


def test_stop_leaves_no_process_and_a_second_start_is_quick(server):
    mark = server._record()["mark"]
    assert list(processes(mark)) == [server.pid]
    server.stop()
    assert not list(processes(mark)) and not server.running
    begun = time.monotonic()
    server.start()
    assert time.monotonic() - begun < 60
