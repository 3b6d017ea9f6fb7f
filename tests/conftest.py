"""What all tests share: a mark for each layer, free ports, a state of their own, and where the built things lie."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import (  # noqa: F401  fixtures for all layers
    elasticsearch_secured,
    elasticsearch_server,
    mariadb_server,
    mysql_server,
    redis_server,
    server_folder,
    server_tls,
    servers_dir,
)

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("unit", "integration", "e2e", "site")
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
KEPT = ("BELLROCK_CHROMIUM", "BELLROCK_BUILD")  # where things lie on this machine, not how they behave


def pytest_configure(config: pytest.Config) -> None:
    for layer in LAYERS:
        config.addinivalue_line("markers", f"{layer}: a test of this layer (set by its folder)")
    config.addinivalue_line("markers", "long: an integration test that `make test-site` runs, and `make test` has no time for")
    # How long a machine takes over an example says how busy it is, and nothing of us.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")
    # Started in a shell's background, SIGINT is ignored, and would be by every program that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(ROOT).parts
        if len(path) > 1 and path[1] in LAYERS:
            item.add_marker(path[1])


@dataclass(frozen=True)
class State:
    """Folders of one test, and the environment that makes every Bellrock process use them."""

    state_dir: Path
    rings_dir: Path
    env: dict[str, str]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    """BELLROCK_STATE and BELLROCK_RINGS in folders of this test only, set in this process and given as `env` for others.
    Other BELLROCK_… settings of the caller are taken away. The rings lie on tmpfs where there is one, as in real use."""
    for name in [name for name in os.environ if name.startswith("BELLROCK_") and name not in KEPT]:
        monkeypatch.delenv(name)
    shm = Path("/dev/shm")
    parent = shm if shm.is_dir() and os.access(shm, os.W_OK) else tmp_path
    rings_dir = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir=parent))
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    monkeypatch.setenv("BELLROCK_STATE", str(state_dir))
    monkeypatch.setenv("BELLROCK_RINGS", str(rings_dir))
    try:
        yield State(state_dir, rings_dir, dict(os.environ))
    finally:
        shutil.rmtree(rings_dir)


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """A function that gives a TCP port on loopback that was free a moment ago and was not given before."""
    given: set[int] = set()

    def port() -> int:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                number = probe.getsockname()[1]
            if number not in given:
                given.add(number)
                return number

    return port


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The folder with bellrock-agent, libbellrock.so and the demo programs. Fails where `make build` has not run."""
    folder = ROOT / "build"
    if not (folder / "bellrock-agent").exists():
        pytest.fail(f"{folder}/bellrock-agent is missing. Run: make build")
    return folder


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of an installed Chromium or Chrome ($BELLROCK_CHROMIUM first); skips where there is none."""
    for name in (os.environ.get("BELLROCK_CHROMIUM"), *BROWSERS):
        path = shutil.which(name) if name else None
        if path:
            return path
    pytest.skip("no Chromium on this machine. Run: apt-get install chromium, or set BELLROCK_CHROMIUM to its path")
