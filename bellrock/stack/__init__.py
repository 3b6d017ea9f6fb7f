"""The real servers of a site as child processes on loopback: each kind of server in a file, their downloads in `artifacts`."""

from bellrock.errors import Unavailable


class Missing(Unavailable):
    """A program that the distribution must bring is not on this machine; the hint says how to get it."""
