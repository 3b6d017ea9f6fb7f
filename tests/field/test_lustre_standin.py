"""What a stand-in for Lustre reads, and whose it says that it was. Needs no root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.field.lustre_counters import Brick, moved, parse_dump
from tests.field.lustre_owners import IDLE_LOOKS, Jobs, Shares

# Of a brick at work, and that began anew before the last.
DUMPS = sorted((Path(__file__).resolve().parents[1] / "fixtures/gluster_server/10.3").glob("*/var/lib/glusterd/stats/glusterfsd__data_brick1.dump"))
A, B = ("10.0.0.1@tcp", "7"), ("10.0.0.2@tcp", None)


def test_what_a_real_brick_did_between_its_dumps_is_counted() -> None:
    first, then = (parse_dump(path.read_text()) for path in DUMPS[:2])
    did = moved(first, then, 2.0)
    assert did.bytes == {"read": then["bytes_read"] - first["bytes_read"], "write": then["bytes_written"] - first["bytes_written"]}
    assert sum(did.bytes.values()) > 0
    for way in ("read", "write"):
        assert sum(count for (of, _), count in did.sizes.items() if of == way) == did.count[way]
        assert all(size & (size - 1) == 0 for _, size in did.sizes)
    assert all(time >= 0 for time in did.time_ns.values()) and did.queue >= 0
    anew = parse_dump(DUMPS[-1].read_text())
    assert moved(then, anew, 1.0).bytes == {"read": anew["bytes_read"], "write": anew["bytes_written"]}


def test_a_dump_that_is_half_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    dump = tmp_path / "glusterfsd_brick.dump"
    brick = Brick(dump)
    assert brick.look() is None, "it has not written yet"
    dump.write_bytes(DUMPS[0].read_bytes())
    assert brick.look() is None, "only the base"
    whole = DUMPS[1].read_bytes()
    dump.write_bytes(whole[:5000])
    assert brick.look() is None
    dump.write_bytes(whole)
    did = brick.look()
    assert did is not None and did.bytes["write"] == parse_dump(whole.decode())["bytes_written"] - parse_dump(DUMPS[0].read_text())["bytes_written"]
    assert brick.look() is None, "it was read"
    with pytest.raises(ValueError, match="object"):
        parse_dump("[]")


def test_bytes_are_shared_out_by_what_was_sent_and_none_is_lost() -> None:
    shares = Shares()
    # Clients tell first: half of what they sent has come to the brick's notice.
    assert shares.look(0, {A: 1010, B: 3030}) == {}
    assert shares.look(2000, {}) == {A: 500, B: 1500}
    # Who has sent nothing since is still owed the rest; who sends now gets no more than its part.
    given = shares.look(2000 + 999, {A: 1001})
    assert sum(given.values()) == 2999 and given[B] == pytest.approx(1500, rel=0.02)
    # Bytes before anybody told of them wait.
    shares = Shares()
    assert shares.look(7, {}) == {} and shares.look(0, {A: 3}) == {A: 7}


def test_heads_of_requests_are_no_claim_on_what_others_send_later() -> None:
    shares = Shares()
    assert shares.look(1000, {A: 1500}) == {A: 1000}
    for _ in range(IDLE_LOOKS):
        assert shares.look(0, {}) == {}
    assert shares.look(1000, {B: 1002}) == {B: 1000}


def test_jobs_that_began_or_ended_since_a_look_ran_meanwhile(tmp_path: Path) -> None:
    log = tmp_path / "jobs.log"
    log.write_text("prolog_slurmd cn1 7\nprolog_slurmd cn2 7\nprolog_sl")
    jobs = Jobs(log)
    assert jobs.look() == {"cn1": {"7"}, "cn2": {"7"}}
    with log.open("a") as file:
        file.write("urmd cn2 8\nepilog_slurmd cn1 7\n")
    assert jobs.look() == {"cn1": {"7"}, "cn2": {"7", "8"}}
    assert jobs.look() == {"cn1": set(), "cn2": {"7", "8"}}
    with log.open("a") as file:
        file.write("prolog_slurmd cn1 9\nepilog_slurmd cn1 9\n")
    assert jobs.look()["cn1"] == {"9"} and jobs.look()["cn1"] == set()
