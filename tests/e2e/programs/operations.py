"""Carries out a list of I/O operations and writes down what it did: the oracle of the property test.

usage: operations.py PLAN TRUTH DIRECTORY

PLAN is a JSON list of [name, arguments…]; file names in it are relative to DIRECTORY, descriptors are indices into those open at the time
(modulo their number). TRUTH becomes {"files": {path: {read_ops, read_bytes, write_ops, write_bytes, metadata_ops, errors}},
"operations": {name: count}, "processes": n}. Nothing of it is guessed: each entry is made from the call's own answer.
"""

import json
import os
import sys
import threading
from collections import defaultdict

DATA = {"read", "write"}


class Recorder:
    def __init__(self):
        self.files = defaultdict(lambda: defaultdict(int))
        self.operations = defaultdict(int)
        self.lock = threading.Lock()
        self.processes = 1

    def note(self, path, operation, size=0, count=1, failed=False):
        with self.lock:
            entry = self.files[path]
            if failed:
                entry["errors"] += count
                return
            self.operations[operation] += count
            if operation in DATA:
                entry[f"{operation}_ops"] += count
                entry[f"{operation}_bytes"] += size
            else:
                entry["metadata_ops"] += count

    def as_dict(self):
        return {"files": {p: dict(e) for p, e in self.files.items()}, "operations": dict(self.operations), "processes": self.processes}

    def merge(self, other):
        for path, entry in other["files"].items():
            for name, value in entry.items():
                self.files[path][name] += value
        for name, count in other["operations"].items():
            self.operations[name] += count
        self.processes += other["processes"]


class Player:
    """Carries out operations. `open_files`: list of (descriptor, path)."""

    def __init__(self, directory, recorder, open_files):
        self.directory, self.recorder, self.open_files = directory, recorder, open_files

    def path(self, name):
        return os.path.normpath(os.path.join(self.directory, name))

    def attempt(self, path, operation, call, size=lambda answer: 0):
        try:
            answer = call()
        except OSError:
            self.recorder.note(path, operation, failed=True)
            return None
        self.recorder.note(path, operation, size(answer))
        return answer

    def play(self, plan):
        for name, *arguments in plan:
            getattr(self, "do_" + name)(*arguments)

    def pick(self, index):
        return self.open_files[index % len(self.open_files)] if self.open_files else None

    # --- descriptors
    def do_open(self, name, flags):
        bits = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[flags.rstrip("cta")]
        bits |= os.O_CREAT * ("c" in flags) | os.O_TRUNC * ("t" in flags) | os.O_APPEND * ("a" in flags)
        descriptor = self.attempt(self.path(name), "open", lambda: os.open(self.path(name), bits, 0o600))
        if descriptor is not None:
            self.open_files.append((descriptor, self.path(name)))

    def do_close(self, index):
        if picked := self.pick(index):
            self.open_files.remove(picked)
            self.attempt(picked[1], "close", lambda: os.close(picked[0]))

    def do_dup(self, index):
        if picked := self.pick(index):
            self.open_files.append((os.dup(picked[0]), picked[1]))

    def do_dup2(self, index, other):
        a, b = self.pick(index), self.pick(other)
        if a and a[0] != b[0]:
            os.dup2(a[0], b[0])
            self.open_files[self.open_files.index(b)] = (b[0], a[1])

    def moving(self, index, operation, call, size):
        if picked := self.pick(index):
            self.attempt(picked[1], operation, lambda: call(picked[0]), size)

    def do_read(self, index, n):
        self.moving(index, "read", lambda fd: os.read(fd, n), len)

    def do_write(self, index, n):
        self.moving(index, "write", lambda fd: os.write(fd, b"x" * n), int)

    def do_pread(self, index, n, offset):
        self.moving(index, "read", lambda fd: os.pread(fd, n, offset), len)

    def do_pwrite(self, index, n, offset):
        self.moving(index, "write", lambda fd: os.pwrite(fd, b"y" * n, offset), int)

    def do_readv(self, index, n):
        self.moving(index, "read", lambda fd: os.readv(fd, [bytearray(n), bytearray(7)]), int)

    def do_writev(self, index, n):
        self.moving(index, "write", lambda fd: os.writev(fd, [b"v" * n, b"w"]), int)

    def do_preadv(self, index, n, offset):
        self.moving(index, "read", lambda fd: os.preadv(fd, [bytearray(n)], offset), int)

    def do_pwritev(self, index, n, offset):
        self.moving(index, "write", lambda fd: os.pwritev(fd, [b"p" * n], offset), int)

    def do_lseek(self, index, offset):
        if picked := self.pick(index):
            os.lseek(picked[0], offset, os.SEEK_SET)

    def do_fsync(self, index):
        self.moving(index, "sync", os.fsync, lambda _: 0)

    def do_fdatasync(self, index):
        self.moving(index, "sync", os.fdatasync, lambda _: 0)

    def do_ftruncate(self, index, n):
        self.moving(index, "truncate", lambda fd: os.ftruncate(fd, n), lambda _: 0)

    def do_fstat(self, index):
        self.moving(index, "stat", os.fstat, lambda _: 0)

    # --- paths
    def do_stat(self, name):
        self.attempt(self.path(name), "stat", lambda: os.stat(self.path(name)))

    def do_lstat(self, name):
        self.attempt(self.path(name), "stat", lambda: os.lstat(self.path(name)))

    def do_access(self, name):
        # os.access answers False where the call failed.
        self.recorder.note(self.path(name), "access", failed=not os.access(self.path(name), os.R_OK))

    def do_unlink(self, name):
        self.attempt(self.path(name), "unlink", lambda: os.unlink(self.path(name)))

    def do_rename(self, name, to):
        self.attempt(self.path(name), "rename", lambda: os.rename(self.path(name), self.path(to)))

    def do_mkdir(self, name):
        self.attempt(self.path(name), "mkdir", lambda: os.mkdir(self.path(name)))

    def do_rmdir(self, name):
        self.attempt(self.path(name), "rmdir", lambda: os.rmdir(self.path(name)))

    def do_link(self, name, to):
        self.attempt(self.path(to), "link", lambda: os.link(self.path(name), self.path(to)))

    def do_symlink(self, name, to):
        self.attempt(self.path(to), "link", lambda: os.symlink(name, self.path(to)))

    def do_truncate(self, name, n):
        self.attempt(self.path(name), "truncate", lambda: os.truncate(self.path(name), n))

    def do_listdir(self, name):
        path = self.path(name)
        try:
            entries = os.listdir(path)
        except OSError:
            self.recorder.note(path, "open", failed=True)
            return
        self.recorder.note(path, "open")
        self.recorder.note(path, "readdir", count=len(entries) + 3)  # ".", "..", and the call that finds the end
        self.recorder.note(path, "close")

    # --- processes and threads
    def do_fork(self, plan):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            recorder = Recorder()
            Player(self.directory, recorder, list(self.open_files)).play(plan)
            text = json.dumps(recorder.as_dict()).encode()
            while text:
                text = text[os.write(writer, text) :]
            os._exit(0)
        os.close(writer)
        parts = []
        while part := os.read(reader, 65536):
            parts.append(part)
        os.close(reader)
        os.waitpid(child, 0)
        self.recorder.merge(json.loads(b"".join(parts)))

    def do_threads(self, plans):
        # Each thread has descriptors of its own, so that which file an index means does not depend on timing.
        threads = [threading.Thread(target=Player(self.directory, self.recorder, []).play, args=(plan,)) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main():
    plan_path, truth_path, directory = sys.argv[1:]
    with open(plan_path) as f:
        plan = json.load(f)
    recorder = Recorder()
    Player(directory, recorder, []).play(plan)
    with open(truth_path, "w") as f:
        json.dump(recorder.as_dict(), f)


main()
