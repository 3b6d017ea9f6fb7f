"""Writers of a group in Elasticsearch that are stopped at any place and go on later, and requests that were given up and are carried out later: no
commit of theirs counts, and nothing of a later writer is lost."""

from collections.abc import Callable

import elastic_transport
import pytest

from pipeline.store import StoreError, Undecodable
from pipeline.store.elastic import books as elastic_books
from pipeline.store.elastic import booked, names
from pipeline.store.elastic.store import ElasticsearchStore
from tests.unit.pipeline.events import T0, job_event, run_event

Such = Callable[[str, str, object], bool]
TAKEN = "another process writes into this group's indices"
BAD = Undecodable("{", "is cut off")


def removes(method: str, path: str, body: object) -> bool:
    return "/_bulk" in path and b'{"delete"' in body


def writes_records(method: str, path: str, body: object) -> bool:
    return "/_bulk" in path and b'"offset":' in body


def writes_sums(method: str, path: str, body: object) -> bool:
    return "/_bulk" in path and b'"of_node":' in body


def writes_letters(method: str, path: str, body: object) -> bool:
    return "/_bulk" in path and b'"place":' in body


def commits(method: str, path: str, body: object) -> bool:
    return method == "PUT" and isinstance(body, dict) and body.get("type") == "commit"


def looks_for_what_to_remove(method: str, path: str, body: object) -> bool:
    return f"/{names.of_group('g1')}/_search" in path or f"/{names.of_group('g1')}/_pit" in path


@pytest.fixture
def writer(elastic, monkeypatch):
    """Makes writers of the group; what is under void numbers is looked for at each append."""
    monkeypatch.setattr(elastic_books, "COMMITS_MAX", 2)
    monkeypatch.setattr(elastic_books, "SLOTS", 8)
    monkeypatch.setattr(elastic_books, "CLEANED_EVERY_S", 0)
    made = []

    def make() -> ElasticsearchStore:
        made.append(ElasticsearchStore(elastic, "g1"))
        return made[-1]

    yield make
    for store in made:
        store.close()


def stop_before(store: ElasticsearchStore, such: Such, meanwhile: Callable[[], object]) -> list:
    """Stops the process before the first such request; `meanwhile` is what happens until it goes on. The answer is filled then."""
    stopped: list = []

    def sent(method, path, body, headers):
        if such(method, path, body) and not stopped:
            stopped.append(path)
            meanwhile()
        return store.client._send(method, path, body, headers)

    store.client.send = sent
    return stopped


def give_up(store: ElasticsearchStore, such: Such) -> Callable[[], object]:
    """Has the first such request time out, without effect until what is returned is called."""
    kept: list = []

    def sent(*request):
        if such(*request[:3]) and not kept:
            kept.append(request)
            raise elastic_transport.ConnectionTimeout("gone")
        return store.client._send(*request)

    store.client.send = sent
    return lambda: store.client._send(*kept[0])


def runs(first: int, last: int) -> list[dict]:
    return [run_event(n) for n in range(first, last + 1)]


def refresh(store: ElasticsearchStore) -> None:
    store.client.ask("POST", "/bellrock-*/_refresh")


def assert_exact(store: ElasticsearchStore, last: int, letters: int = 0) -> None:
    """Runs 1 to `last` are there, once, and all sums and books say so."""
    refresh(store)
    *_, proof = store.proof()
    assert proof.boots == {("cn1", 0xDEADBEEF): (last, last, last)}
    (mark,) = dict(store.boots()).values()
    assert (mark.seq, mark.missing, mark.rows) == (last, 0, last)
    assert sorted(store.runs("local-1")["seq"].to_pylist()) == list(range(1, last + 1))
    sums = store.seconds("local-1", None, None, T0 // 10**9, T0 // 10**9 + 60).to_pylist()
    assert sum(row[f"{op}_bytes"] for row in sums for op in ("read", "write")) == 4096 * last
    status = store.status()
    assert (status["records"]["run"], status["dead_letters"], status["missing"], status["error"]) == (last, letters, 0, None)
    assert sum(line.count for line in store.letters()) == letters


@pytest.mark.parametrize("such", [writes_records, writes_sums, writes_letters, commits])
@pytest.mark.parametrize("more", [4, 14])
def test_a_writer_that_was_stopped_is_refused_however_late_it_goes_on(writer, such, more):
    """Until then the next writer has written over its slot or not."""
    one, two = writer(), writer()
    one.append(runs(1, 5))

    def meanwhile() -> None:
        two.append([*runs(6, 10), BAD])
        for n in range(11, 11 + more):
            two.append(runs(n, n))

    stopped = stop_before(one, such, meanwhile)
    with pytest.raises(StoreError, match=TAKEN):
        one.append([*runs(6, 10), BAD])
    assert stopped
    refresh(two)
    two.append(runs(11 + more, 11 + more))
    assert_exact(two, 11 + more, letters=1)
    # Whoever comes next reads the same in the books.
    three = writer()
    three.append(runs(12 + more, 12 + more))
    assert_exact(three, 12 + more, letters=1)


@pytest.mark.parametrize("more", [1, 4, 14])
def test_who_was_stopped_before_the_books_were_taken_reads_them_again(writer, more):
    one, two = writer(), writer()
    one.append(runs(1, 5))

    def meanwhile() -> None:
        for n in range(6, 6 + more):
            one.append(runs(n, n))

    assert stop_before(two, commits, meanwhile) == []
    assert two.append(runs(5, 6 + more)).duplicates == 1 + more
    assert_exact(two, 6 + more)
    with pytest.raises(StoreError, match=TAKEN):
        one.append(runs(7 + more, 7 + more))


@pytest.mark.parametrize("such", [looks_for_what_to_remove, removes])
def test_who_was_stopped_while_it_removes_what_was_not_committed_removes_nothing_of_the_next_writers(writer, such):
    one, two, three = writer(), writer(), writer()
    one.append(runs(1, 5))
    give_up(one, commits)
    with pytest.raises(StoreError, match="did not answer in time"):
        one.append(runs(6, 10))

    def meanwhile() -> None:
        three.append(runs(6, 12))
        three.append(runs(13, 15))
        refresh(three)

    # It finds what was there before, or what the next writer has written under the same ids and later numbers.
    stopped = stop_before(two, such, meanwhile)
    with pytest.raises(StoreError, match=TAKEN):
        two.append(runs(6, 10))
    assert stopped
    refresh(three)
    three.append(runs(16, 16))
    assert_exact(three, 16)


@pytest.mark.parametrize("such", [writes_records, writes_sums])
@pytest.mark.parametrize("is_other", [False, True], ids=["same", "other"])
def test_a_request_that_was_given_up_adds_nothing_whenever_it_is_carried_out(writer, such, is_other):
    """The process that has given it up goes on, or another one has been started since."""
    store = writer()
    store.append(runs(1, 5))
    late = give_up(store, such)
    with pytest.raises(StoreError, match="did not answer in time"):
        store.append(runs(6, 10))
    for n in range(6, 14):
        store.append(runs(n, n))
    now = writer() if is_other else store
    now.append(runs(14, 14))
    late()
    refresh(now)
    now.append(runs(15, 15))
    assert_exact(now, 15)


def test_a_job_event_is_followed_whenever_a_request_that_was_given_up_is_carried_out(writer, elastic):
    store, follower = writer(), ElasticsearchStore(elastic)
    store.append(runs(1, 5))
    place = follower.job_events()[1]
    late = give_up(store, lambda method, path, body: "/_bulk" in path and b'"event":' in body)
    with pytest.raises(StoreError, match="did not answer in time"):
        store.append([job_event(6)])
    store.append([job_event(6)])
    store.append(runs(7, 7))
    late()
    refresh(store)
    follower._reader.forget()
    events, place = follower.job_events(place)
    assert [event["seq"] for event in events] == [6]
    assert follower.job_events(place)[0] == [] and store.status()["records"]["job"] == 1
    follower.close()


def test_job_events_of_a_group_that_has_begun_anew_are_followed(writer, elastic):
    store, follower = writer(), ElasticsearchStore(elastic)
    for n in range(1, 80):
        store.append([job_event(n)])
    refresh(store)
    place = follower.job_events()[1]
    store.client.ask("DELETE", "/bellrock-job-job-g1-before,bellrock-books-g1")
    other = writer()
    other.append([job_event(n, boot="ab") for n in range(1, 4)])
    refresh(other)
    follower._reader.forget()
    events, place = follower.job_events(place)
    assert [event["seq"] for event in events] == [1, 2, 3] and follower.job_events(place)[0] == []
    follower.close()


def test_a_commit_of_our_own_that_is_carried_out_while_we_open_counts(writer):
    store = writer()
    store.append(runs(1, 5))
    late = give_up(store, commits)
    with pytest.raises(StoreError, match="did not answer in time"):
        store.append(runs(6, 10))
    assert stop_before(store, commits, late) == []
    assert store.append(runs(6, 11)).duplicates == 5
    assert_exact(store, 11)


def test_openings_that_fail_use_no_commit_up(writer, monkeypatch):
    """Each takes a number; marks that the table lacks stay known."""
    monkeypatch.setattr(elastic_books, "SLOTS", 4)
    store = writer()
    for n in range(1, 5):
        store.append(runs(n, n))
    for _ in range(9):
        give_up(store, looks_for_what_to_remove)
        store.begin_anew()
        with pytest.raises(StoreError, match="did not answer in time"):
            store.append(runs(5, 5))
    store.client.send = store.client._send
    assert store.append(runs(1, 5)).duplicates == 4
    assert_exact(store, 5)


def test_spans_of_void_numbers_are_told_in_the_books_and_bounded(writer, monkeypatch):
    monkeypatch.setattr(elastic_books, "VOID_SPANS_MAX", 2)
    store, told = writer(), []
    for n in range(1, 5):
        store.begin_anew()
        if n == 3:  # another opening, with no batch between
            store.append([])
            store.begin_anew()
        store.append(runs(n, n))
        refresh(store)
        (last,) = booked.totals(store._reader).values()
        (commit,) = [hit for page in store._reader.hits("bellrock-books-*", {"term": {"number": last["number"]}}) for hit in page]
        told.append(commit["_source"]["void"])
    assert told == [[[1, 1]], [[1, 1], [3, 3]], [[3, 3], [5, 6]], [[5, 6], [8, 8]]]


def test_books_with_a_document_a_commit_are_read_on(writer):
    """As they were written before commits had slots."""
    store = writer()
    for n in range(1, 5):
        store.append(runs(n, n))
    refresh(store)
    books = f"/{names.books('g1')}"
    slots = [hit for page in store._reader.hits(books[1:], {"terms": {"type": ["commit", "slot"]}}) for hit in page]
    for slot in slots:
        commit = slot["_source"]
        if commit.pop("type") == "commit":
            commit.pop("void")
            store.client.ask("PUT", f"{books}/_create/commit%2F{commit['number']}", commit | {"type": "commit"})
        store.client.ask("DELETE", f"{books}/_doc/{slot['_id'].replace('/', '%2F')}")
    refresh(store)
    other = writer()
    assert other.append(runs(3, 6)).duplicates == 2
    assert_exact(other, 6)
    assert not [hit for page in store._reader.hits(books[1:], {"term": {"type": "commit"}}) for hit in page if not hit["_id"].startswith("slot/")]


def test_books_that_have_lost_their_commits_are_not_begun_anew(writer):
    store = writer()
    store.append(runs(1, 2))
    for slot in (1, 2):
        store.client.ask("DELETE", f"/{names.books('g1')}/_doc/slot%2F{slot}")
    store.begin_anew()
    with pytest.raises(StoreError, match="its commits are missing: restore the index"):
        store.append(runs(3, 3))
