"""The table of marks: all that moved come into it, some at a time."""

import orjson

from pipeline.store.elastic.books import COMMITS_MAX, MARKS_AT_ONCE, Books
from pipeline.store.mark import Mark


class Elastic:
    """Client, bulk and reader in one: takes all, and finds nothing. sent: the documents of each call."""

    def __init__(self) -> None:
        self.sent: list[list[dict]] = []

    def answer(self, *_: object, **__: object) -> tuple[int, dict]:
        return 200, {}

    def hits(self, *_: object, **__: object) -> list:
        return []

    def send(self, lines: list[bytes]) -> dict[int, str]:
        self.sent.append([orjson.loads(line.splitlines()[1]) for line in lines])
        return {}


def test_marks_of_many_nodes_are_written_some_at_a_time():
    elastic = Elastic()
    books = Books(elastic, elastic, elastic, "g1", "month")
    nodes = 2 * MARKS_AT_ONCE + 1
    for _ in range(COMMITS_MAX + 1):
        number = books.next
        books.commit(number, {(f"n{node}", 1): Mark(number) for node in range(nodes) if node % COMMITS_MAX == number % COMMITS_MAX}, {})
    books.bring_up()
    marks = [[document for document in sent if document["type"] == "mark"] for sent in elastic.sent]
    assert max(map(len, elastic.sent)) <= MARKS_AT_ONCE
    assert {document["node"] for part in marks for document in part} == {f"n{node}" for node in range(nodes)}
    # What moved twice is there as it is now.
    assert {document["mark"][3][0] for part in marks for document in part if document["node"] == "n1"} == {COMMITS_MAX + 1}
    before = len(elastic.sent)
    books.bring_up()
    assert len(elastic.sent) == before
