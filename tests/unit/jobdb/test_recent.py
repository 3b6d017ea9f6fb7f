"""Answers that are kept until what they were read from changes."""

from jobdb import recent
from jobdb.recent import Recent


def test_what_was_read_is_kept_until_it_changes():
    kept, reads = Recent(), []
    read = lambda: reads.append(1) or len(reads)  # noqa: E731
    assert [kept.get("a", read), kept.get("a", read)] == [1, 1]
    kept.changed(["b"])
    assert kept.get("a", read) == 1
    kept.changed(["a"])
    assert kept.get("a", read) == 2
    kept.changed(None)
    assert kept.get("a", read) == 3


def test_what_changed_while_it_was_read_is_not_kept():
    kept = Recent()

    def old():
        kept.changed(["a"])
        return "old"

    assert kept.get("a", old) == "old"
    assert kept.get("a", lambda: "new") == "new"


def test_what_others_change_is_seen_after_a_while():
    now = [0.0]
    kept = Recent(lambda: now[0])
    states = {kept.state, Recent(lambda: 0.0).state}
    assert kept.get("a", lambda: None) is None and kept.get("a", lambda: 1) is None
    now[0] = recent.AGE_S + 1
    assert kept.get("a", lambda: 2) == 2
    states.add(kept.state)
    kept.changed([])
    assert len(states | {kept.state}) == 4


def test_those_used_last_stay(monkeypatch):
    monkeypatch.setattr(recent, "ENTRIES_MAX", 2)
    kept = Recent()
    for key in "aba" "ca":
        kept.get(key, lambda key=key: key)
    assert [kept.get(key, lambda: "new") for key in "acb"] == ["a", "c", "new"]
