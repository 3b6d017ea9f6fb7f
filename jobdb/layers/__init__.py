"""What each layer between a job and its files did in the job's time: docs/layers.md says what that means.

`served` tells which components it was, `others` which other jobs they served, `each` what servers count of the job or of its nodes one by one, `amounts` puts samples on
steps, `clients` tells what a component did for some of its clients, `own` what it did for the job, `figures` what the job's processes asked for, `plan` all but the samples,
and `job` puts all of it together. `load` tells the other way round who put load on one component.
"""

CLIENT, FORWARDING, STORAGE, METADATA = LAYERS = ("client", "forwarding", "storage", "metadata")
# Of one question: what is beyond is refused.
COMPONENTS_MAX = 512
SAMPLES_MAX = 1_500_000
# Files of a job in one file system whose layouts are looked for.
FILES_MAX = 20_000
# Other jobs that are looked at where any node counts, those that began last; where some nodes count, these nodes, and how often a job had one. Beyond it nothing is
# known to be one job's alone.
JOBS_MAX, NODES_MAX, JOB_NODES_MAX = 50_000, 50_000, 300_000
# Jobs that began earlier before this one are looked for only by the nodes that the batch system gave them.
LONG_NS = 30 * 24 * 3600 * 10**9
# Clients of one component that are told apart, and samples of clients that are looked at; beyond it nothing is told apart.
CLIENTS_MAX, CLIENT_SAMPLES_MAX = 5000, 1_000_000
# Names of the job, or of its nodes, at targets of a file system, that are looked for; beyond it nothing is known to be the job's.
NAMES_MAX = 100_000
# Nodes of a job whose own caches are looked at; of a larger job nothing is told of them.
CACHE_NODES_MAX = 64
# Components of which samples are asked for in one question; and those of which a job's, or its nodes', are: among tens of thousands a question costs more than what it finds.
AT_ONCE, COUNTED_AT_ONCE = 16, 256
# Keys of other jobs that are told of a component.
JOBS_SHOWN_MAX = 20

Span = tuple[int, int]


class TooManyToTell(Exception):
    """There are more components, or samples of them, than one question looks at; the text says how many."""
