"""Messages of system logs, as the API tells them."""

import pytest

from pipeline.store.mark import Mark
from tests.unit.pipeline.events import T0, message_event
from tests.unit.webapp.fakes import S

HOSTILE = "<script>alert(1)</script> \x1b[2J"


@pytest.fixture
def logged(site):
    site.store.marks = [(("n1", 255), Mark(1, last_ns=5)), (("n2", 255), Mark(1, last_ns=5))]
    site.store.message_rows = [
        message_event(1, node="n1"),
        message_event(2, node="n1", severity=6, event=None, facility=None, program=None, origin="user", text=HOSTILE, count=7, end=T0 + 5 * S),
        message_event(3, node="n1", severity=2, event="target_read_only"),
    ]
    return site


def asked(site, query="", status=200):
    return site.get(f"/api/v1/messages?node=n1&from_ns={T0}&to_ns={T0 + 60 * S}{query}", status)


def test_messages_are_told_the_last_first(logged):
    answer = asked(logged)
    assert [one["start_ns"] for one in answer["messages"]] == [T0 + s * S for s in (3, 2, 1)]
    assert answer["messages"][1] == {
        "start_ns": T0 + 2 * S, "end_ns": T0 + 5 * S, "count": 7, "severity": 6, "facility": None, "origin": "user", "log": "journal", "program": None,
        "event": None, "text": HOSTILE,
    }  # fmt: skip
    assert (answer["total"], answer["is_whole"], answer["next_cursor"]) == (3, True, None)
    first = asked(logged, "&limit=2")
    assert [one["severity"] for one in asked(logged, f"&limit=2&cursor={first['next_cursor']}")["messages"]] == [4]


def test_messages_are_chosen_by_severity_event_and_time(logged):
    for query, expected in [("&severity=4", [2, 4]), ("&event=*", [2, 4]), ("&event=target_read_only", [2]), ("&event=nothing", []), ("&severity=1", [])]:
        assert [one["severity"] for one in asked(logged, query)["messages"]] == expected, query
    assert logged.get("/api/v1/messages?node=n1")["messages"] == [], "the last hour"
    assert logged.get("/api/v1/messages?node=n2")["total"] == 0


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "bad_parameter"),
        ("node=n9", 404, "no_node"),
        ("node=n1&severity=8", 400, "bad_parameter"),
        ("node=n1&severity=error", 400, "bad_parameter"),
        ("node=n1&limit=1001", 400, "bad_parameter"),
        (f"node=n1&event={'e' * 65}", 400, "bad_parameter"),
        ("node=n1&nodes=n2", 400, "unknown_parameter"),
    ],
)
def test_what_cannot_be_asked_is_refused(logged, query, status, code):
    assert logged.get(f"/api/v1/messages?{query}", status)["error"]["code"] == code
