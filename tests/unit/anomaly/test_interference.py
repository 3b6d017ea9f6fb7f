"""Who slowed a job, by series that are made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from anomaly.interference import BYTES, METADATA, OPS, Server, Trait, load_shares, pressed, rank

BINS = 60
MB = 1e6
SECONDS = np.full(BINS, 10.0)
AGGRESSOR, STEADY, ELSEWHERE, TINY = range(4)
# When the aggressor is at work, and when the bystander is.
AT_WORK = np.arange(BINS) % 12 >= 8


def server(bytes_=None, metadata=None, flood=None, neighbours=4, **more):
    """The victim should have 100 MB/s, in requests of 1 MB."""
    loads, own = np.zeros((neighbours, BINS, 3)), np.zeros((BINS, 3))
    for place, values in (bytes_ or {}).items():
        loads[place, :, BYTES] = values
        loads[place, :, OPS] = np.asarray(values) / MB
    for place, values in (metadata or {}).items():
        loads[place, :, METADATA] = values
    held = np.zeros((neighbours, BINS))
    for place, values in (flood or {}).items():
        held[place] = values
    own[:, BYTES], own[:, OPS] = 20 * MB, 20
    return Server(loads, own, np.tile([100 * MB, 100, 0.0], (BINS, 1)), held, **more)


def neighbourhood(**more):
    """An aggressor whose load is there when the loss is, one who always does as much, one who is there at other times, and one who does little whenever the loss is there."""
    bytes_ = {AGGRESSOR: np.where(AT_WORK, 900 * MB, 0), STEADY: 200 * MB, ELSEWHERE: np.where(np.roll(AT_WORK, 4), 900 * MB, 0), TINY: np.where(AT_WORK, MB, 0)}
    return server(bytes_, **more)


def speeds(by=AT_WORK, to=0.25, seed=3):
    return np.where(by, to, 1.0) * np.random.default_rng(seed).lognormal(0, 0.1, BINS)


def test_the_aggressor_is_first_and_bystanders_are_not_named():
    (one,) = rank(speeds(), SECONDS, [neighbourhood()])
    assert (one.neighbour, one.traits) == (AGGRESSOR, (Trait.BANDWIDTH,))
    assert 0.9 < one.explains <= one.alone <= 1 and 0.8 < one.factor <= 1
    # 20 bins of 10 s at a quarter of the speed.
    assert one.lost_s == pytest.approx(150, rel=0.15)


def test_nobody_is_named_where_nobody_explains_it():
    everybody = neighbourhood()
    # Slow all the time as a slow server is, at times of its own, not at all, and without a neighbour.
    own = (np.arange(BINS) // 3) % 2 == 0
    assert rank(speeds(own), SECONDS, [server({TINY: np.where(AT_WORK, MB, 0), ELSEWHERE: np.where(own, 0, 900 * MB)})]) == []
    assert rank(np.ones(BINS), SECONDS, [everybody]) == []
    assert rank(speeds(np.ones(BINS, dtype=bool)), SECONDS, [server({STEADY: 200 * MB})]) == []
    assert rank(speeds(), SECONDS, [server(neighbours=0)]) == []
    assert rank(speeds(), SECONDS, []) == []
    # The same load, in time, at a server whose requests waited no longer than ever, or that was slow itself.
    assert rank(speeds(), SECONDS, [neighbourhood(pressed=np.zeros(BINS))]) == []
    assert rank(speeds(), SECONDS, [neighbourhood(slow=np.ones(BINS))]) == []


def test_little_load_hurts_by_threads_and_by_metadata():
    shared = {AGGRESSOR: np.where(AT_WORK, MB, 0), TINY: np.where(AT_WORK, MB, 0)}
    (one,) = rank(speeds(), SECONDS, [server(shared, flood={AGGRESSOR: AT_WORK})])
    assert (one.neighbour, one.traits) == (AGGRESSOR, (Trait.SHARED_FILE,))
    storm = {AGGRESSOR: np.where(AT_WORK, 50_000, 0), STEADY: 200.0, TINY: np.where(AT_WORK, 299, 0)}
    (one,) = rank(speeds(), SECONDS, [server(), server(metadata=storm)])
    assert (one.neighbour, one.traits, one.server) == (AGGRESSOR, (Trait.METADATA,), 1)
    # What the server did for those that are no jobs counts in its total: of a tenth of the operations nobody suffers.
    total = np.tile([0, 0, 500_000.0], (BINS, 1))
    assert rank(speeds(), SECONDS, [server(), replace(server(metadata=storm), total=total)]) == []


def test_two_aggressors_are_named_in_order():
    often, once = np.arange(BINS) % 3 == 0, np.arange(BINS) % 10 == 4
    two = rank(speeds(often | once), SECONDS, [server({STEADY: np.where(once, 900 * MB, 0), ELSEWHERE: np.where(often, 900 * MB, 0)})])
    assert [one.neighbour for one in two] == [ELSEWHERE, STEADY] and two[0].explains > two[1].explains > 0.1


def test_one_who_is_there_from_the_start_is_told_by_a_server_that_is_pressed():
    always = server({AGGRESSOR: 900 * MB})
    slow = speeds(np.ones(BINS, dtype=bool))
    assert rank(slow, SECONDS, [always]) == []
    (one,) = rank(slow, SECONDS, [replace(always, pressed=np.ones(BINS))])
    assert one.neighbour == AGGRESSOR and one.explains > 0.9


def test_bad_input_is_left_out():
    speed, seconds = speeds(), SECONDS.copy()
    speed[3], speed[8], speed[9], seconds[20], seconds[21] = np.nan, np.inf, -5, 0, np.nan
    everybody = neighbourhood(pressed=np.where(np.arange(BINS) < 5, np.nan, 1.0))
    everybody.loads[ELSEWHERE, 11] = np.nan
    everybody.loads[STEADY, 12] = -1e9
    everybody.own[30] = np.nan
    assert [one.neighbour for one in rank(speed, seconds, [everybody])] == [AGGRESSOR]
    assert rank(np.full(BINS, np.nan), SECONDS, [everybody]) == []
    assert rank(np.zeros(0), np.zeros(0), [Server(np.zeros((2, 0, 3)), *np.zeros((2, 0, 3)), np.zeros((2, 0)))]) == []


def test_load_is_as_high_as_what_is_taken():
    shares, traits = load_shares(server({AGGRESSOR: np.full(BINS, 80 * MB), TINY: np.full(BINS, MB)}))
    # 80 of 101 MB/s, of which the victim should have had 100.
    assert shares[AGGRESSOR, 0] == pytest.approx(80 / 101 * 0.8) and shares[TINY, 0] < 0.001
    assert traits[AGGRESSOR, 0] == list(Trait).index(Trait.BANDWIDTH)


def test_a_server_is_pressed_where_requests_wait_longer_than_they_do():
    requests = np.full((100, 2), 1000)
    wait, service = np.full((100, 2), 1.0), np.full((100, 2), 2.0)
    wait[40:50, 0] = 198.0
    wait[60, 0], requests[61, 0], wait[62, 0] = 1.5, 3, np.nan
    found = pressed(wait, service, requests)
    assert found[40, 0] == 1 and found[0, 0] == 0 and 0 < found[60, 0] < 0.3
    assert np.isnan(found[[61, 62], 0]).all() and not found[:, 1].any()
    # A load that differs by little is no pressure, though it is the highest that there was.
    assert pressed(np.array([[1.0], [1.0], [1.01]]), np.full((3, 1), 2.0), np.full((3, 1), 100)).max() < 0.1
    assert np.isnan(pressed(wait, service, np.zeros((100, 2)))).all()
