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
        return {"hits": {"hits": hits, "total": {"value": 1}}, "aggregations": {"g": {"buckets": []}, "c": {"buckets": []}}}


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

    def hits(self, pattern, query):
        after = [part["bool"]["filter"][1]["range"]["number"]["gt"] for part in query["bool"].get("should", [])]
        yield [{"_source": commit} for commit in self.there if after and commit["number"] > after[0]]


def test_a_commit_that_is_seen_later_than_the_head_is_not_passed_over():
    reader, marks = Lagging(), Marks()
    assert [mark.seq for _, _, mark in marks.read(reader, None)] == [1]
    reader.there.append(reader.commit(2))
    assert [mark.seq for _, _, mark in marks.read(reader, None)] == [2]
