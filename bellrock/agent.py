"""The agent of this machine as a child of the server: its configuration, its life, and what a killed server left of it."""

import contextlib
import json
import logging
import os
import select
import shutil
import signal
import threading
import time
from pathlib import Path

from bellrock import config, paths

log = logging.getLogger(__name__)

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 5.0
# An agent that lived this long is taken for well: the next death begins again at the first backoff.
WELL_AFTER_S = 60.0
# An orphan has its spool on disk and can be killed at any instant; the grace only spares a resend.
ORPHAN_GRACE_S = 3.0
LOG_BYTES_MAX = 8 << 20
# How often the log's size is looked at; the agent itself bounds what it says in that time.
LOG_LOOK_EVERY_S = 60.0
PID_BYTES_MAX = 32


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
            f"lwfs_client_logs = {json.dumps(settings.lwfs_client_logs)}",
            f"lwfs_client_time_zone = {json.dumps(settings.lwfs_client_time_zone)}",
            "",
        ]
    )


def spool_holder(spool: Path) -> int:
    """The pid of the agent that has this spool, by whatever name its path is known; 0 where none has it.

    The agent leaves its pid in the spool's lock file. That is believed of an agent that has this very file open: a pid that was reused
    is another program's, or another spool's agent's."""
    try:
        with open(spool / "lock", "rb") as lock:
            pid = int(lock.read(PID_BYTES_MAX))
            ours = os.fstat(lock.fileno())
        # make puts a new binary in the place of one that runs.
        if os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")) != paths.AGENT:
            return 0
        for handle in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(handle.stat(), ours):
                    return pid
    except (OSError, ValueError):
        pass
    return 0


class AgentChild:
    """One bellrock-agent, restarted with backoff when it dies.

    It runs in a session of its own, so neither a Ctrl-C nor a `kill -9` of the server reaches it: it goes on
    buffering, and the next server on this state replaces it. `stop` lets it deliver what it has.
    Owner of `_pid` is the supervising thread, except before `start` returned and after it ended; of the log's size, another."""

    def __init__(self, binary: Path, configuration: Path, state: Path) -> None:
        self.binary = binary
        self.configuration = configuration
        self.spool = state / "spool"
        # For other commands to see that an agent runs; nothing here rests on it.
        self.pid_file = state / "agent.pid"
        self.log_file = state / "agent.log"
        self.restarts = 0
        self._pid = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="agent", daemon=True)
        self._log_thread = threading.Thread(target=self._bound_log, name="agent-log", daemon=True)

    def start(self) -> None:
        """Start the agent; call `replace_orphan` before. Raises OSError when it cannot be executed."""
        try:
            self._spawn()
            self._log_thread.start()
            self._thread.start()
        except BaseException:
            # Nobody would ever end it: it holds the spool, and its server is none.
            self._stopping.set()
            if self._pid:
                self._signal(signal.SIGKILL)
                self._wait()
            raise

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
        """End the agent that a killed server left on this state's spool."""
        pid = spool_holder(self.spool)
        if not pid:
            return
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        try:
            # Asked again after the pidfd was opened: a pid that is reused from here on is not what the pidfd points to.
            if spool_holder(self.spool) != pid:
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

    def _signal(self, number: int) -> None:
        pid = self._pid
        if pid:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _spawn(self) -> None:
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
        try:
            paths.write_atomically(self.pid_file, json.dumps({"pid": self._pid}))
        except OSError as error:
            log.warning("%s cannot be written: %s; other commands will not see that the agent runs", self.pid_file, error)

    def _wait(self) -> str:
        """Wait for the agent's end; how it ended, in words."""
        try:
            return describe_end(os.waitpid(self._pid, 0)[1])
        except ChildProcessError:
            # Whoever started us ignores SIGCHLD, and so do we: the kernel buries our children itself, once they have ended.
            return "how is not known"
        finally:
            self._pid = 0

    def _bound_log(self) -> None:
        self._rotate_log()
        while not self._stopping.wait(LOG_LOOK_EVERY_S):
            self._rotate_log()

    def _rotate_log(self) -> None:
        """The agent has the file open, for appending: it is copied and emptied, not renamed."""
        try:
            if self.log_file.stat().st_size <= LOG_BYTES_MAX:
                return
            try:
                shutil.copyfile(self.log_file, self.log_file.with_suffix(".log.1"))
            finally:
                os.truncate(self.log_file, 0)
        except OSError as error:
            log.warning("%s cannot be rotated: %s", self.log_file, error)

    def _supervise(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while True:
            started = time.monotonic()
            if self._pid:
                how = self._wait()
                if not self._stopping.is_set():
                    log.warning("the agent ended (%s); restarting. Its messages: %s", how, self.log_file)
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
                # A server that was killed while its agent came up: that took the spool only after ours looked.
                self.replace_orphan()
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
