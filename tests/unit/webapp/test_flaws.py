"""What an audit's report says of what the store and the agents tell."""

from dataclasses import replace

import pytest

from pipeline.store import Letters, Proof
from pipeline.store.mark import Gap, Mark
from webapp.api.flaws import report

S = 10**9
NOW = 1_700_000_000 * S
KEY = ("n1", 0xA)


def mark(seq=10, **fields) -> Mark:
    return Mark(seq, **{"first_ns": NOW - 100 * S, "last_ns": NOW - 10 * S} | fields)


def audit(*marks, letters=(), told=None, proof=None, **given):
    options = {"now_ns": NOW, "since_ns": 0, "silent_s": 300, "limit": 100, "boots_total": len(marks)} | given
    return report(list(marks), letters, told or {}, proof, **options)


def kinds(found) -> list[str]:
    return [flaw["kind"] for flaw in found["flaws"]]


def test_where_all_came_there_is_nothing_to_tell():
    found = audit((KEY, mark(duplicates=7)), proof=Proof({KEY: (10, 10, 10)}, {"2023-11-14": 10}))
    assert (found["clean"], found["flaws"], found["boots_total"]) == (True, [], 1)
    (boot,) = found["boots"]
    assert (boot["boot"], boot["state"], boot["seq"], boot["duplicates"]) == ("000000000000000a", "heard", 10, 7)
    assert found["proof"] == {"boots": 1, "rows": 10, "days": [{"day": "2023-11-14", "rows": 10}]}
    assert audit()["clean"]


def test_gaps_are_named_by_their_numbers():
    gaps = (Gap(2, 20, 7, 0, NOW - 50 * S), Gap(30, 30, 1, 0, NOW), Gap(40, 49, 10, 0, NOW))
    found = audit((KEY, mark(60, gaps=gaps)))
    assert not found["clean"] and kinds(found) == ["gap"]
    assert found["flaws"][0]["text"] == "18 records never came: numbers 7 of 2 to 20, 30, 40 to 49"
    since = audit((KEY, mark(60, gaps=gaps)), since_ns=NOW - 20 * S)
    assert since["boots"][0]["missing"] == 11 and since["flaws"][0]["text"] == "11 records never came: numbers 30, 40 to 49"


@pytest.mark.parametrize("name", ["lost", "lost_runs", "lost_records", "lost_names", "lost_log_bytes"])
def test_what_an_agent_tells_as_lost_is_missing(name):
    found = audit((KEY, mark()), told={KEY: {name: 1234.0, "folded": 0.0}})
    assert (found["clean"], kinds(found)) == (False, [name]) and "1,234" in found["flaws"][0]["text"]
    assert found["boots"][0]["told"] == {name: 1234.0}
    assert found["boots"][0]["lost"] == (1234 if name in ("lost", "lost_runs") else 0)
    assert "tells of 1 " in audit((KEY, mark()), told={KEY: {name: 0.2}})["flaws"][0]["text"]


def test_what_costs_no_sum_is_a_note():
    told = {KEY: {"folded": 5.0, "spool_full_seconds": 240.0}}
    found = audit((KEY, mark(late=3, clock_offset_ns=-7200 * S)), told=told)
    assert found["clean"] and kinds(found) == ["clock", "late", "spool_full", "folded"]
    texts = " ".join(flaw["text"] for flaw in found["flaws"])
    assert "2.0 hours behind the server's" in texts and "or could not be written, for 4.0 minutes" in texts and "5 operations were folded" in texts
    assert "written, for less than 1 s" in audit((KEY, mark()), told={KEY: {"spool_full_seconds": 0.3}})["flaws"][0]["text"]
    assert kinds(audit((KEY, mark(clock_offset_ns=299 * S)))) == []
    assert "ahead" in audit((KEY, mark(clock_offset_ns=301 * S)))["flaws"][0]["text"]


def test_silence_counts_only_of_a_nodes_newest_boot_that_did_not_end():
    quiet = mark(last_ns=NOW - 400 * S, first_ns=NOW - 500 * S)
    found = audit((KEY, quiet))
    assert kinds(found) == ["silent"] and "6.7 minutes" in found["flaws"][0]["text"]
    assert kinds(audit((KEY, quiet), silent_s=401)) == []
    assert kinds(audit((KEY, mark(last_ns=NOW - 400 * S, ended=True)))) == []
    before = mark(last_ns=NOW - 400 * S, first_ns=NOW - 500 * S, ended=True)
    replaced = audit((KEY, mark()), (("n1", 1), before))
    assert (kinds(replaced), [boot["state"] for boot in replaced["boots"]]) == ([], ["heard", "replaced"])
    crashed = audit((KEY, mark()), (("n1", 1), replace(before, ended=False)))
    assert (kinds(crashed), crashed["clean"], crashed["flaws"][0]["boot"]) == (["replaced"], True, "0000000000000001"), "what its spool held is not known"


def test_two_agents_of_one_name_show_by_their_boots_coming_in_turn():
    one = (KEY, mark(first_ns=NOW - 100 * S, last_ns=NOW - 1 * S, ended=True))
    other = (("n1", 0xB), mark(first_ns=NOW - 50 * S, last_ns=NOW - 2 * S, ended=True))
    found = audit(one, other)
    assert kinds(found) == ["two_agents"] and "000000000000000a and 000000000000000b" in found["flaws"][0]["text"]
    after = (("n1", 0xB), mark(first_ns=NOW - 1 * S, last_ns=NOW))
    elsewhere = (("n2", 0xA), mark())
    assert kinds(audit(after, one, elsewhere)) == [], "a restart begins where the boot before it ended"


def test_two_agents_with_one_boot_show_by_another_record_of_the_same_number():
    found = audit((KEY, mark(conflicts=1)), letters=[Letters("n1", 0xA, "id", 1, NOW, NOW, 9, "id: another record came", "{}")])
    assert (found["clean"], kinds(found), found["boots"][0]["conflicts"]) == (False, ["conflict"], 1) and "cloned" in found["flaws"][0]["hint"]


def test_dead_letters_are_missing_by_reason():
    line = Letters("n1", 0xA, "times", 3, NOW, NOW, 9, "times: it starts before the year 2000: look", "{}")
    found = audit(letters=[line, Letters(None, None, "no JSON", 1, NOW, NOW, None, "no JSON: cut", "{")])
    assert [flaw["node"] for flaw in found["flaws"]] == ["n1", None] and not found["clean"]
    assert found["flaws"][0]["text"].startswith("3 records became dead letters: times: it starts")
    assert found["dead_letters"][1]["boot"] is None


def test_dead_letters_that_are_not_kept_any_more_are_missing_all_the_same():
    kept = [Letters("n1", 0xA, "id", 1, NOW, NOW, 9, "id: another", "{}"), Letters("n1", 0xA, "times", 3, NOW, NOW, 9, "times: long", "{}")]
    some = (KEY, mark(letters=5, conflicts=4))
    found = audit(some, letters=kept)
    assert sorted(f["text"].split(" record")[0] for f in found["flaws"]) == ["1", "2", "3", "3"] and len(kinds(found)) == 4
    bare = audit(some)
    assert (kinds(bare), bare["clean"]) == (["conflict", "dead_letters"], False)
    assert kinds(audit(some, since_ns=1)) == [], "when they came is not known"
    assert kinds(audit((KEY, mark(letters=3, conflicts=1)), letters=kept)) == ["conflict", "dead_letters"]


def test_rows_that_are_not_there_or_are_there_twice_are_found():
    found = audit((KEY, mark()), proof=Proof({KEY: (10, 11, 9), ("n2", 1): (5, 5, 5)}, {}))
    assert [(f["kind"], f["text"]) for f in found["flaws"]] == [
        ("rows_twice", "2 rows are there twice"),
        ("rows", "there are 9 rows where there should be 10"),
    ]


def test_what_has_a_flaw_is_listed_first_and_all_are_counted():
    marks = [((f"n{n}", 1), mark(gaps=(Gap(1, 1, 1, 0, NOW),) if n in (7, 9) else ())) for n in range(20)]
    found = audit(*marks, limit=3)
    assert ([boot["node"] for boot in found["boots"]], found["boots_total"], found["flaws_total"]) == (["n7", "n9", "n0"], 20, 2)


def test_the_servers_certificate_is_told_of_before_it_ends_and_costs_records_once_it_has():
    def found(ends_s: float):
        return audit((KEY, mark()), server_certificate={"file": "/etc/x.crt", "ends_ns": NOW + round(ends_s * S)})

    assert kinds(found(31 * 86400)) == [] == kinds(audit(server_certificate=None))
    soon, past = found(29 * 86400), found(-1)
    assert (kinds(soon), soon["clean"], soon["flaws"][0]["node"]) == (["certificate"], True, None) and "/etc/x.crt ends at" in soon["flaws"][0]["text"]
    assert (kinds(past), past["clean"]) == (["certificate"], False) and "ended at" in past["flaws"][0]["text"]


def test_an_audit_that_has_not_looked_at_everything_is_not_clean():
    found = audit((KEY, mark()), boots_total=3)
    assert (found["complete"], found["clean"], found["boots_total"], kinds(found)) == (False, False, 3, ["incomplete"])
    assert found["flaws"][0]["text"] == "this audit is incomplete: of 3 spools it has looked at the 1 that were heard of last"
    assert audit((KEY, mark()))["complete"]
