"""What ansible/ finds in an inventory before anything is installed. Facts are those of this machine; nothing is changed."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.site.test_ansible import BIN, SECRETS, run

pytestmark = pytest.mark.skipif(not (BIN / "ansible-playbook").exists(), reason="build/ansible is missing; `make test-site` makes it")
GROUPS = [f"g{number}" for number in range(84)]


def preflight(folder: Path, limit: str, copies: dict[str, str] | None = None, **settings: object) -> subprocess.CompletedProcess:
    """Of a site with 84 groups, a log server and a node each; copies: host → its group. Runs on one machine of it, which sees all."""
    common = {f"common_{name}": f"a-secret-of-the-test-{number}" for number, name in enumerate(SECRETS)} | {
        "common_elasticsearch_ingest_passwords": {group: f"a-secret-of-the-test-of-{group}" for group in GROUPS},
        "common_running": False,
        "common_memory_mib_min": 1,
        "common_elasticsearch_heap_mib": 1,
        # Looked for by the roles later, and never read here.
        **dict.fromkeys(("common_archive", "agent_archive", "logserver_elasticsearch_archive", "logserver_elasticsearch_sha256"), "none"),
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": str(BIN / "python"),
    }
    hosts = {
        "logservers": {"hosts": {f"log-{group}": {"logserver_group": group} for group in GROUPS}},
        "copies": {"hosts": {host: {"logserver_group": group} for host, group in (copies or {}).items()}},
        "compute": {"children": {f"compute_{group}": {"hosts": {f"node-{group}": {"agent_group": group}}} for group in GROUPS}},
    }
    path = folder / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": common | settings, "children": hosts}}))
    return run("ansible-playbook", "-i", path, "site.yml", "--tags", "never", "--limit", limit)


@pytest.mark.parametrize(
    ("copies", "settings", "words"),
    [
        ({}, {"common_period": "month"}, ""),
        ({}, {"common_period": "day", "common_shards_per_node": 900}, "84 groups with indices of a day make up to 80,136 shards; 84 data nodes take 75,600: too many"),
        ({}, {"common_period": "day"}, ""),
        ({"b": "g0", "c": "g1"}, {"common_period": "day", "common_shards_per_node": 900}, "84 groups, 2 of them on two nodes, with indices of a day make up to 82,044 shards"),
        ({"b": "other"}, {}, "and each second node, which is a machine of its own"),
        ({"log-g0": "g0"}, {}, "and each second node, which is a machine of its own"),
    ],
)
def test_the_shards_are_reckoned_from_the_inventory_alone(tmp_path, copies, settings, words):
    done = preflight(tmp_path, "log-g0", copies, **settings)
    assert (done.returncode == 0) == (not words) and words in done.stdout, done.stdout + done.stderr


def test_a_node_in_a_group_of_its_own_needs_no_more_than_an_agent(tmp_path):
    bound = {"common_memory_mib_min": 10**9}
    assert preflight(tmp_path, "node-g0", **bound).returncode == 0
    refused = preflight(tmp_path, "log-g0", **bound)
    assert refused.returncode != 0 and "its roles need" in refused.stdout
