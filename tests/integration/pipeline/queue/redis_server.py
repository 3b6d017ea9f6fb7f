"""A Redis of a test's own."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import redis

from pipeline.queue.redis import RedisSettings

START_TIMEOUT_S = 30


class RedisServer:
    """A redis-server in `folder`, on loopback, that syncs its log at each command. May be killed and started again."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        self.folder, self.port, self._options = folder, port, options
        self.url = f"redis://127.0.0.1:{port}/0"
        self.client = redis.Redis(port=port)
        self._process: subprocess.Popen | None = None

    def start(self) -> "RedisServer":
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("no redis-server on this machine. Run: apt-get install redis-server")
        self.folder.mkdir(exist_ok=True)
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        with (self.folder / "redis.log").open("a") as out:
            self._process = subprocess.Popen([program, *settings, *self._options], stdout=out, stderr=out)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.client.ping()
                return self
            except redis.RedisError as error:
                if isinstance(error, redis.AuthenticationError) or (isinstance(error, redis.ResponseError) and "NOAUTH" in str(error)):
                    return self
                assert self._process.poll() is None, (self.folder / "redis.log").read_text()
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL; what it acknowledged must be there at the next start."""
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.client.close()
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self.kill()

    def settings(self, **changes) -> RedisSettings:
        return RedisSettings(**{"url": self.url, "lease_s": 5.0, **changes})
