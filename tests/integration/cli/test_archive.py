"""`bellrock archive` with a running server."""

import json
import time

from bellrock.config import parse
from bellrock.server import Server
from pipeline.store.duckdb import DuckDBStore
from tests.integration.cli.test_retention import DAY_NS, bellrock
from tests.unit.pipeline.events import job_event, run_event

KEPT_NS = 40 * DAY_NS


def test_a_job_is_packed_shown_and_verified_and_damage_ends_with_1(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    bellrock(state, "archive", "local-1", code=3)
    bellrock(state, "archive", code=2)
    start = time.time_ns() - KEPT_NS
    store = DuckDBStore(state / "records.duckdb")
    store.append([run_event(seq, start=start + seq, end=start + seq + 900) for seq in range(1, 200)])
    store.close()
    server = Server(parse({"agent": {"run": False}, "http": {"port": 0}, "retention": {"runs": 30}}, "test"), state)
    server.start()
    try:
        jobdb = server.app.extensions["bellrock"].jobdb
        for event, when in (("start", start), ("end", start + 10**9)):
            jobdb.apply_event(job_event(1, event=event, time=when, exit_code=None if event == "start" else 0))
        assert "is not in the archive" in bellrock(state, "archive", "nobody", "--show", code=1)[1]
        (told,) = json.loads(bellrock(state, "archive", "local-1", "--json")[0])
        assert (told["archive"]["rows"], told["archive"]["generation"], told["error"]) == (199, 1, None)
        assert "all blocks can be read" in bellrock(state, "archive", "local-1", "--verify")[1]
        out, _ = bellrock(state, "archive", "local-1")
        assert "job local-1" in out and "199" in out
        assert "no job" in bellrock(state, "archive", "nobody", code=1)[1]
        # Before its runs go the rest of their day is packed.
        bellrock(state, "retention", "--apply")
        day = time.strftime("%Y-%m-%d", time.gmtime(start // 10**9))
        (rest,) = json.loads(bellrock(state, "archive", "--rest", day, "--json")[0])
        assert (rest["subject"], rest["archive"]["rows"]) == (f"rest {day}", 0)
        (blocks,) = (path for path in (state / "archive").glob("*/*.blocks") if path.stat().st_size)
        data = bytearray(blocks.read_bytes())
        data[-20] ^= 1
        blocks.write_bytes(data)
        assert "1 damaged block" in bellrock(state, "archive", "local-1", "--verify", code=1)[1]
    finally:
        server.stop()
