"""Elasticsearch with TLS and users: the roles of docs/elasticsearch.md are enough, and no more than that is needed to be told what is wrong."""

import json
import re
import time
from pathlib import Path

import pytest
import yaml

from bellrock.stack.elasticsearch import Elasticsearch, Security, User
from pipeline.archive.elastic import ElasticArchive
from pipeline.retention import Keeper
from pipeline.store import Appended, StoreError
from pipeline.store.elastic.client import Settings
from pipeline.store.elastic.roles import roles as roles_of
from pipeline.store.elastic.roles import writer as role_of
from pipeline.store.elastic.store import ElasticsearchStore
from pipeline.store.summaries import HOURS, MINUTES
from pipeline.summarise import Summariser
from tests.integration.pipeline.test_archive import SUBJECT, everything, packed, put, table
from tests.servers import started
from tests.unit.pipeline.events import T0, job_event, message_event, run_event, sample_event

pytestmark = pytest.mark.long  # a node of its own takes 15 s and more to start
ANALYST = Path(__file__).resolve().parents[3] / "docs/analyst.md"
DOCS = Path(__file__).resolve().parents[3] / "docs/elasticsearch.md"


@pytest.fixture
def node(server_folder, server_tls):
    roles = {name: role for block in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.S) for name, role in yaml.safe_load(block).items()}
    users = {"writer": User("write-it", ("bellrock_writer",)), "reader": User("read-it", ("bellrock_reader",))}
    # As it was before there were messages.
    older = json.loads(json.dumps(roles_of(["g1"])[role_of("g1")]))
    older["indices"][1]["names"].remove("bellrock-message-log")
    roles, users = roles | {"older_writer": older}, users | {"older": User("write-old", ("older_writer",))}
    users |= {"analyst": User("ask-it", ("bellrock_analyst",))}
    users |= {"keeper": User("keep-it", ("bellrock_reader", "bellrock_retention")), "summariser": User("sum-it-up", ("bellrock_reader", "bellrock_summaries"))}
    users |= {"packer": User("pack-it", ("bellrock_reader", "bellrock_archive"))}
    made = started(Elasticsearch(server_folder(), name="g1", group="g1", security=Security(server_tls, "admin-it", users, roles)))
    yield made
    made.stop()


def test_the_documented_roles_are_enough(node, server_tls, tmp_path, caplog):
    """One test: a start takes 15 s and more."""
    passwords = {"writer": "write-it", "reader": "read-it", "keeper": "keep-it", "summariser": "sum-it-up", "packer": "pack-it", "analyst": "ask-it", "older": "write-old", "wrong": "read-it2"}
    for user, password in passwords.items():
        (tmp_path / user).write_text(f"{password}\n")
        (tmp_path / user).chmod(0o600)

    def open_as(user, password="", ca=str(server_tls.ca), group=None):
        return ElasticsearchStore(Settings([node.url], user, str(tmp_path / (password or user)), ca), group)

    writer = open_as("writer", group="g1")
    assert writer.append([run_event(1), sample_event(2), job_event(3), run_event(4, op="bad")]) == Appended(runs=1, samples=1, jobs=1, dead_letters=1)
    for store in (writer, open_as("reader")):
        status = store.status()
        assert (status["error"], status["records"], status["groups"][0]["group"]) == (None, {"run": 1, "sample": 1, "job": 1, "message": 0}, "g1")
        assert store.version("local-1") == 1 == store.runs("local-1").num_rows == store.letters()[0].count
        assert len(store.job_events()[0]) == 1 and store.sample_totals("agent", ["cn1"])[0] and len(store.boots()) == 1
        *_, proof = store.proof()
        assert list(proof.boots.values()) == [(2, 2, 2)]
        store.close()
    check_worked_questions(open_as("analyst"))
    check_summaries(open_as("reader"), open_as("summariser"))
    check_archive(*(ElasticArchive(Settings([node.url], user, str(tmp_path / user), str(server_tls.ca)), "g1") for user in ("reader", "packer")))
    check_retention(open_as("reader"), open_as("keeper"))
    check_older_role(open_as("older", group="g1"), caplog)
    for store, what in (
        (open_as("reader", group="g1"), "the user's role lacks a privilege: see roles.yml"),
        (open_as("reader", "wrong", group="g1"), "look at elasticsearch.user and the password"),
        (open_as("writer", ca="", group="g1"), "no TLS connection: .*elasticsearch.ca"),
    ):
        with pytest.raises(StoreError, match=what):
            store.append([run_event(5)])
        store.close()


def check_archive(reader, packer):
    """Who may read finds what who may pack has written, and writes nothing."""
    blocks = packed(table(30))
    with pytest.raises(StoreError, match=r"roles\.yml"):
        put(reader, blocks)
    second = put(packer, blocks, put(packer, blocks))
    assert reader.states([SUBJECT]) == {SUBJECT: second} and everything(reader, second).equals(table(30))
    reader.close()
    packer.close()


def check_older_role(store, caplog):
    """Whose role knows no alias of messages takes them all the same, and says so once."""
    for seq, at in ((5, T0), (6, time.time_ns())):
        assert store.append([message_event(seq, start=at, end=at)]) == Appended(messages=1), "an index each"
    assert store.messages("cn1", 0, 2**62)[1] == 2
    told = [record.message for record in caplog.records if "bellrock-message-log" in record.message]
    assert len(told) == 1 and "see roles.yml in docs/elasticsearch.md; its indices are made all the same" in told[0]
    store.close()


def check_worked_questions(store):
    """Each of docs/analyst.md, with the analyst's role: all find something in what was written."""
    questions = re.findall(r"^### (E\d+)\. .*?`GET (/\S+)`\n\n```json\n(.*?)\n```", ANALYST.read_text(), re.S | re.M)
    assert [name for name, _, _ in questions] == [f"E{n}" for n in range(1, len(questions) + 1)] and len(questions) >= 6
    found = {}
    for name, path, body in questions:
        answer = store.client.ask("POST", path, json.loads(body))
        assert answer["_shards"]["failed"] == 0, name
        found[name] = {which: agg["buckets"] for which, agg in answer["aggregations"].items()}
        assert all(found[name].values()), name
    assert [(bucket["key"], bucket["bytes"]["value"], bucket["calls"]["value"]) for bucket in found["E1"]["op"]] == [("write", 4096, 1)]
    assert found["E3"]["who"][0]["key"] == {"uid": 1000, "job": "local-1"} and found["E3"]["who"][0]["bytes"]["value"] == 4096
    assert [(bucket["written"]["value"], bucket["read"]["value"]) for bucket in found["E5"]["minute"]] == [(4096, 0)]
    assert found["E4"]["job"][0]["failed"]["value"] == 0 and found["E2"]["file"][0]["bytes"]["value"] == 4096
    assert found["E6"]["job"][0]["key"] == "local-1" and found["E8"]["component"][0]["nodes"]["value"] == 1
    assert [(bucket["key"], bucket["doc_count"]) for bucket in found["E9"]["instance"]] == [("cn1", 1)]
    store.close()


def check_summaries(reader, summariser):
    """The reader may not write them, the summariser may; samples that are not summarised do not go."""
    assert summariser.summary_groups() == ["g1"]
    with pytest.raises(StoreError, match="lacks a privilege"):
        Summariser(reader).look()
    assert Keeper(reader, {"samples": 1}).report()["held_ns"] is not None
    Summariser(summariser).look()
    of = "agent", [("cn1", "cn1")], T0 - 3600 * 10**9, T0 + 3600 * 10**9
    assert [sum(row["count"]) for data in (MINUTES, HOURS) for row in reader.summaries(data, *of).to_pylist()] == [1, 1]
    assert Keeper(reader, {"samples": 1}).report()["held_ns"] is None
    for store in (reader, summariser):
        store.close()


def check_retention(reader, keeper):
    """What began before the group's floor goes: the reader may not, the keeper may, and neither removes books."""
    (part,) = [part for part in keeper.expired({"runs": time.time_ns()}) if part.data == "runs"]
    with pytest.raises(StoreError, match="lacks a privilege"):
        reader.drop(part)
    with pytest.raises(StoreError, match="lacks a privilege"):
        keeper.client.ask("DELETE", "/bellrock-books-g1")
    assert keeper.drop(part).records == 1
    *_, proof = keeper.proof()
    assert list(proof.boots.values()) == [(1, 1, 1)]
    for store in (reader, keeper):
        store.close()
