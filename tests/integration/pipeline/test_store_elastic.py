"""What can befall the store on Elasticsearch: hostile records, refused documents, indices that take nothing, documents that others wrote."""

import time

import orjson
import pytest

from pipeline.schema import day_of
from pipeline.store import Appended, StoreError, Window
from pipeline.store.elastic import names
from pipeline.store.elastic.client import Settings, in_path
from pipeline.store.elastic.store import ElasticsearchStore
from pipeline.store.elastic.templates import LAYERS
from pipeline.store.mark import Gap
from tests.unit.pipeline.events import T0, job_event, message_event, run_event, sample_event

NOW = 1_790_000_000 * 10**9


@pytest.fixture
def store(elastic):
    made = ElasticsearchStore(elastic, "g1")
    yield made
    made.close()


def proven(store) -> dict:
    *_, proof = store.proof()
    return proof


def indices(store) -> list[str]:
    return sorted(row["index"] for row in store.client.ask("GET", "/_cat/indices/bellrock-*?format=json&h=index"))


def ask(store, job="local-1") -> list[dict]:
    return sorted(store.runs(job).to_pylist(), key=lambda row: (row["node"], row["seq"]))


def test_what_the_sender_wrote_is_the_document(store):
    """Spaces, the order of keys and numbers stay; unknown keys go, and short ids get all their digits."""
    events = [run_event(1), run_event(2, extra="x" * 100), run_event(3, boot="DEADBEEF"), run_event(4) | {"file": "/\U0001f600\x00"}]
    raw = [orjson.dumps(event, option=orjson.OPT_INDENT_2 if n == 3 else 0) for n, event in enumerate(events)]
    raw[0] = raw[0].replace(b'"bytes":4096', b'"bytes" : 4096')
    assert store.take(raw) == Appended(runs=4)
    assert [row["seq"] for row in ask(store)] == [1, 2, 3, 4] and {row["boot"] for row in ask(store)} == {0xDEADBEEF}
    assert ask(store)[3]["file"] == "/\U0001f600\x00"
    sources = [hit["_source"] for page in store._reader.hits("bellrock-run-*", {"match_all": {}}) for hit in page]
    assert {tuple(sorted(source)) for source in sources} == {tuple(sorted((*run_event(1), "commit")))}
    assert {source["boot"] for source in sources} == {"00000000deadbeef"}


def test_a_key_that_comes_twice_is_put_in_our_words(store):
    raw = orjson.dumps(run_event(1)).replace(b'"bytes":4096', b'"bytes":1,"bytes":4096')
    assert store.take([raw, orjson.dumps(run_event(2))]) == Appended(runs=2)
    assert [row["bytes"] for row in ask(store)] == [4096, 4096]


def test_odd_names_of_nodes_and_jobs_are_ids_of_their_own(store):
    nodes = ["a/b", "../_all", "cn1/00000000deadbeef/1", "\x00", '"}}\n{"delete":{}}', "\U0001f600" * 255, "x" * 255, " ", "~", "名"]
    events = [run_event(1, node=node, job="j" * 8000) for node in nodes]
    raw = [orjson.dumps(event) for event in events]
    assert store.take(raw) == Appended(runs=len(nodes))
    assert store.take(raw) == Appended(duplicates=len(nodes))
    assert sorted(row["node"] for row in ask(store, "j" * 8000)) == sorted(nodes) == store.nodes("j" * 8000, 1000)
    assert proven(store).boots == {(node, 0xDEADBEEF): (1, 1, 1) for node in nodes}


def test_numbers_of_64_bits_come_back_bit_for_bit(store):
    extremes = {"handle": -(2**63), "offset": 2**63 - 1, "stride": -(2**63), "size": 2**63 - 1, "count": 2**63 - 1, "bytes": 2**53 + 1, "file_id": "f" * 16}
    event = run_event(2**32, boot="f" * 16, busy_ns=2**63 - 1, uid=2**32 - 1, parent=2**32 - 1, rank=-(2**31), flags=65535, errno=65535, **extremes)
    assert store.take([orjson.dumps(event)]) == Appended(runs=1, missing=2**32 - 1)
    (row,) = ask(store)
    assert row | {"kind": "run"} == event | {"boot": 2**64 - 1, "file_id": 2**64 - 1}
    assert store.boots()[0][1].gaps == (Gap(1, 2**32 - 1, 2**32 - 1, 0, store.boots()[0][1].last_ns),)


def test_dates_make_few_indices(store):
    year = 365 * 24 * 3600 * 10**9
    events = [run_event(n, start=NOW - n * year // 50, end=NOW - n * year // 50) for n in range(1, 200)]
    store.append(events)
    found = [name for name in indices(store) if "-run-" in name]
    assert "bellrock-run-compute-g1-before" in found and len(found) <= 3
    assert store.version("local-1") == 199 and proven(store).days == {
        day: sum(day_of(event["start"]) == day for event in events) for day in {day_of(event["start"]) for event in events}
    }


def test_a_document_that_is_refused_is_a_dead_letter_and_the_rest_goes_on(store):
    """Somebody has made an index of another layout, in which the field `program` is a number."""
    store.append([sample_event(1)])
    mapping = {"mappings": {"dynamic": False, "properties": {"program": {"type": "long"}, "commit": {"type": "long"}, "job": {"type": "keyword"}}}}
    store.client.ask("PUT", "/bellrock-run-compute-g1-before", mapping | {"settings": {"number_of_replicas": 0}})
    events = [run_event(2), run_event(3, program="7"), job_event(4), run_event(5)]
    appended = store.take([orjson.dumps(event) for event in events])
    assert appended == Appended(runs=1, jobs=1, dead_letters=2) and appended.refused == {0, 3}
    (letters,) = store.letters(raw=True)
    assert (letters.cause, letters.count) == ("elasticsearch", 2) and "program" in letters.reason and '"program":"ior"' in letters.raw
    mark = store.boots()[0][1]
    assert (mark.seq, mark.rows, mark.letters, mark.jobs, mark.missing) == (5, 2, 2, 1, 0)
    assert store.append(events) == Appended(duplicates=4) and store.status()["dead_letters"] == 2


def test_an_index_that_is_read_only_holds_records_back_and_is_told(store):
    store.append([run_event(1)])
    for seq, name in enumerate(("read_only_allow_delete", "write"), 2):
        store.client.ask("PUT", "/bellrock-run-*/_settings", {f"index.blocks.{name}": True})
        with pytest.raises(StoreError, match="an index takes nothing .*read_only_allow_delete null"):
            store.append([run_event(seq)])
        # Elasticsearch lifts the first one by itself, every 30 s, where its disk has room.
        store.client.ask("PUT", "/bellrock-run-*/_settings", {f"index.blocks.{name}": True})
        status = store.status()
        assert "takes nothing" in status["error"] and status["groups"][0]["blocked"] == ["bellrock-run-compute-g1-before"]
        store.client.ask("PUT", "/bellrock-run-*/_settings", {f"index.blocks.{name}": None})
        assert store.append([run_event(seq)]) == Appended(runs=1) and store.version("local-1") == seq
    assert store.status()["error"] is None


def test_nobody_there_is_an_error_that_says_where_and_reading_goes_on_later(elastic):
    store = ElasticsearchStore(Settings(["http://127.0.0.1:9"]), "g1")
    for use in (lambda: store.append([run_event(1)]), lambda: store.version("j")):
        with pytest.raises(StoreError, match="http://127.0.0.1:9 cannot be reached: .*elasticsearch.urls"):
            use()
    assert "cannot be reached" in store.status()["error"] and store.status()["records"] == {"run": 0, "sample": 0, "job": 0, "message": 0}
    store.close()


def test_a_group_without_a_node_is_told_and_writes_nothing(elastic, store):
    other = ElasticsearchStore(Settings(elastic.urls, timeout_s=90), "nowhere")
    store.append([run_event(1)])
    with pytest.raises(StoreError, match="one must have `node.attr.group: nowhere`"):
        other.append([run_event(1)])
    assert store.append([run_event(2)]) == Appended(runs=1)
    other.close()


def test_what_others_wrote_without_commits_is_found_and_its_gaps_are_counted(store):
    """Logstash writes the records as they are, adds fields, and knows no books."""
    store.append([run_event(1, node="own")])
    lines = []
    for event in [run_event(n) for n in (1, 2, 5, 6)] + [sample_event(7, values={"lost": 2}), job_event(9)]:
        kind, layer = event["kind"], {"run": "compute", "sample": "agent", "job": "job"}[event["kind"]]
        action = {"index": {"_index": f"bellrock-{kind}-{layer}-g1-2023.11", "_id": names.record_id("cn1", 0xDEADBEEF, event["seq"])}}
        lines += [action, event | {"@timestamp": "2026-09-21T10:00:00Z", "@version": "1", "tags": ["beats"], "host": {"name": "cn1"}}]
    body = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    for _ in range(2):  # again: it overwrites itself
        assert not store.client.ask("POST", "/_bulk?refresh=true", body)["errors"]
    mark = dict(store.boots())["cn1", 0xDEADBEEF]
    assert (mark.seq, mark.missing, mark.jobs, mark.rows) == (9, 3, 1, 5) == (9, store.missing(["cn1"], 0, 2**62)["cn1"], 1, 5)
    assert store.status()["missing"] == 3 and proven(store).boots["cn1", 0xDEADBEEF] == (5, 5, 5)
    assert store.version("local-1") == 5 == len(ask(store))
    assert store.sample_sums("agent", ["lost"], ["cn1"], T0, 2**62) == {("cn1", 0xDEADBEEF): {"lost": 2}}
    events, place = store.job_events()
    assert [event["seq"] for event in events] == [9] and "@timestamp" not in events[0]
    assert store.job_events(place)[0] == [], "it came long ago"


def test_job_events_are_followed_by_commits(store):
    for first in (1, 11, 21):
        store.append([job_event(n, time=T0 + n) for n in range(first, first + 10)])
    place, seen = "", []
    for _ in range(9):
        events, place = store.job_events(place, 4)
        seen += [event["seq"] for event in events]
    assert seen == list(range(1, 31)) and store.job_events(place) == ([], place)
    store.append([job_event(31)])
    assert [event["seq"] for event in store.job_events(place)[0]] == [31]


def test_a_change_of_the_period_moves_no_record(elastic, store):
    store.append([run_event(1)])
    store.close()
    daily = ElasticsearchStore(Settings(elastic.urls, period="day"), "g1")
    daily.append([run_event(1), run_event(2)])
    known = daily.client.ask("GET", "/bellrock-books-g1/_doc/group")["_source"]["periods"]
    assert [name for _, name in known] == ["month", "day"] and known[1][0] > NOW
    assert [name for name in indices(daily) if "-run-" in name] == ["bellrock-run-compute-g1-before"] and daily.version("local-1") == 2
    daily.close()


def test_rows_are_proven_while_more_come(elastic, store):
    """As an audit of a site that is at work: another process writes between any two steps, and nothing seems to be missing, or too much."""
    reader, seq = ElasticsearchStore(elastic), 0

    def write() -> None:
        nonlocal seq
        assert store.append([run_event(seq + n) for n in range(1, 51)]).runs == 50
        seq += 50

    write()
    until = time.monotonic() + 60
    while not reader.boots():  # what another object wrote is found within 3 s
        assert time.monotonic() < until
    for _ in range(5):
        for step in reader.proof():
            last = step
            write()
        ((must, rows, distinct),) = last.boots.values()
        assert must == rows == distinct and 0 < rows <= seq
    reader.close()
    *_, proof = store.proof()
    assert list(proof.boots.values()) == [(seq, seq, seq)]


def test_a_closed_index_holds_records_back(store):
    """As before it is restored from a snapshot: its answer is 400, as to a bad document."""
    store.append([run_event(1)])
    (index,) = [row["index"] for row in store.client.ask("GET", "/_cat/indices/bellrock-run-*?format=json&h=index")]
    store.client.ask("POST", f"/{index}/_close")
    with pytest.raises(StoreError, match="closed"):
        store.append([run_event(2)])
    store.client.ask("POST", f"/{index}/_open")
    assert store.append([run_event(2)]) == Appended(runs=1)
    assert store.status()["dead_letters"] == 0


def test_runs_that_are_none_are_left_out_of_a_job(store):
    """Logstash looks at a few fields only; Elasticsearch takes a number, or a list, for a keyword."""
    store.append([run_event(1), run_event(2)])
    (index,) = [row["index"] for row in store.client.ask("GET", "/_cat/indices/bellrock-run-*?format=json&h=index")]
    for seq, change in enumerate(({"program": 5}, {"file": ["a"]}, {"count": None}), 10):
        event = run_event(seq, node="other", **change)
        store.client.ask("PUT", f"/{index}/_doc/other%2F{seq}?refresh=true", event)
    assert store.runs("local-1")["seq"].to_pylist() == [1, 2]
    assert store.runs("local-1", ["program", "file", "count"]).num_rows == 2


@pytest.mark.parametrize("group", sorted({layer for layers in LAYERS.values() for layer in layers} | {"books", "storage"}))
def test_a_group_is_not_called_as_a_layer_is(group):
    """Its pattern, `bellrock-*-compute-*`, would be of all groups' indices."""
    with pytest.raises(StoreError, match="stands for a layer"):
        ElasticsearchStore(Settings(["http://127.0.0.1:9"]), group)


def test_a_question_about_known_nodes_goes_to_their_group_alone(store):
    store.append([run_event(1), run_event(1, node="cn2", boot="b2"), sample_event(2)])
    asked, send = [], store.client._send

    def sent(method, path, body, headers):
        asked.append(path.split("?")[0])
        return send(method, path, body, headers)

    store.client.send = sent
    whole, from_s = ask(store), T0 // 10**9
    assert len(whole) == 2 and store.seconds("local-1", 1000, None, from_s, from_s + 9).num_rows
    for nodes, group in ((["cn1", "cn2"], "-g1"), (["cn1", "cn9"], "")):
        asked.clear()
        runs = store.runs("local-1", window=Window((), 1000, T0, T0 + 10**9), known=nodes)
        assert sorted(row["node"] for row in runs.to_pylist()) == [row["node"] for row in whole]
        assert store.seconds("local-1", 1000, None, from_s, from_s + 9, known=nodes).num_rows
        records = [part for path in asked if path.endswith("/_search") for part in path[1:].split("/")[0].split(",") if "-run-" in part or "-rollup-" in part]
        assert len(records) >= 6 and all(f"-*{group}-" in part for part in records), records
    assert store.missing(["cn1"], 0, 2**62) == {} and asked[-1] == "/bellrock-books-g1/_search"


def test_what_is_missing_is_told_of_commits_and_table_alike(store, monkeypatch):
    """As the table of marks is brought up between two answers, and a gap is filled that it tells of."""
    for seqs, missing in (((1, 2), {}), ((5,), {"cn1": 2}), ((6,), {"cn1": 2}), ((3,), {"cn1": 1}), ((7,), {"cn1": 1}), ((4,), {})):
        store.append([run_event(seq) for seq in seqs])
        for up_to_date in (False, True):
            if up_to_date:
                store._books._write_table()
            assert store.missing(["cn1"], 0, 2**62) == missing, (seqs, up_to_date)
            other = ElasticsearchStore(store._settings)
            assert other.missing(["cn1"], 0, 2**62) == missing, (seqs, up_to_date)
            other.close()


def test_what_a_log_server_writes_into_its_books_says_nothing_of_others(store):
    """Who may write into one group's books may write anything there."""
    store.append([run_event(1), run_event(5)])
    commit = {"type": "commit", "head": 1, "number": 1}
    for place, more in enumerate(({"group": "*"}, {"group": "g2/_close?a="}, {"group": "g1", "number": None}, {"group": "g1", "marks": [[1], None]})):
        document = {"type": "commit"} | ({} if more["group"] == "g1" else commit) | more
        store.client.ask("PUT", f"/bellrock-books-g1/_doc/odd{place}?refresh=true", document)
    store.client.ask("PUT", "/bellrock-books-g1/_doc/odd?refresh=true", {"type": "mark", "group": "g2", "node": "cn1", "missing": 3, "mark": ["cn1"]})
    reader = ElasticsearchStore(store._settings)
    asked, send = [], reader.client._send
    reader.client.send = lambda method, path, body, headers: asked.append(path) or send(method, path, body, headers)
    assert reader.missing(["cn1"], 0, 2**62) == {"cn1": 3} and reader.version("local-1") == 2
    assert set(reader._reader.heads()) == {"g1"} and not any("g2" in path or "-*-*-" in path for path in asked)
    reader.close()


def test_books_from_before_there_were_messages_take_them(elastic):
    store = ElasticsearchStore(elastic, "g1")
    store.append([run_event(1), job_event(2)])
    books = names.books("g1")
    for hit in [hit for page in store._reader.hits(books, {"term": {"type": "commit"}}) for hit in page]:
        commit = hit["_source"]
        assert commit["totals"].pop("message") == 0
        store.client.ask("PUT", f"/{books}/_doc/{in_path(hit['_id'])}?version={commit['number']}&version_type=external_gte&refresh=true", commit)
    store.close()
    for messages in (1, 0):
        store = ElasticsearchStore(elastic, "g1")
        assert store.status()["records"]["message"] == 1 - messages
        assert store.append([run_event(1), message_event(3)]) == Appended(messages=messages, duplicates=2 - messages)
        assert store.status()["records"] == {"run": 1, "sample": 0, "job": 1, "message": 1}
        assert list(proven(store).boots.values()) == [(2, 2, 2)], "of a job event there is no row"
        store.close()
