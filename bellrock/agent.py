"""The agent of this machine as a child of the server: its configuration, its life, and what a killed server left of it."""

import json
import logging
import os
import select
import signal
import threading
import time
from pathlib import Path

from bellrock import config, paths

log = logging.getLogger(__name__)

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
# An agent that lived this long is taken for well: the next death begins again at the first backoff.
WELL_AFTER_S = 60.0
# An orphan has its spool on disk and can be killed at any instant; the grace only spares a resend.
ORPHAN_GRACE_S = 3.0
LOG_BYTES_MAX = 8 << 20


def agent_toml(rings: Path, spool: Path, socket: Path, settings: config.Agent) -> str:
    """The text of the agent's configuration. Raises nothing; the paths are quoted as TOML wants."""
    # JSON's strings are TOML's basic strings.
    return "\n".join(
        [
            "# Written by bellrock's server at each start; changes here are lost.",
            f"rings = {json.dumps(str(rings))}",
            f"spool = {json.dumps(str(spool))}",
            f"spool_max_bytes = {settings.spool_mib << 20}",
            f"server = {json.dumps(f'unix:{socket}')}",
            "",
        ]
    )


class AgentChild:
    """One bellrock-agent, restarted with backoff when it dies.

    It runs in a session of its own, so neither a Ctrl-C nor a `kill -9` of the server reaches it: it goes on
    buffering, and the next server on this state replaces it. `stop` lets it deliver what it has.
    Owner of `_pid` is the supervising thread, except before `start` returned and after it ended."""

    def __init__(self, binary: Path, configuration: Path, state: Path) -> None:
        self.binary = binary
        self.configuration = configuration
        self.pid_file = state / "agent.pid"
        self.log_file = state / "agent.log"
        self.restarts = 0
        self._pid = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="agent", daemon=True)

    def start(self) -> None:
        """Start the agent. Raises OSError when it cannot be executed."""
        self._spawn()
        self._thread.start()

    def stop(self, drain_s: float) -> bool:
        """Ask the agent to deliver and end; after `drain_s` kill it. True when it ended by itself. Nothing is lost either
        way: what was not delivered is in its spool and the rings, for the next server."""
        self._stopping.set()
        if not self._thread.is_alive():
            return True
        self._signal(signal.SIGTERM)
        self._thread.join(drain_s)
        if not self._thread.is_alive():
            return True
        self._signal(signal.SIGKILL)
        self._thread.join()
        return False

    @property
    def pid(self) -> int:
        """The agent's pid, 0 while it is down."""
        return self._pid

    def replace_orphan(self) -> None:
        """End the agent that a killed server left on this state, if it is really that."""
        found = paths.read_json(self.pid_file)
        if found is None or not isinstance(found.get("pid"), int):
            return
        pid = found["pid"]
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        try:
            # Asked after the pidfd was opened: a pid that is reused from here on is not what the pidfd points to.
            if not self._is_our_agent(pid):
                return
            log.info("replacing agent %d, which an earlier server left", pid)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            for number, grace_s in ((signal.SIGTERM, ORPHAN_GRACE_S), (signal.SIGKILL, 10.0)):
                try:
                    signal.pidfd_send_signal(handle, number)
                except ProcessLookupError:
                    return
                if poll.poll(grace_s * 1000):
                    return
            log.warning("agent %d does not end; the new one may find its spool locked", pid)
        finally:
            os.close(handle)
            self.pid_file.unlink(missing_ok=True)

    def _is_our_agent(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.path.basename(words[0]) == os.fsencode(self.binary.name) and os.fsencode(str(self.configuration)) in words

    def _signal(self, number: int) -> None:
        pid = self._pid
        if pid:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _spawn(self) -> None:
        if self.log_file.exists() and self.log_file.stat().st_size > LOG_BYTES_MAX:
            self.log_file.rename(self.log_file.with_suffix(".log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("BELLROCK_")}
        # posix_spawn, since a thread of ours may block signals that the agent must get, and setsid keeps Ctrl-C from it.
        self._pid = os.posix_spawn(
            str(self.binary),
            [str(self.binary), "--config", str(self.configuration)],
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log_file), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
        )
        paths.write_atomically(self.pid_file, json.dumps({"pid": self._pid}))

    def _supervise(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while True:
            started = time.monotonic()
            if self._pid:
                _, status = os.waitpid(self._pid, 0)
                self._pid = 0
                if not self._stopping.is_set():
                    log.warning("the agent ended (%s); restarting. Its messages: %s", describe_end(status), self.log_file)
            if self._stopping.is_set():
                self.pid_file.unlink(missing_ok=True)
                return
            backoff_s = BACKOFF_FIRST_S if time.monotonic() - started > WELL_AFTER_S else backoff_s
            self._stopping.wait(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
            if self._stopping.is_set():
                continue
            try:
                self.restarts += 1
                self._spawn()
            except OSError as error:
                log.error("the agent cannot be started: %s", error)
            if self._stopping.is_set():
                # stop() may have sent its signal before this child was there.
                self._signal(signal.SIGTERM)


def describe_end(status: int) -> str:
    """A wait status in words: "exit code 1", "signal SIGKILL"."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
