"""A Redis of the stack: what it acknowledged survives SIGKILL, strangers are turned away, and nothing of it is left."""

import shutil
import subprocess
import time

import pytest

from bellrock.stack.process import processes
from bellrock.stack.redis import Redis
from tests.servers import started


@pytest.fixture
def redis(server_folder):
    server = Redis(server_folder(), password="secret")
    yield started(server)
    server.stop()


def ask(server: Redis, *command: str, password: str = "secret") -> str:
    cli = [shutil.which("redis-cli"), "-p", str(server.port), *command]
    done = subprocess.run(cli, env={"REDISCLI_AUTH": password} if password else {}, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def test_what_was_acknowledged_survives_a_kill(redis):
    pushed = [ask(redis, "RPUSH", "list", f"item {n}") for n in range(5)]
    port = redis.port
    redis.kill()
    assert not redis.running
    redis.start()
    assert redis.port == port
    assert pushed[-1] == "5" and ask(redis, "LRANGE", "list", "0", "-1").splitlines() == [f"item {n}" for n in range(5)]
    assert "always" in ask(redis, "CONFIG", "GET", "appendfsync")


def test_strangers_and_writes_beyond_its_memory_are_refused(redis):
    assert "NOAUTH" in ask(redis, "GET", "x", password="")
    ask(redis, "CONFIG", "SET", "maxmemory", "100kb")
    assert "OOM" in ask(redis, "SET", "big", "x")


def test_one_that_runs_is_taken_over_if_its_settings_are_the_same(redis):
    before = redis.pid
    again = Redis(redis.folder, password="secret")
    again.start()
    assert again.pid == before
    other = Redis(redis.folder, password="other")
    other.start()
    assert other.pid != before and ask(other, "PING", password="other") == "PONG"


def test_stop_leaves_no_process_and_a_second_start_is_quick(redis):
    before = redis._record()["mark"]
    assert list(processes(before)) == [redis.pid]
    redis.stop()
    assert not list(processes(before)) and redis.pid is None
    begun = time.monotonic()
    redis.start()
    assert time.monotonic() - begun < 20


def test_one_that_cannot_start_says_why(server_folder, redis):
    second = Redis(server_folder(), port=redis.port)
    with pytest.raises(Exception, match="Address already in use"):
        second.start()
    assert not second.running
