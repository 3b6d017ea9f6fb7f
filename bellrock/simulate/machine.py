"""A machine whose nodes serve one job at a time, and the jobs on it, from a seed."""

from collections.abc import Iterator, Sequence

import numpy as np

from bellrock.simulate.kinds import KINDS, Size
from bellrock.simulate.model import Job

S = 10**9
# Between two jobs on a node: the queue cleans up and starts the next.
BETWEEN_S = (1.0, 20.0)
USERS = 8
FIRST_UID = 5001
# Spread of the jobs' sizes: the standard deviation of the logarithm of their records.
SIZES_SIGMA = 0.8
# Children of the seed: one a job by number, and this for what concerns all of them.
ALL_JOBS = 1 << 31


def jobs(seed: int, count: int, nodes: int, records: int, kinds: Sequence[str], start_ns: int) -> Iterator[Job]:
    """`count` jobs on a machine of `nodes` nodes that together leave about `records` records; kinds take turns.

    What a job does follows from (seed, its number) and its share of the records alone; its nodes and its start from the jobs before it.
    Raises KeyError for an unknown kind.
    """
    models = [KINDS[kind] for kind in kinds]
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(ALL_JOBS,)))
    weight = rng.lognormal(0.0, SIZES_SIGMA, count)
    share = weight / weight.sum() * records if count else weight
    free_ns = np.full(nodes, start_ns)
    cursor = 0
    for number in range(count):
        model_seed, expand_seed = np.random.SeedSequence(seed, spawn_key=(number,)).spawn(2)
        rng = np.random.default_rng(model_seed)
        model = models[number % len(models)](rng, Size(nodes, int(share[number])))
        if cursor + model.nodes > nodes:
            cursor = 0
        block = slice(cursor, cursor + model.nodes)
        begin_ns = int(free_ns[block].max()) + round(float(rng.uniform(*BETWEEN_S)) * S)
        user = int(rng.integers(USERS))
        job = Job(number, f"sim-{seed}-{number}", FIRST_UID + user, f"user{user + 1:02d}", cursor, begin_ns, expand_seed, model)
        free_ns[block] = job.end_ns
        cursor += model.nodes
        yield job
