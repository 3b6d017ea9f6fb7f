"""`bellrock findings`, `explain` and `detect` with a running server."""

import json

from bellrock.config import parse
from bellrock.server import Server
from pipeline.store.duckdb import DuckDBStore

from tests.integration.cli.test_retention import bellrock
from tests.unit.pipeline.events import job_event, run_event
from tests.wait import until

S = 10**9
T0 = 1_700_000_000 * S


def test_a_storm_is_found_once_the_job_has_settled_explained_and_closed(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    bellrock(state, "explain", "0", code=2)
    bellrock(state, "findings", "--close", code=2)
    bellrock(state, "findings", "1", code=2)
    store = DuckDBStore(state / "records.duckdb")
    # As large a storm as there is in one of 65 seconds.
    store.append([run_event(seq, op="open", start=T0 + seq * S, end=T0 + (seq + 1) * S, count=400, bytes=0, size=0, latency=None) for seq in range(1, 66)])
    store.close()
    server = Server(parse({"agent": {"run": False}, "http": {"port": 0}}, "test"), state)
    server.start()
    try:
        context = server.app.extensions["bellrock"]
        assert "nothing is wrong that was noticed" in bellrock(state, "findings")[1]
        assert "no job" in bellrock(state, "detect", "local-1", code=1)[1]
        context.jobdb.apply_event(job_event(1, event="start", time=T0, exit_code=None))
        assert "runs, or its nodes have not told all of it" in bellrock(state, "detect", "local-1", code=1)[1]
        context.jobdb.apply_event(job_event(1, event="end", time=T0 + 100 * S, exit_code=0))
        until(lambda: context.detection.status()["findings"] == 1, "the finding")
        (one,) = json.loads(bellrock(state, "findings", "--job", "local-1", "--json")[0])
        assert (one["kind"], one["state"], one["jobs"]) == ("metadata-storm", "open", [{"job": "local-1", "role": "subject"}])
        number = str(one["id"])
        told = bellrock(state, "explain", number)[0]
        assert "mdops" in told and "26,000" in told and "open" in told
        assert "closed, confirmed" in bellrock(state, "findings", number, "--close", "--verdict", "confirmed", "--remedy", "one file", "--comment", "told ada")[0]
        assert "no finding fits" in bellrock(state, "findings", "--severity", "info")[1]
        # What people made of it stays when it is looked at again.
        assert "closed, confirmed" in bellrock(state, "detect", "local-1")[0]
        answer = json.loads(bellrock(state, "explain", number, "--json")[0])
        assert (answer["finding"]["remedy"], answer["comments"][0]["text"]) == ("one file", "told ada")
        assert "there is no finding 999" in bellrock(state, "explain", "999", code=1)[1]
    finally:
        server.stop()
    # The next server goes on after it.
    again = Server(parse({"agent": {"run": False}, "http": {"port": 0}}, "test"), state)
    again.start()
    try:
        context = again.app.extensions["bellrock"]
        context.jobdb.apply_event(job_event(2, job="local-2", event="start", time=T0, exit_code=None))
        context.jobdb.apply_event(job_event(3, job="local-2", event="end", time=T0 + S, exit_code=0))
        until(lambda: context.detection.status()["jobs"] == 1, "a look at the job")
        assert context.detection.status()["error"] is None
        assert [found["state"] for found in json.loads(bellrock(state, "findings", "--all", "--json")[0])] == ["closed"]
    finally:
        again.stop()
