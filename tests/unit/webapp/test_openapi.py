"""openapi.yaml against the app: every route described, every description real, every answer valid."""

import json
import re
import time
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator

from jobdb.findings import Annotation, Found
from jobdb.passwords import hash_password
from jobdb.listing import SORTS
from jobdb.tables import FILE_SORTS, NODE_SORTS, PROCESS_SORTS
from jobdb.topology.site import load
from pipeline.store import Letters
from pipeline.store.mark import Gap, Mark
from tests.unit.jobdb.tables import T0, row
from tests.unit.pipeline.events import message_event
from tests.unit.webapp.fakes import S, Site, event
from webapp.api.components import SORTS as COMPONENT_SORTS
from webapp.api.system import description

PATHS = description()["paths"]
GETS = [path for path in PATHS if "get" in PATHS[path] and "application/json" in PATHS[path]["get"]["responses"]["200"]["content"]]

TOPOLOGY = """
[[file_system]]
name = "work"
kind = "nfs"
mounts = "/"
[[class]]
name = "compute"
nodes = "n[1-2]"
[[forwarding]]
file_system = "work"
nodes = "n[1-2]"
forwarders = "n1"
"""


@pytest.fixture(scope="module")
def hashed():
    """Costly on purpose."""
    return hash_password("correct horse battery")


@pytest.fixture
def site(tmp_path, hashed):
    made = Site(tmp_path)
    made.jobdb.accounts.add("ada", hashed, "user", 1000)
    made.finished_job()
    made.jobdb.apply_event(event(job="running"))
    made.jobdb.apply_event(event(job="empty"))
    made.jobdb.apply_event(event("end", job="empty", exit_code=2))
    for job, more in (("unseen", []), ("of-nodes", [row("read", T0, T0 + S, bytes=5, node="n9", process="node", uid=None, flags=64)])):
        made.jobdb.apply_event(event(job=job, node="n9" if more else "n1"))
        made.store.add(job, row("unseen", program="solver", flags=128))
        made.store.add(None, *more)
    gap = Gap(2, 3, 2, 0, 7)
    made.store.marks = [(("n1", 255), Mark(5, (gap,), first_ns=6, last_ns=7, clock_offset_ns=-5, conflicts=1)), (("n2", 1), Mark(1, last_ns=5))]
    made.store.dead_letters = [Letters("n1", 255, "op", 3, 5, 7, 4, "op: bad", "{}"), Letters(None, None, "no JSON", 1, 5, 7, None, "no JSON: cut", "")]
    made.store.sample_rows = [{"node": "n1", "component": "agent", "start": 0, "end": 1, "values": {"lost": 2, "folded": 3}}]
    values = {"queue_length": 2, "read_wait_to_100": 3, "read_wait_to_inf": 1, "strange": 5}
    disk = {"node": "n1", "component": "block_device", "instance": "sda", "values": {"read_bytes": 9, "in_flight": 2}}
    server = {"node": "n1", "component": "lwfs_server", "instance": "/log/a b", "values": values}
    now_ns = time.time_ns()
    made.store.sample_rows += [one | {"start": now_ns - 9 * S, "end": now_ns - 8 * S} for one in (disk, server)] + [disk | {"start": 0, "end": 5}]
    nfs = {"node": "n1", "component": "nfs_server", "instance": "n1", "values": {"read_bytes": 9, "v4_read": 2}}
    made.store.sample_rows += [nfs | {"start": T0, "end": T0 + S}]
    made.store.message_rows = [message_event(1, node="n1", start=now_ns - S, end=now_ns, event=name) for name in ("io_error", None)]
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.toml").write_text(TOPOLOGY)
    made.jobdb.topology.apply(load(folder), T0 - S, "root")
    about = Found("metadata-storm", "7", "warning", T0, T0 + S, "many small files", {"mdops": 400.0, "job": "7"}, jobs=(("7", "subject"),))
    made.jobdb.findings.record([about])
    made.jobdb.findings.annotate([Annotation("maintenance", T0, None, "all day", author="root")])
    made.jobdb.findings.change(1, "root", verdict="confirmed", comment="so it is")
    made.store.high_water = [{"node": "n1", "boot": "0" * 16, "seq": 5, "missing": 0, "last_append_ns": 7}]
    yield made
    made.close()


def validate(schema, value):
    """References in the schema are those of the whole description."""
    Draft202012Validator({**schema, "components": description()["components"]}).validate(value)


def response_schema(path, status):
    responses = PATHS[path]["get"]["responses"]
    found = responses.get(str(status), responses["default"])
    if "$ref" in found:
        found = description()["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
    return found["content"]["application/json"]["schema"]


def asked(path):
    """Where a path is asked: with the parameters that it cannot do without."""
    needed = {given["name"]: given["example"] for given in parameters(path) if given["in"] == "query" and given.get("required")}
    return path.replace("{node}", "n1").replace("{finding_id}", "1") + (f"?{urlencode(needed)}" if needed else "")


def parameters(path):
    for given in [*PATHS[path].get("parameters", []), *PATHS[path]["get"].get("parameters", [])]:
        yield description()["components"]["parameters"][given["$ref"].rsplit("/", 1)[1]] if "$ref" in given else given


def test_routes_are_the_ones_described(site):
    served = {}
    for rule in site.app.url_map.iter_rules():
        if rule.endpoint != "pages.page":
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
            served.setdefault(path, set()).update(method.lower() for method in rule.methods - {"HEAD", "OPTIONS"})
    assert served == {path: set(described) - {"parameters"} for path, described in PATHS.items()}


@pytest.mark.parametrize("path", GETS)
def test_real_answers_are_valid(site, path):
    headers = {}
    if path == "/api/v1/tokens":
        headers = {"Authorization": f"Bearer {site.jobdb.accounts.add_token('ada', 'laptop', 1)[0]}"}
    for job in ("7", "running", "empty", "unseen", "of-nodes") if "{job_id}" in path else ("",):
        # A job that did nothing used no file system.
        status = 404 if path.endswith("/layers/series") and job in ("running", "empty", "unseen") else 200
        validate(response_schema(path, status), site.get(asked(path).replace("{job_id}", job), status, headers=headers))
    validate(response_schema(path, 400), site.get(path.replace("{job_id}", "7").replace("{finding_id}", "1") + "?nope=1", status=400) if path != "/healthz" else site.get("/api/x", status=404))


def test_what_changes_something_answers_as_described(site):
    def call(method, path, status, key=None, **options):
        response = site.client.open(path, method=method.upper(), headers={"X-Bellrock": "1"}, **options)
        assert response.status_code == status, response.text
        described = PATHS[key or path][method]["responses"][str(status)]
        if status != 204:
            validate(described["content"]["application/json"]["schema"], response.get_json())
        return response

    body = {"name": "ada", "password": "correct horse battery"}
    validate(PATHS["/api/v1/session"]["post"]["requestBody"]["content"]["application/json"]["schema"], body)
    call("post", "/api/v1/session", 200, json=body)
    made = call("post", "/api/v1/tokens", 201, json={"label": "laptop"}).get_json()
    call("delete", f"/api/v1/tokens/{made['id']}", 204, "/api/v1/tokens/{token_id}")
    call("delete", "/api/v1/session", 204)


def test_a_component_with_values_of_every_kind_is_valid(site):
    answer = site.get("/api/v1/components/series?node=n1&component=lwfs_server&instance=/log/a b")
    validate(response_schema("/api/v1/components/series", 200), answer)
    assert [value["kind"] for value in answer["values"]] == ["histogram", "gauge", "unknown"]


@pytest.mark.parametrize("path", GETS)
def test_examples_are_valid(path):
    for status, response in PATHS[path]["get"]["responses"].items():
        if status != "default" and "example" in response["content"]["application/json"]:
            validate(response_schema(path, status), response["content"]["application/json"]["example"])
    validate(response_schema(path, "default"), description()["components"]["responses"]["Error"]["content"]["application/json"]["example"])


def test_a_deep_audit_is_valid_in_each_line(site):
    response = site.client.get("/api/v1/audit?deep=1&since_ns=6")
    assert (response.status_code, response.mimetype) == (200, "application/x-ndjson")
    lines = [json.loads(line) for line in response.text.splitlines()]
    for line in lines:
        validate(PATHS["/api/v1/audit"]["get"]["responses"]["200"]["content"][response.mimetype]["schema"], line)
    assert [list(line) for line in lines] == [["progress"]] * 3 + [["report"]]
    answer = lines[-1]["report"]
    assert answer["proof"]["boots"] == 2 == answer["boots_total"] and not answer["clean"]
    assert site.get("/api/v1/audit?node=no-such", status=404)["error"]["code"] == "no_node"
    assert site.get("/api/v1/audit?node=no-such&deep=1", status=404)["error"]["code"] == "no_node"


def test_a_wrong_answer_is_not_valid(site):
    """The validation itself works."""
    answer = site.get("/api/v1/jobs/7")
    answer["profile"]["extra"] = 1
    assert not Draft202012Validator({**response_schema("/api/v1/jobs/{job_id}", 200), "components": description()["components"]}).is_valid(answer)
    files = site.get("/api/v1/jobs/7/files")
    del files["files"][0]["read_bytes"]
    assert not Draft202012Validator({**response_schema("/api/v1/jobs/{job_id}/files", 200), "components": description()["components"]}).is_valid(files)


@pytest.mark.parametrize("path", GETS)
def test_described_parameters_are_taken(site, path):
    values = {"job_id": "7", "search": "x", "state": "running", "cursor": "", "node": "n1", "component": "nfs_server", "instance": "n1", "process": "n1:1.1", "from_ns": "1", "to_ns": "2000000000000000000", "step_s": "864000", "rank": "0", "op": "read", "layer": "compute"}
    for given in parameters(path):
        if given["in"] == "query":
            value = given.get("example") if "enum" in given["schema"] and "example" in given else values.get(given["name"], given["schema"].get("default"))
            address = asked(path).replace("{job_id}", "7")
            site.get(f"{address}{'&' if '?' in address else '?'}{given['name']}={value}" if not given.get("required") else address)


@pytest.mark.parametrize(
    ("path", "sorts"),
    [("components", COMPONENT_SORTS), ("jobs", SORTS), ("jobs/{job_id}/files", FILE_SORTS), ("jobs/{job_id}/processes", PROCESS_SORTS), ("jobs/{job_id}/nodes", NODE_SORTS)],
)
def test_sorts_are_the_ones_described(site, path, sorts):
    (described,) = (given["schema"]["pattern"] for given in parameters(f"/api/v1/{path}") if given["name"] == "sort")
    assert set(re.search(r"\((.*)\)", described)[1].split("|")) == set(sorts)
    for sort in sorts:
        for sign in ("", "-"):
            site.get(f"/api/v1/{path.replace('{job_id}', '7')}?sort={sign}{sort}")
