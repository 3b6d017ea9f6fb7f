"""The real agent's figures for a Prometheus on its own machine."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

AGENT = Path(__file__).resolve().parents[3] / "build" / "bellrock-agent"
PATIENCE_S = 60


def told(port: int) -> dict[str, float]:
    """Name → figure."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                lines = answer.read().decode().splitlines()
                return {name: float(value) for name, value in (line.split(" ") for line in lines if not line.startswith("#"))}
        except urllib.error.URLError:
            assert time.monotonic() < until, "the agent does not answer"
            time.sleep(0.05)


def config(tmp_path: Path, metrics: str, log: Path) -> Path:
    """Settings of an agent whose server is away."""
    (tmp_path / "rings").mkdir()
    settings = tmp_path / "agent.toml"
    settings.write_text(
        f'rings = "{tmp_path / "rings"}"\nspool = "{tmp_path / "spool"}"\nserver = "127.0.0.1:1"\nnode = "n1"\nmetrics = "{metrics}"\n'
        f'lwfs_client_logs = ["{log}"]\nlwfs_client_time_zone = "UTC"\n'
    )
    return settings


def test_what_it_saw_is_told_while_its_server_is_away(tmp_path, free_port):
    port, log = free_port(), tmp_path / "client.log"
    log.write_text("[2018-09-10 14:16:50] T STAT /first\n")
    with subprocess.Popen([AGENT, "--config", config(tmp_path, f"127.0.0.1:{port}", log)], stderr=subprocess.PIPE, text=True) as agent:
        try:
            until = time.monotonic() + PATIENCE_S
            while (figures := told(port))["bellrock_agent_seen_total"] < 1:
                assert time.monotonic() < until, figures
                time.sleep(0.05)
            assert figures["bellrock_agent_lost_total"] == 0 and figures["bellrock_agent_cpu_seconds_total"] > 0
            assert 1 << 20 < figures["bellrock_agent_resident_memory_bytes"] < 64 << 20
        finally:
            agent.terminate()
        assert agent.wait(PATIENCE_S) == 0


def test_an_address_beyond_this_machine_is_refused(tmp_path):
    done = subprocess.run([AGENT, "--config", config(tmp_path, "0.0.0.0:9425", tmp_path / "log")], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2 and "metrics: 0.0.0.0:9425" in done.stderr and "127.0.0.1:9425" in done.stderr
