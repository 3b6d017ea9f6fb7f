"""Who slowed a job, by series that are made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from anomaly.interference import BYTES, FLOOD_SHARE, METADATA, OPS, Server, Trait, is_full, rank, taken

BINS = 60
MB = 1e6
SECONDS = np.full(BINS, 10.0)
AGGRESSOR, STEADY, ELSEWHERE, TINY = range(4)
# When the aggressor is at work, and when the bystander is.
AT_WORK = np.arange(BINS) % 12 >= 8
UNKNOWN = np.full(BINS, np.nan)
# So many requests wait at a full server.
MANY = 1000.0


def server(bytes_=None, metadata=None, flood=None, neighbours=4, waiting=UNKNOWN, own_metadata=0.0, **more):
    """One of which the victim has 20 MB/s, in requests of 1 MB."""
    loads, own = np.zeros((neighbours, BINS, 3)), np.zeros((BINS, 3))
    for place, values in (bytes_ or {}).items():
        loads[place, :, BYTES] = values
        loads[place, :, OPS] = np.asarray(values) / MB
    for place, values in (metadata or {}).items():
        loads[place, :, METADATA] = values
    held = np.zeros((neighbours, BINS))
    for place, values in (flood or {}).items():
        held[place] = values
    if own_metadata:
        own[:, METADATA] = own_metadata
    else:
        own[:, BYTES], own[:, OPS] = 20 * MB, 20
    return Server(loads, own, np.ones(BINS, dtype=bool), held, np.zeros(BINS), np.broadcast_to(waiting, BINS), **more)


def neighbourhood(**more):
    """An aggressor whose load is there when the loss is, one who always does as much, one who is there at other times, and one who does little whenever the loss is there."""
    bytes_ = {AGGRESSOR: np.where(AT_WORK, 900 * MB, 0), STEADY: 5 * MB, ELSEWHERE: np.where(np.roll(AT_WORK, 4), 900 * MB, 0), TINY: np.where(AT_WORK, MB, 0)}
    return server(bytes_, **more)


def speeds(by=AT_WORK, to=0.25, seed=3):
    return np.where(by, to, 1.0) * np.random.default_rng(seed).lognormal(0, 0.1, BINS)


@pytest.mark.parametrize("waiting", [UNKNOWN, np.where(AT_WORK, MANY, 0.0)])
def test_the_aggressor_is_first_and_bystanders_are_not_named(waiting):
    (one,) = rank(speeds(), SECONDS, [neighbourhood(waiting=waiting)])
    assert (one.neighbour, one.traits, one.server) == (AGGRESSOR, (Trait.BANDWIDTH,), 0)
    # 20 bins of 10 s at a quarter of the speed; the little that is lost by chance is nobody's.
    assert one.lost_s == pytest.approx(150, rel=0.15) and 0.8 < one.explains < 1
    assert one.share == pytest.approx(900 / 926, rel=0.05) and one.waiting == pytest.approx(waiting.max(), nan_ok=True)


def test_nobody_is_named_where_nobody_explains_it():
    # Slow at times of its own, not at all, and without a neighbour.
    own = (np.arange(BINS) // 3) % 2 == 0
    assert rank(speeds(own), SECONDS, [server({TINY: np.where(AT_WORK, MB, 0), ELSEWHERE: np.where(own, 0, 900 * MB)})]) == []
    assert rank(np.ones(BINS), SECONDS, [neighbourhood()]) == []
    assert rank(speeds(), SECONDS, [server(neighbours=0)]) == [] and rank(speeds(), SECONDS, []) == []
    # One who always does as much did not begin to be in the way, but where requests are known to wait.
    assert rank(speeds(), SECONDS, [server({STEADY: 200 * MB})]) == []
    # The same load, in time, where nobody waited, and where the victim did not ask for anything.
    assert rank(speeds(), SECONDS, [neighbourhood(waiting=0.0)]) == []
    assert rank(speeds(), SECONDS, [replace(neighbourhood(waiting=MANY), uses=np.zeros(BINS, dtype=bool))]) == []
    # A slow server that is full of the victim's own requests.
    assert rank(speeds(np.ones(BINS, dtype=bool)), SECONDS, [server({STEADY: MB}, waiting=MANY)]) == []


def test_the_slowest_server_sets_the_pace():
    always = np.ones(BINS, dtype=bool)
    taken_up = server({AGGRESSOR: 900 * MB}, waiting=MANY)
    assert [one.neighbour for one in rank(speeds(always), SECONDS, [taken_up])] == [AGGRESSOR]
    # Another server is full, too, of the victim's own requests, as where it is slow itself: without the aggressor nothing would be faster.
    assert rank(speeds(always), SECONDS, [taken_up, server(waiting=MANY)]) == []
    # Where nobody waits at the other it holds up nothing; nor does one of which nothing is known.
    for calm in (0.0, UNKNOWN):
        assert [one.neighbour for one in rank(speeds(always), SECONDS, [taken_up, server(waiting=calm)])] == [AGGRESSOR]


def test_half_of_a_full_server_spares_half_of_the_time():
    # At a tenth of its speed beside two that do as much: without either it is done in about half of the time.
    first, second = rank(np.full(BINS, 0.1), SECONDS, [server({STEADY: 500 * MB, ELSEWHERE: 480 * MB}, waiting=1e9)])
    assert (first.neighbour, second.neighbour) == (STEADY, ELSEWHERE)
    assert first.lost_s == pytest.approx(600 * 0.5, rel=0.01) and second.lost_s == pytest.approx(600 * 0.48, rel=0.01)
    assert first.explains == pytest.approx(0.5 / 0.9, rel=0.01)
    # And who lost little is not spared more than that.
    (one,) = rank(np.full(BINS, 0.9), SECONDS, [server({STEADY: 980 * MB}, waiting=1e9)])
    assert one.lost_s == pytest.approx(60, rel=0.01) and one.explains == pytest.approx(1, rel=0.01)


def test_little_load_hurts_by_threads_and_by_metadata():
    shared = {AGGRESSOR: np.where(AT_WORK, MB, 0), TINY: np.where(AT_WORK, MB, 0)}
    (one,) = rank(speeds(), SECONDS, [server(shared, flood={AGGRESSOR: AT_WORK})])
    assert (one.neighbour, one.traits) == (AGGRESSOR, (Trait.SHARED_FILE,))
    storm = {AGGRESSOR: np.where(AT_WORK, 50_000, 0), STEADY: 20.0, TINY: np.where(AT_WORK, 299, 0)}
    (one,) = rank(speeds(), SECONDS, [server(), server(metadata=storm, own_metadata=100.0, waiting=MANY)])
    assert (one.neighbour, one.traits, one.server) == (AGGRESSOR, (Trait.METADATA,), 1)
    # A storm is none to who looks up nothing.
    elsewhere = replace(server(metadata=storm, waiting=MANY), own=np.zeros((BINS, 3)), uses=np.zeros(BINS, dtype=bool))
    assert rank(speeds(), SECONDS, [server(waiting=MANY), elsewhere]) == []


def test_one_who_is_there_from_the_start_is_told_by_who_waits():
    always = server({AGGRESSOR: 900 * MB})
    slow = speeds(np.ones(BINS, dtype=bool))
    assert rank(slow, SECONDS, [always]) == []
    (one,) = rank(slow, SECONDS, [replace(always, waiting=np.full(BINS, MANY))])
    assert one.neighbour == AGGRESSOR and one.explains > 0.9


def test_bad_input_is_left_out():
    speed, seconds = speeds(), SECONDS.copy()
    speed[3], speed[8], speed[9], seconds[20], seconds[21] = np.nan, np.inf, -5, 0, np.nan
    everybody = neighbourhood(waiting=np.where(np.arange(BINS) < 5, np.nan, np.where(AT_WORK, MANY, -1)))
    everybody.loads[ELSEWHERE, 11] = np.nan
    everybody.loads[STEADY, 12] = -1e9
    everybody.loads[TINY, 13] = np.inf
    everybody.own[30] = np.nan
    assert [one.neighbour for one in rank(speed, seconds, [everybody])] == [AGGRESSOR]
    assert rank(np.full(BINS, np.nan), SECONDS, [everybody]) == []
    none = np.zeros(0)
    assert rank(none, none, [Server(np.zeros((2, 0, 3)), np.zeros((0, 3)), none.astype(bool), np.zeros((2, 0)), none, none)]) == []


def test_what_is_taken_of_a_server():
    shares, traits = taken(server({AGGRESSOR: np.full(BINS, 80 * MB), TINY: np.full(BINS, MB)}))
    assert shares[AGGRESSOR, 0] == pytest.approx(80 / 101) and shares[TINY, 0] == pytest.approx(1 / 101)
    assert traits[AGGRESSOR, 0] == list(Trait).index(Trait.BANDWIDTH)
    # Two that hold threads share these, and what is left is the others', by what they do.
    held = server({AGGRESSOR: np.full(BINS, 80 * MB)}, flood={STEADY: 1.0, TINY: 1.0})
    shares, traits = taken(held)
    assert shares[:, 0].tolist() == pytest.approx([0.1 * 0.8, FLOOD_SHARE / 2, 0, FLOOD_SHARE / 2])
    # One of them is the victim.
    shares, _ = taken(replace(held, flood=np.where(np.arange(4)[:, None] == STEADY, held.flood, 0.0), own_flood=np.ones(BINS)))
    assert shares[STEADY, 0] == pytest.approx(FLOOD_SHARE / 2)
    # Small requests are dear.
    small = server({AGGRESSOR: np.full(BINS, 20 * MB)})
    small.loads[AGGRESSOR, :, OPS] = 20 * MB / 4096
    shares, traits = taken(small)
    assert shares[AGGRESSOR, 0] > 0.8 and traits[AGGRESSOR, 0] == list(Trait).index(Trait.IOPS)


def test_a_server_is_as_surely_full_as_many_wait():
    assert is_full(np.array([0.0, 1.0, 9.0, math.inf, -3.0])).tolist() == [0.0, 0.5, 0.9, 1.0, 0.0] and np.isnan(is_full(np.array([np.nan])))[0]
