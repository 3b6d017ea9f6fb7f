import dataclasses
import re
import tomllib

import pytest

from bellrock import config
from bellrock.errors import EXIT_USAGE, UsageError
from webapp.api import THREADS_MIN


def uncommented() -> dict:
    return tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", config.sample(), flags=re.MULTILINE))


def test_every_setting_is_in_the_sample_with_its_default() -> None:
    defaults = {name: dataclasses.asdict(section()) for name, section in config.SECTIONS.items()}
    assert uncommented() == defaults


def test_the_sample_as_it_stands_changes_nothing() -> None:
    parsed = config.parse(tomllib.loads(config.sample()), "sample")
    assert parsed == config.Config()


def test_every_setting_of_the_sample_has_a_word_of_explanation() -> None:
    lines = config.sample().splitlines()
    for at, line in enumerate(lines):
        if re.match(r"# \w+ = ", line):
            assert lines[at - 1].startswith("# ") and not re.match(r"# \w+ = ", lines[at - 1]), line


def test_unknown_keys_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as error:
        config.parse({"http": {"prot": 1}}, "server.toml")
    assert "prot" in str(error.value) and "port" in error.value.hint and "threads" in error.value.hint
    with pytest.raises(UsageError, match="unknown section"):
        config.parse({"htp": {}}, "server.toml")
    with pytest.raises(UsageError, match="is a section"):
        config.parse({"http": 3}, "server.toml")


@pytest.mark.parametrize(
    "table",
    [
        {"http": {"port": "8425"}},
        {"http": {"port": 70000}},
        {"http": {"port": True}},
        {"agent": {"run": 1}},
        {"http": {"threads": THREADS_MIN - 1}},
        {"agent": {"spool_mib": -1}},
    ],
)
def test_wrong_values_are_refused(table: dict) -> None:
    with pytest.raises(UsageError) as error:
        config.parse(table, "server.toml")
    assert error.value.exit_code == EXIT_USAGE and error.value.hint


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "example.org", "::", "::1", "", "127.0.0.1.example.org"])
def test_only_loopback_is_taken(host: str) -> None:
    with pytest.raises(UsageError, match="loopback"):
        config.parse({"ingest": {"host": host}}, "server.toml")


def test_a_number_with_a_fraction_may_be_whole() -> None:
    assert config.parse({"findings": {"slow_times": 2}}, "server.toml").findings.slow_times == 2
    for wrong in (True, "2", 0, float("nan")):
        with pytest.raises(UsageError, match="slow_times"):
            config.parse({"findings": {"slow_times": wrong}}, "server.toml")


TLS = {"tls_cert": "/t/s.crt", "tls_key": "/t/s.key", "tls_client_ca": "/t/ca.crt"}


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "io.example.org", "::"])
def test_with_certificates_agents_may_deliver_at_any_address_and_pages_stay(host: str) -> None:
    parsed = config.parse({"ingest": {"host": host, "port": 5044, **TLS}}, "server.toml")
    assert parsed.ingest.host == host and parsed.ingest.tls
    with pytest.raises(UsageError, match="http.host"):
        config.parse({"http": {"host": host}, "ingest": {"host": host, "port": 5044, **TLS}}, "server.toml")


@pytest.mark.parametrize(
    ("ingest", "message"),
    [
        ({"port": 1, **TLS, "tls_key": ""}, "tls_key is missing"),
        ({"port": 1, "tls_client_ca": "/t/ca.crt"}, "tls_cert is missing"),
        ({"port": 1, **TLS, "tls_cert": "s.crt"}, "not an absolute path"),
        ({"port": 1, **TLS, "tls_cert": 3}, "is not of type str"),
    ],
)
def test_certificates_that_make_no_sense_are_refused(ingest: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        config.parse({"ingest": ingest}, "server.toml")
    assert error.value.hint


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "localhost"])
def test_loopback_is_taken(host: str) -> None:
    assert config.parse({"http": {"host": host}}, "server.toml").http.host == host


def test_the_command_line_comes_before_the_file(tmp_path) -> None:
    (tmp_path / "server.toml").write_text("[http]\nport = 1234\nthreads = 5\n")
    loaded = config.load(None, tmp_path, {"http.port": 4321, "ingest.port": None})
    assert loaded.http == config.Http(port=4321, threads=5)
    assert loaded.explicit == {"http.port", "http.threads"}
    with pytest.raises(UsageError, match="the command line"):
        config.load(None, tmp_path, {"http.port": 99999})


def test_a_file_that_is_missing_or_broken_is_told(tmp_path) -> None:
    assert config.load(None, tmp_path) == config.Config()
    with pytest.raises(UsageError, match="cannot be read"):
        config.load(tmp_path / "none.toml", tmp_path)
    (tmp_path / "server.toml").write_text("[http\n")
    with pytest.raises(UsageError, match="not TOML"):
        config.load(None, tmp_path)


@pytest.mark.parametrize(
    ("jobdb", "told"),
    [
        ({"url": "mysql+pymysql://bellrock:secret@127.0.0.1/bellrock"}, "password"),
        ({"url": "mysql+pymysql://bellrock@db1/bellrock"}, "ca"),
        ({"url": "mysql+pymysql://127.0.0.1/bellrock"}, "no address"),
        ({"url": "mysql+pymysql://bellrock@127.0.0.1/"}, "no address"),
        ({"url": "mysql+pymysql://bellrock@127.0.0.1:99999/bellrock"}, "no address"),
        ({"url": "mysql+pymysql://bellrock@127.0.0.1/bellrock?local_infile=1"}, "no address"),
        ({"url": "mysql+pymysql://bellrock@127.0.0.1/bell`rock"}, "name of a database"),
        ({"url": "mysql+pymysql://bellrock@/bellrock"}, "socket"),
        ({"url": "mysql+pymysql://bellrock@/bellrock?unix_socket=run/s"}, "socket"),
        ({"url": "postgresql://bellrock@127.0.0.1/bellrock"}, "no address"),
        ({"url": "mysql+pymysql://bellrock@127.0.0.1/bellrock", "password_file": "secret"}, "absolute"),
        ({"url": "mysql+pymysql://bellrock@127.0.0.1/bellrock", "analyst_password_file": "secret"}, "absolute"),
        ({"url": "mysql+pymysql://bellrock@127.0.0.1/bellrock", "analyst": "a'b"}, "account"),
        ({"password_file": "/secret"}, "jobdb.url"),
    ],
)
def test_ways_to_a_job_database_that_cannot_be_taken(jobdb: dict, told: str) -> None:
    with pytest.raises(UsageError, match=told) as error:
        config.parse({"jobdb": jobdb}, "server.toml")
    assert "secret@" not in str(error.value) and error.value.hint


@pytest.mark.parametrize("where", ["127.0.0.1", "localhost:3307", "[::1]:3306", "", "db1"])
def test_ways_to_a_job_database(where: str) -> None:
    jobdb = {"url": f"mysql+pymysql://bellrock@{where}/bellrock" + ("" if where else "?unix_socket=/run/s"), "ca": "/ca.pem" if where == "db1" else ""}
    assert config.parse({"jobdb": jobdb}, "server.toml").jobdb.url == jobdb["url"]


def test_retention_has_a_setting_for_each_class_of_data() -> None:
    from bellrock.config import RETAINED
    from pipeline.store.parts import CLASSES

    assert tuple(CLASSES) == RETAINED


def test_commands_begin_no_thread_before_they_hold_signals_back() -> None:
    import subprocess
    import sys

    # numpy and pyarrow bring threads, which would take a signal that was meant for the command.
    count = "import os, bellrock.cli, bellrock.run, bellrock.config; print(len(os.listdir('/proc/self/task')))"
    assert subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout == "1\n"
