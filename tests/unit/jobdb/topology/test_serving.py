"""Who served a target, beside a version that looks at each instant by itself."""

from hypothesis import given
from hypothesis import strategies as st

from jobdb.topology import FOREVER_NS
from jobdb.topology.serving import Rule, Span, Told, serving


def naive(rules, failovers, moves, at_ns):
    """(server, is_failover) of an instant, or None."""
    here = sorted((rule.place, rule.server) for rule in rules if rule.from_ns <= at_ns < rule.to_ns)
    if not here:
        return None
    names = [server for _, server in here]
    told = [failover.server for failover in failovers if failover.from_ns <= at_ns < failover.to_ns] + [server for instant, server in moves if instant <= at_ns][-1:]
    server = next((name for name in told if name in names), names[0])
    return server, server != names[0]


_names = st.sampled_from(["a", "b", "c"])
_span = st.tuples(st.integers(0, 9), st.integers(1, 12)).map(lambda pair: (pair[0], FOREVER_NS if pair[1] > 9 else pair[0] + pair[1]))
# One row a place at an instant, as the tables have it; no server at two places.
_rules = st.dictionaries(st.integers(0, 2), _span, max_size=3).map(lambda found: [Rule(place, "abc"[place], *span) for place, span in found.items()])
_moves = st.dictionaries(st.integers(0, 15), st.one_of(st.just(""), _names), max_size=6).map(lambda found: sorted(found.items()))


# Begin and end in turn: none overlap, some touch.
_failovers = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), _names), max_size=3).map(
    lambda found: [Told(sum(gap + long for gap, long, _ in found[:n]) + gap, sum(gap + long for gap, long, _ in found[: n + 1]), name) for n, (gap, _, name) in enumerate(found)]
)


@given(_rules, _failovers, _moves)
def test_each_instant_is_as_the_naive_version_says(rules, failovers, moves):
    spans = serving(rules, failovers, moves)
    for at_ns in range(25):
        here = [(span.server, span.is_failover) for span in spans if span.from_ns <= at_ns < span.to_ns]
        assert here == [found] if (found := naive(rules, failovers, moves, at_ns)) else not here
    for one, other in zip(spans, spans[1:], strict=False):
        assert one.to_ns <= other.from_ns and (one.to_ns < other.from_ns or one[:2] != other[:2])


def test_there_and_back():
    rules = [Rule(0, "a", 0, FOREVER_NS), Rule(1, "b", 0, FOREVER_NS)]
    assert serving(rules, [Told(10, 20, "b")]) == serving(rules, moves=[(10, "b"), (20, "")]) == [Span("a", False, 0, 10), Span("b", True, 10, 20), Span("a", False, 20, FOREVER_NS)]
    assert serving(rules, moves=[(10, "b")])[-1] == Span("b", True, 10, FOREVER_NS)
    assert serving(rules, moves=[(10, "z"), (20, "a")]) == [Span("a", False, 0, FOREVER_NS)]
    # Files stand where records say something else; a server that is none of the target's serves nothing.
    assert serving(rules, [Told(10, 20, "b")], [(5, "b"), (12, "a")])[1] == Span("b", True, 5, 20)
    assert serving(rules, [Told(10, 20, "z")], [(12, "b")])[1] == Span("b", True, 12, FOREVER_NS)
    assert serving([], [Told(1, 9, "a")], [(1, "a")]) == []
