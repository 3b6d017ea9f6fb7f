"""The times that a record may bear, and the day that it belongs to."""

import datetime

# Nothing that is watched is older than this; a clock that was never set is (1970, 1980).
EARLIEST_NS = int(datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC).timestamp()) * 10**9
# A node's clock may be so far ahead of the server's. One that is off by a time zone is told, and its records are kept.
AHEAD_NS = 24 * 3600 * 10**9
# No run, and no interval of a sample, lasts longer.
LONGEST_NS = 366 * 24 * 3600 * 10**9
# A record that comes so long after its end is late: it is kept under its own day, and told.
LATE_NS = 24 * 3600 * 10**9

# The day of a record in DuckDB's SQL, from its column `start`: what `day_of` gives.
DAY_SQL = "strftime(epoch_ms(\"start\" // 1000000), '%Y-%m-%d')"


def day_of(start_ns: int) -> str:
    """The day of a record ("2026-11-21"): that of its own start in UTC, whenever it came. What is kept by days, kept or dropped with a day,
    goes by it."""
    return datetime.datetime.fromtimestamp(start_ns // 10**9, datetime.UTC).strftime("%Y-%m-%d")


def implausible(start_ns: int, end_ns: int, now_ns: int) -> str | None:
    """Why a record cannot have begun and ended then, `now_ns` being the receiver's clock; None where it can."""
    if start_ns > end_ns:
        return f"times: it ends {_span(start_ns - end_ns)} before it starts"
    if start_ns < EARLIEST_NS:
        return "times: it starts before the year 2000: look at the node's clock"
    if end_ns > now_ns + AHEAD_NS:
        return f"times: it ends {_span(end_ns - now_ns)} ahead of the server's clock, and {_span(AHEAD_NS)} at most are taken: look at the node's clock"
    if end_ns - start_ns > LONGEST_NS:
        return f"times: it lasts {_span(end_ns - start_ns)}, and {_span(LONGEST_NS)} at most are taken"
    return None


def _span(ns: int) -> str:
    days, hours = ns / (24 * 3600 * 10**9), ns / (3600 * 10**9)
    return f"{days:.0f} days" if days >= 2 else f"{hours:.1f} hours" if hours >= 1 else f"{ns / 10**9:.3g} s"
