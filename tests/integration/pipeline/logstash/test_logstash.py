"""The Logstash configurations, without a Logstash: their syntax by two parsers, their plugins and options by a table, and their filter by Ruby itself."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from logstash_pipeline_parser import Pipeline
from lscl.parser import parse_lscl
from lscl.lang import LsclAttribute, LsclBlock, LsclConditions

from pipeline.queue.items import event_of
from pipeline.schema import KINDS
from pipeline.store.batch import Batch

FOLDER = Path(__file__).resolve().parents[4] / "pipeline/logstash"
CONFIGS = sorted(FOLDER.glob("*.conf"))
SAMPLES = [pair for file in sorted((FOLDER / "samples").glob("*.json")) for pair in json.loads(file.read_text())]
# Of Elastic's reference of each plugin: the options that are used here.
_REDIS = {"host", "port", "password", "data_type", "key", "codec"}
OPTIONS = {
    ("input", "beats"): {"host", "port", "enrich", "codec", "ssl_enabled", "ssl_client_authentication", "ssl_certificate", "ssl_key", "ssl_certificate_authorities"},
    ("input", "redis"): _REDIS | {"batch_count", "threads"},
    ("filter", "ruby"): {"path", "script_params"},
    ("output", "redis"): _REDIS | {"batch", "batch_events", "batch_timeout", "congestion_threshold", "congestion_interval"},
    ("output", "elasticsearch"): {
        "hosts", "user", "password", "ssl_enabled", "ssl_certificate_authorities", "action", "document_id", "index", "manage_template", "ilm_enabled",
        "data_stream", "ecs_compatibility",
    },
}  # fmt: skip


def plugins(content: list, section: str = "") -> Iterator[tuple[str, LsclBlock]]:
    """Each plugin with its section, those under conditions too."""
    for part in content:
        if isinstance(part, LsclConditions):
            for _, branch in part.conditions:
                yield from plugins(branch, section)
            yield from plugins(part.default or [], section)
        elif section:
            yield section, part
        else:
            yield from plugins(part.content, part.name)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.name)
def test_both_parsers_read_it_and_it_uses_documented_options_only(config):
    text = config.read_text()
    assert [section for section, _ in Pipeline(text).parse()]
    found = list(plugins(parse_lscl(text)))
    assert len(found) >= 2
    for section, plugin in found:
        names = [option.name for option in plugin.content if isinstance(option, LsclAttribute | LsclBlock)]
        assert set(names) <= OPTIONS[section, plugin.name], (section, plugin.name)
        assert len(names) == len(plugin.content) == len(set(names))


def test_what_they_promise_is_in_them():
    receive, store = ((FOLDER / name).read_text() for name in ("beats-to-redis.conf", "redis-to-elasticsearch.conf"))
    assert 'ssl_client_authentication => "required"' in receive
    assert store.count("manage_template => false") == 2 and 'document_id => "%{[@metadata][id]}"' in store
    settings = yaml.safe_load((FOLDER / "logstash.yml").read_text())
    assert settings["pipeline.ecs_compatibility"] == "disabled" and settings["dead_letter_queue.enable"] is True
    pipelines = yaml.safe_load((FOLDER / "pipelines.yml").read_text())
    for one in (settings, *pipelines):
        assert (one["queue.type"], one["queue.checkpoint.writes"]) == ("persisted", 1)
    assert {Path(one["path.config"]).name for one in pipelines} == {path.name for path in CONFIGS}
    assert not re.search(r'password => "(?!\$\{)', receive + store), "no password stands in a configuration"


def put(text: str) -> dict[str, Any]:
    """What our own storing half makes of an item: record or dead letter, by the code that every store sorts with."""
    event = event_of(text.encode())
    batch = Batch({}, time.time_ns())
    batch.add([event])
    if batch.letters:
        return {"letter": batch.letters[0]["reason"].split(" ")[0]}
    kind = KINDS[event["kind"]]
    (row,) = batch._rows[kind.name]
    assert batch.marks.keys() == {row[:2]}
    return {"id": f"{row[0]}/{row[1]:016x}/{row[2]}", "kind": kind.name}


@pytest.mark.parametrize("pair", SAMPLES, ids=lambda pair: pair["in"][:40])
def test_our_own_half_makes_the_same_of_the_samples(pair):
    expected, got = pair["out"], put(pair["in"])
    if "letter" in expected:
        assert got == expected
    else:
        assert got["id"] == expected["id"] and expected["index"].startswith(f"bellrock-{got['kind']}-")


def filtered(period: str) -> list[tuple[dict, dict]]:
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("no Ruby on this machine, so Logstash's filter was not run. Run: apt-get install ruby")
    script = Path(__file__).with_name("run_filter.rb")
    lines = "".join(pair["in"] + "\n" for pair in SAMPLES)
    done = subprocess.run([ruby, script, FOLDER / "bellrock.rb", period], input=lines, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_filter_makes_of_the_samples_what_they_say():
    for pair, (metadata, event) in zip(SAMPLES, filtered("month"), strict=True):
        expected = pair["out"]
        if "letter" in expected:
            assert event["reason"].split(" ")[0] == expected["letter"], pair["in"]
            assert re.fullmatch(r"bellrock-letter-all-g1-\d{4}\.\d\d", metadata["index"]) and "id" not in metadata
            assert set(event) <= {"received_ns", "reason", "raw", "node", "boot", "seq"} and len(event["raw"]) <= 4096
        else:
            assert ({"id": metadata["id"], "index": metadata["index"], "document": event}) == expected


@pytest.mark.parametrize(("period", "name"), [("day", "2026.11.20"), ("week", "2026.w47")])
def test_the_filter_knows_the_periods(period, name):
    assert f"bellrock-run-compute-g1-{name}" in {metadata["index"] for metadata, _ in filtered(period)}
