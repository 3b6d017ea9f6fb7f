"""ansible/: its syntax and style, and that all roles set up a machine (a Debian in a folder) and one beside it as the second node of its group, the second time without
a change."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellrock.stack import Missing
from bellrock.stack.artifacts import ELASTICSEARCH, unpacked

ROOT = Path(__file__).resolve().parents[2]
PLAYS = ROOT / "ansible"
BIN = ROOT / "build/ansible/bin"
DIST = ROOT / "build/dist"
UNITS = ("bellrock-agent", "bellrock-ingest", "bellrock-redis", "bellrock-elasticsearch", "bellrock-server")
# Of 10; what runs as root, for whom some rights are the job, is allowed more.
EXPOSURE_MAX = {"bellrock-agent": 5.0}
CONVERGE_S = 1200
SECRETS = (
    "jobdb_password",
    "analyst_password",
    "elasticsearch_admin_password",
    "elasticsearch_server_password",
    "redis_password",
    "scrape_token",
)

pytestmark = [
    pytest.mark.skipif(not (BIN / "ansible-playbook").exists(), reason="build/ansible is missing; `make test-site` makes it"),
    pytest.mark.timeout(3 * CONVERGE_S),
]


def run(*command: object, cwd: Path = PLAYS, timeout_s: float = CONVERGE_S) -> subprocess.CompletedProcess:
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "ANSIBLE_CONFIG": str(PLAYS / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)


def test_the_syntax_and_the_example_inventory() -> None:
    done = run("ansible-playbook", "--syntax-check", "site.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    listed = json.loads(run("ansible-inventory", "--list").stdout)
    assert len(listed["compute_g1"]["hosts"]) == len(listed["compute_g2"]["hosts"]) == 64


def test_the_style() -> None:
    done = run("ansible-lint", "--offline", "site.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def machines(tmp_path_factory) -> Iterator[dict[str, Path]]:
    """Debians in folders, by their names in the inventory."""
    if os.geteuid() != 0:
        pytest.skip("a machine is set up in a folder by root only")
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is missing: apt-get install debootstrap")
    tarball = Path(os.environ.get("BELLROCK_CACHE") or "/var/cache/bellrock") / "debian-bookworm.tar.gz"
    made = run(ROOT / "scripts/debian_root.sh", tarball)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    folders = {name: tmp_path_factory.mktemp("machine") / "root" for name in ("site", "second")}
    for folder in folders.values():
        folder.mkdir()
        subprocess.run(["tar", "-C", folder, "-xzf", tarball], check=True)
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    yield folders
    for folder in folders.values():
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def inventory(machines: dict[str, Path], tmp_path_factory) -> Path:
    """One machine in every group but that of second nodes, in which is the other."""
    folder = tmp_path_factory.mktemp("inventory")
    try:
        home = unpacked(ELASTICSEARCH)
    except Missing as missing:
        pytest.skip(str(missing))
    elasticsearch = folder / "elasticsearch.tar"
    subprocess.run(["tar", "-C", home.parent, "-cf", elasticsearch, home.name], check=True)
    settings = {f"common_{name}": f"secret-of-the-test-{number}" for number, name in enumerate(SECRETS)} | {
        "common_elasticsearch_ingest_passwords": {"g1": "secret-of-the-test-of-g1"},
        "ansible_connection": "community.general.chroot",
        "ansible_python_interpreter": "/usr/bin/python3",
        "common_running": False,
        "common_ca_dir": str(folder / "ca"),
        "common_archive": str(next(DIST.glob("bellrock-[0-9]*.tar.gz"))),
        "agent_archive": str(next(DIST.glob("bellrock-agent-*.tar.gz"))),
        "agent_group": "g1",
        "logserver_group": "g1",
        "logserver_elasticsearch_archive": str(elasticsearch),
        "logserver_elasticsearch_sha256": hashlib.sha256(elasticsearch.read_bytes()).hexdigest(),
        "logserver_java_home": "/opt/java",
        "server_cache_url": "redis://127.0.0.1:6379/1",
        "server_cache_password": "secret-of-the-test-cache",
    }
    hosts = {name: {"ansible_host": str(folder)} for name, folder in machines.items()}
    groups = {name: {"hosts": {"site": hosts["site"]}} for name in ("compute", "logservers", "jobdb", "server", "monitoring")}
    groups["copies"] = {"hosts": {"second": hosts["second"]}}
    path = folder / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": settings, "children": groups}}))
    return path


def converge(inventory: Path, machines: dict[str, Path], *options: str) -> subprocess.CompletedProcess:
    """With what a machine has mounted, in a mount namespace of its own, so that nothing stays mounted."""
    mounts = " && ".join(f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && mount -t sysfs sys {root}/sys" for root in machines.values())
    return run(
        "unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts} && exec "$@"', "sh", "ansible-playbook", "-i", inventory, "site.yml", *options
    )


def test_a_placeholder_for_a_secret_is_refused(inventory: Path, machines: dict[str, Path]) -> None:
    done = converge(inventory, machines, "--tags", "never", "--extra-vars", "common_redis_password=CHANGE-ME")
    assert done.returncode != 0 and "common_redis_password is a placeholder" in done.stdout


def changed(told: str) -> list[str]:
    """The tasks that changed something, from what ansible-playbook told."""
    task, found = "", []
    for line in told.splitlines():
        if line.startswith(("TASK", "RUNNING HANDLER")):
            task = line.rstrip(" *")
        elif line.startswith("changed:") and task not in found:
            found.append(task)
    return found


def test_all_roles_set_up_a_machine_and_then_change_nothing(inventory: Path, machines: dict[str, Path]) -> None:
    first = converge(inventory, machines)
    assert first.returncode == 0, first.stdout[-4000:] + first.stderr[-2000:]
    second = converge(inventory, machines)
    assert second.returncode == 0, second.stdout[-4000:] + second.stderr[-2000:]
    assert changed(second.stdout) == []
    machine = machines["site"]
    for unit in UNITS:
        assert (machine / f"etc/systemd/system/multi-user.target.wants/{unit}.service").is_symlink()
        checked = subprocess.run(["systemd-analyze", "verify", f"--root={machine}", f"{unit}.service"], capture_output=True, text=True, check=False)
        assert checked.returncode == 0 and f"{unit}.service:" not in checked.stderr, checked.stderr
        told = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", f"--root={machine}", "--no-pager", f"{unit}.service"], capture_output=True, text=True, check=False
        )
        exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", told.stdout)
        assert exposure and float(exposure[1]) <= EXPOSURE_MAX.get(unit, 3.0), told.stdout
    analyst = f"secret-of-the-test-{SECRETS.index('analyst_password')}\n"
    # By the first the account is made at the job database, by the second `bellrock sql` asks it.
    for name in ("setup.toml", "server.toml"):
        jobdb = tomllib.loads((machine / "etc/bellrock" / name).read_text())["jobdb"]
        assert (machine / jobdb["analyst_password_file"].removeprefix("/")).read_text() == analyst
    # No secret where others may read it.
    secrets = [path for root in machines.values() for path in (root / "etc").rglob("*") if path.is_file() and not path.is_symlink() and b"secret-of-the-test" in path.read_bytes()]
    assert secrets and all(not path.stat().st_mode & 0o007 for path in secrets), secrets
    check_second(machines)


def check_second(machines: dict[str, Path]) -> None:
    """The second node of the group is Elasticsearch alone, and the log server asks both."""
    etc = machines["second"] / "etc"
    told = (etc / "elasticsearch/elasticsearch.yml").read_text()
    assert "node.name: second" in told and "node.attr.group: g1" in told and 'discovery.seed_hosts: ["site", "second"]' in told
    assert [path.name for path in (etc / "systemd/system").glob("bellrock-*")] == ["bellrock-elasticsearch.service"]
    assert (etc / "systemd/system/multi-user.target.wants/bellrock-elasticsearch.service").is_symlink() and not (etc / "bellrock").exists()
    urls = {name: tomllib.loads((machines["site"] / f"etc/bellrock/{name}.toml").read_text())["elasticsearch"]["urls"] for name in ("ingest", "server")}
    assert urls == {"ingest": ["https://localhost:9200", "https://second:9200"], "server": ["https://site:9200", "https://second:9200"]}
