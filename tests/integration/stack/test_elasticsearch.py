"""An Elasticsearch node of the stack: users and roles hold, what was acknowledged survives SIGKILL, and nothing of it is left."""

import base64
import json
import ssl
import urllib.error
import urllib.request

import pytest

from bellrock.stack.elasticsearch import Elasticsearch, Security, User
from bellrock.stack.process import processes
from pipeline.store import StoreError
from pipeline.store.elastic.client import Client, Settings

from tests.servers import started
from tests.wait import until

pytestmark = pytest.mark.long  # each test starts nodes of its own
USERS = {"reader": User("read-it", ("bellrock_reader",))}
ROLES = {"bellrock_reader": {"cluster": ["monitor"], "indices": [{"names": ["bellrock-*"], "privileges": ["read"]}]}}


def make(folder, tls) -> Elasticsearch:
    return Elasticsearch(folder, name="g1", group="g1", security=Security(tls, "admin-it", USERS, ROLES))


def status(node: Elasticsearch, path: str, method: str = "GET", user: str = "") -> int:
    context = ssl.create_default_context(cafile=str(node.security.tls.ca))
    headers = {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}
    request = urllib.request.Request(f"{node.url}/{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.timeout(900)
def test_a_node_lives_through_use_a_kill_and_a_taking_over(server_folder, server_tls):
    """One test: a start takes 15 s and more."""
    node = started(make(server_folder(), server_tls))
    try:
        placed = {"settings": {"number_of_replicas": 0, "index.routing.allocation.require.group": "g1"}}
        assert node.ask("bellrock-test", "PUT", placed, timeout_s=60)["acknowledged"]
        assert node.ask("bellrock-test/_doc/a?refresh=true", "PUT", {"bytes": 7}, timeout_s=60)["result"] == "created"

        assert status(node, "bellrock-test/_search") == 401
        assert status(node, "bellrock-test/_search", user="reader:wrong") == 401
        assert status(node, "bellrock-test/_search", user="reader:read-it") == 200
        assert status(node, "bellrock-test", "DELETE", user="reader:read-it") == 403
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{node.port}/_cluster/health", timeout=60)

        again = make(node.folder, server_tls)
        again.start()
        assert again.pid == node.pid, json.dumps(again._record())

        port, mark = node.port, node._record()["mark"]
        again.kill()
        assert not list(processes(mark)) and not node.running
        node.start()
        assert node.port == port
        node.ask("_cluster/health/bellrock-test?wait_for_status=green&timeout=60s", timeout_s=90)
        assert node.ask("bellrock-test/_doc/a", timeout_s=60)["_source"] == {"bytes": 7}
    finally:
        mark = node._record()["mark"]
        node.stop()
    assert not list(processes(mark))


def test_one_that_cannot_start_says_why(server_folder):
    node = Elasticsearch(server_folder(), heap_mib=1)
    with pytest.raises(Exception, match="(?s)ended as it was starting.*[Tt]oo small"):
        started(node)
    assert not node.running


class Waiting(Elasticsearch):
    """Has a master and waits for a second node before it reads its state."""

    def _yml(self) -> str:
        return super()._yml() + "gateway.recover_after_data_nodes: 2\n"


def test_one_that_has_not_read_its_state_is_not_ready_and_is_told_as_no_fault_of_an_index(server_folder):
    node = Waiting(server_folder())
    try:
        started(node, wait=False)
        until(lambda: answer(node, "_cluster/health").get("number_of_nodes"), "a master", 300)
        assert answer(node, "_cluster/state/blocks")["blocks"]["global"]
        assert not node.answers()
        client = Client(Settings([node.url]))
        with pytest.raises(StoreError, match="state not recovered.*a node may be down") as refused:
            client.ask("GET", "/_cat/nodeattrs?format=json")
        assert "read_only" not in str(refused.value)
        client.close()
    finally:
        node.stop()


def answer(node: Elasticsearch, path: str) -> dict:
    try:
        return node.ask(path)
    except OSError:
        return {}
