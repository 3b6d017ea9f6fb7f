"""What readers ask of Elasticsearch, and of which copy."""

from pipeline.store.elastic.booked import Marks
from pipeline.store.elastic.mark_rows import row_of
from pipeline.store.elastic.reader import PAGE, Reader
from pipeline.store.mark import Mark


class Noting:
    """Answers every question with as many documents as a page holds at most, and keeps the paths."""

    def __init__(self):
        self.paths = []

    def ask(self, method, path, body=None, *, fine=()):
        self.paths.append(path)
        if "/_pit" in path:
            return {"id": "p"} if method == "POST" else {}
        hits = [{"_id": "a", "sort": [1]}] * (PAGE if "pit" not in body else 1)
        return {"hits": {"hits": hits, "total": {"value": 1}}, "aggregations": {"books": {"buckets": []}, "c": {"buckets": []}}, "_shards": {"failed": 0}}


def test_all_questions_go_to_the_same_copy_of_an_index():
    client = Noting()
    reader = Reader(client, lambda: None)
    reader.heads()
    reader.count("bellrock-run-*", {})
    assert [len(page) for page in reader.hits("bellrock-books-*", {})] == [1]
    list(reader.composite("bellrock-run-*", {}, []))
    asked = [path for path in client.paths if path.startswith("/bellrock-")]
    assert len(asked) == 5 and all("preference=bellrock" in path for path in asked), asked
    # An opened search knows the copies that it was opened on, and takes no other.
    assert not [path for path in client.paths if path.startswith("/_") and "preference" in path]


class Answering:
    """Answers a question about heads, with some groups away or none."""

    def __init__(self):
        self.heads, self.failed, self.paths = {}, 0, []

    def ask(self, method, path, body=None, *, fine=()):
        self.paths.append(path)
        buckets = [{"key": index, "head": {"value": head}} for index, head in self.heads.items()]
        return {"aggregations": {"books": {"buckets": buckets}}, "_shards": {"failed": self.failed}}


def test_a_group_that_is_gone_is_forgotten_and_one_that_is_away_is_not(monkeypatch):
    monkeypatch.setattr("pipeline.store.elastic.reader.HEADS_KEPT_S", -1)
    client = Answering()
    reader = Reader(client, lambda: None)
    client.heads = {"bellrock-books-g1": 3.0, "bellrock-books-g2": 4.0, "bellrock-books-x/_close": 9.0}
    assert reader.heads("run") == {"g1": 3, "g2": 4} == reader.heads(None)
    client.heads, client.failed = {"bellrock-books-g1": 5.0}, 1
    assert reader.heads(None) == {"g1": 5, "g2": 4} and reader.without(frozenset({"g2"})).heads("run") == {"g1": 5}
    client.failed = 0
    assert reader.heads(None) == {"g1": 5}


def test_indices_of_groups_that_are_not_asked_are_not_refreshed(monkeypatch):
    monkeypatch.setattr("pipeline.store.elastic.reader.HEADS_KEPT_S", -1)
    client = Answering()
    reader = Reader(client, lambda: None)
    client.heads = {f"bellrock-books-g{number}": 1.0 for number in range(3)}
    for asking, expected in ((reader.only(frozenset({"g1"})), ["g1"]), (reader.without(frozenset({"g2"})), ["g0"]), (reader, ["g2"]), (reader, [])):
        client.paths.clear()
        asking.heads("run")
        refreshed = [path.split("/")[1] for path in client.paths if "_refresh" in path]
        assert refreshed == [f"bellrock-run-*-{group}-*" for group in expected]


class Lagging:
    """A reader of books whose head was found on a copy that is a commit ahead of the one that answers from then on."""

    def __init__(self):
        self.there = [self.commit(1)]

    def commit(self, number):
        return {"type": "commit", "group": "g1", "number": number, "marks": [row_of(("cn1", 7), Mark(seq=number))]}

    def heads(self, kind=None):
        return {"g1": 2}

    def books(self):
        return "bellrock-books-*"

    def hits(self, pattern, query, source=True, **more):
        after = [part["bool"]["filter"][1]["range"]["number"]["gt"] for part in query["bool"].get("should", [])]
        yield [{"_index": "bellrock-books-g1", "_source": commit} for commit in self.there if after and commit["number"] > after[0]]


def test_a_commit_that_is_seen_later_than_the_head_is_not_passed_over():
    reader, marks = Lagging(), Marks()
    assert [mark.seq for _, _, mark in marks.read(reader, None)] == [1]
    reader.there.append(reader.commit(2))
    assert [mark.seq for _, _, mark in marks.read(reader, None)] == [2]
