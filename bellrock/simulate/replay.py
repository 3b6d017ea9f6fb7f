"""Plays what a virtual machine's nodes would have shown to the true agents, one a node, whose time is that of the machine."""

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from bellrock import paths
from bellrock.errors import BellrockError, UsageError
from bellrock.simulate.model import START_S_MAX
from bellrock.simulate.scratch import MEMORY_BYTES_MAX, RINGS, Scratch, refuse_links, scratch
from bellrock.simulate.trees.looks import read_looks
from bellrock.simulate.trees.write import REPLAY

S = 10**9
# In the folder that is played: of each node its agent's spool and log, how far it is, and whether it is done.
WORK = "replay"
NAMES = ("agent.log", "done", "look", "look.new", "spool")
# What an agent may take to answer a step, while its spool may be full, and to end once its input has: by itself it ends once a server is silent for a minute.
ANSWER_S, END_S = 600.0, 3600.0
NOT_SHIPPED = 4
BROKEN_OFF = "broken off"
# No more is read of the file that says how far a node is, and of replay.json.
POSITION_BYTES_MAX, TIMES_BYTES_MAX = 16, 4096


@dataclass(frozen=True)
class Times:
    """When nodes are looked at: `looks` times after the first, s."""

    start_s: int
    look_every_s: int
    looks: int


@dataclass(frozen=True)
class Played:
    """How a node's replay ended. exit_code: its agent's, None where it never began or was killed. looks: how many its agent took this time.
    before: it was done already."""

    node: str
    looks: int
    exit_code: int | None
    why: str = ""
    before: bool = False

    @property
    def is_done(self) -> bool:
        """Whether all of it is with the server."""
        return self.exit_code == 0 and not self.why


def read_times(folder: Path) -> Times:
    """What `folder`'s replay.json says. Raises UsageError."""
    hint = "name a folder that `bellrock simulate --trees DIR` wrote"
    if not (folder / "nodes").is_dir():
        raise UsageError(f"{folder} has no nodes", hint)
    try:
        with open(folder / REPLAY, "rb") as file:
            told = json.loads(file.read(TIMES_BYTES_MAX))
        times = Times(**{name: told[name] for name in ("start_s", "look_every_s", "looks")})
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{folder / REPLAY}: {error}", hint) from error
    is_whole = all(type(number) is int for number in (times.start_s, times.look_every_s, times.looks))
    if not (is_whole and 0 <= times.start_s <= START_S_MAX and 0 < times.look_every_s <= 86_400 and 0 < times.looks <= 10**8):
        raise UsageError(f"{folder / REPLAY}: no such times can be", hint)
    return times


def nodes_of(folder: Path, wanted: tuple[str, ...]) -> list[str]:
    """All nodes in the folder, or those wanted. Raises UsageError for one that is not there."""
    there = sorted(path.name for path in (folder / "nodes").iterdir() if path.is_dir())
    missing = [name for name in wanted if name not in there]
    if missing or not there:
        raise UsageError(f"{folder}/nodes has no {missing[0] if missing else 'nodes'}", f"look with: ls {folder}/nodes")
    return [name for name in there if not wanted or name in wanted]


class Replay:
    """Plays nodes, some at a time, until all are done or `stop` is called. Each node's steps are on record before they are taken, so that another replay
    goes on where this one was ended."""

    def __init__(self, folder: Path, times: Times, server: str, agent: Path) -> None:
        self._folder, self._times, self._server, self._agent = folder, times, server, agent
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._at: dict[str, int] = {}
        self._bytes_max = MEMORY_BYTES_MAX

    def stop(self) -> None:
        """No step is begun any more; agents ship what they have and end."""
        self._stopping.set()

    def running(self) -> dict[str, int]:
        """Nodes that are played now, and the look that each is at."""
        with self._lock:
            return dict(self._at)

    def play(self, nodes: list[str], at_once: int, tell: Callable[[Played], None]) -> list[Played]:
        """Plays the nodes; `tell` hears of each once it has ended."""

        def one(node: str) -> Played:
            played = self._one(node)
            with self._lock:
                self._at.pop(node, None)
                tell(played)
            return played

        self._bytes_max = MEMORY_BYTES_MAX // at_once
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, nodes))

    def _one(self, node: str) -> Played:
        work = self._folder / WORK / node
        try:
            refuse_links(chain((work.parent, work, *(work / name for name in NAMES)), (work / "spool").rglob("*")))
            if (work / "done").exists():
                return Played(node, 0, 0, before=True)
            if self._stopping.is_set():
                return Played(node, 0, None, "not begun")
            work.mkdir(parents=True, exist_ok=True)
            with scratch(self._folder / "nodes" / node, work, self._bytes_max) as root:
                played = self._with_root(node, work, root)
        except (OSError, BellrockError) as error:
            return Played(node, 0, None, str(error))
        if played.is_done:
            (work / "done").touch()
            shutil.rmtree(work / "spool", ignore_errors=True)
        return played

    def _with_root(self, node: str, work: Path, root: Scratch) -> Played:
        nodes = self._folder / "nodes"
        settings = nodes / f"{node}.agent.toml"
        command = [str(self._agent), "--root", str(root.root), "--rings", f"/{RINGS}", "--spool", str(work / "spool"), "--server", self._server, "--node", node, "--steps"]
        if settings.exists():
            command += ["--config", str(settings)]
        archive = nodes / f"{node}.looks.tar"
        with open(work / "agent.log", "ab") as log:
            # Signals of the terminal are ours to deal with.
            agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        with agent:
            assert agent.stdin is not None and agent.stdout is not None
            timer = _Timer(agent)
            looks, why = 0, ""
            try:
                steps = _looks(archive, root, self._times) if archive.exists() else iter([self._times.looks])
                looks, why = self._step(node, work, steps, agent.stdin, agent.stdout, timer)
                timer.within(END_S)
                # One that has ended takes no more.
                with suppress(BrokenPipeError):
                    agent.stdin.close()
                agent.wait()
            except BaseException:
                agent.kill()
                raise
            finally:
                timer.end()
        if timer.is_over:
            why = "its agent did not do what was waited for, and was killed"
        elif agent.returncode == NOT_SHIPPED:
            why = f"{why}{'; ' if why else ''}not everything was acknowledged; the rest waits in its spool"
        # Of one that was told no step there is nothing to hear but that.
        elif agent.returncode and not (why == BROKEN_OFF and not looks):
            why = _last_line(work / "agent.log")
        return Played(node, looks, agent.returncode, why)

    def _step(self, node: str, work: Path, looks: Iterator[int], out: IO[bytes], answers: IO[bytes], timer: "_Timer") -> tuple[int, str]:
        """Takes the steps. Returns how many looks its agent took, and why it broke off."""
        position = work / "look"
        resumed = _read_position(position, self._times.looks)
        taken = 0
        for look in looks:
            if self._stopping.is_set():
                return taken, BROKEN_OFF
            with self._lock:
                self._at[node] = look
            # What was looked at before is only put in place; the last look, which may not have been answered, is taken again.
            if look < resumed:
                continue
            _write_position(position, look)
            line = b"%d\n" % ((self._times.start_s + look * self._times.look_every_s) * S)
            timer.within(ANSWER_S)
            try:
                out.write(line)
                out.flush()
                is_answered = answers.readline() == line
            except BrokenPipeError:
                is_answered = False
            if not is_answered:
                return taken, "its agent ended before its time"
            taken += 1
        return taken, ""


class _Timer:
    """Kills a process that does not do within some time what it is waited for."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.is_over = False
        self._until = float("inf")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def within(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            if time.monotonic() > self._until:
                self.is_over = True
                self._process.kill()
                return


def _looks(archive: Path, root: Scratch, times: Times) -> Iterator[int]:
    """Puts look after look in place, and gives the number of each once it is. Raises BellrockError for an archive that is none of ours."""
    with open(archive, "rb") as file:
        coming = read_looks(file)
        member = next(coming, None)
        for look in range(times.looks + 1):
            while member is not None and member[0] <= times.start_s + look * times.look_every_s:
                root.put(*member[1:])
                member = next(coming, None)
            yield look
        if member is not None:
            raise BellrockError(f"{archive}: {member[1]} is of a look after the last", f"write the trees anew; see {REPLAY} beside nodes/")


def _read_position(path: Path, looks: int) -> int:
    """The look that was taken last; 0 before any was. Raises BellrockError for a file that does not say: its agent's spool has looks, which would be told twice."""
    try:
        with open(path, "rb") as file:
            text = file.read(POSITION_BYTES_MAX + 1)
    except FileNotFoundError:
        return 0
    if not re.fullmatch(rb"\d{1,9}\n", text) or int(text) > looks:
        raise BellrockError(f"{path}: it does not say how far this node is", f"rm -r {path.parent} begins anew, and tells once more what a server already has")
    return int(text)


def _write_position(path: Path, look: int) -> None:
    """Whole or not at all, whatever ends this program."""
    new = path.with_name("look.new")
    new.write_text(f"{look}\n")
    os.replace(new, path)


def _last_line(log: Path) -> str:
    """What an agent said last."""
    lines = log.read_bytes()[-4096:].decode(errors="replace").splitlines()
    return f"{log}: {lines[-1] if lines else 'nothing was said'}"


def summary(played: list[Played], seconds: float) -> dict[str, Any]:
    """What was done, fit for JSON."""
    return {"nodes": [asdict(one) for one in played], "done": sum(one.is_done for one in played), "seconds": seconds}


def agent() -> Path:
    """The agent's program. Raises Unavailable."""
    return paths.artefact(paths.AGENT)
