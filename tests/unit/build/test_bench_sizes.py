"""What `make bench ONLY=second_pass` takes for the bytes of others."""

import shutil
import subprocess

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.schema import KINDS
from pipeline.store.arrow import as_table
from tests.bench import _json_lines, _sizes
from tests.bench._json_lines import json_lines, value_bytes
from tests.bench._models import model_records
from tests.bench._others import others
from tests.bench._sizes import json_sizes, parquet_size

# As an agent sent them, the path aside.
LINES = [
    b'{"kind":"run","node":"cn0001","boot":"00d61bd4a3b2c1e0","seq":2,"layer":"compute","source":"preload","job":"j","uid":0,"process":"31.87","parent":19,"rank":null,'
    b'"program":"cp","op":"start","file":"/bin/cp","file_id":null,"handle":-1,"offset":0,"stride":0,"size":0,"count":1,"bytes":0,"start":1795436729535612888,'
    b'"end":1795436729535612888,"busy_ns":0,"slow_ns":0,"errno":0,"flags":0}',
    b'{"kind":"run","node":"cn0001","boot":"00d61bd4a3b2c1e0","seq":3,"layer":"compute","source":"preload","job":"j","uid":0,"process":"31.87","parent":19,"rank":7,'
    b'"program":"cp","op":"write","file":"/d/\\"b\xc3\xa4ck\\\\slash\\"\\n","file_id":"0110f8cd1158b7af","handle":17,"offset":0,"stride":-8,"size":8,"count":2,"bytes":16,'
    b'"start":1795436729535612888,"end":1795436729535999999,"busy_ns":12,"slow_ns":9,"errno":0,"flags":2,"latency":[1,1,0,0,0,0,0,0]}',
]


def table(lines):
    kind = KINDS["run"]
    return as_table([kind.row(orjson.loads(line)) for line in lines], kind.arrow)


def test_lines_are_spelled_as_agents_spell_them(monkeypatch):
    monkeypatch.setattr(_json_lines, "LINES", 2)
    lines = [*LINES, LINES[0]]
    assert b"".join(json_lines(table(lines))) == b"".join(line + b"\n" for line in lines)


def test_values_are_as_long_as_they_are_in_lines():
    for runs in (table(LINES), model_records("CAM", 16)):
        total = sum(
            int(sizes.sum()) + int((sizes > 0).sum()) * len(f',"{name}":') for name, sizes in ((name, value_bytes(runs, name)) for name in runs.schema.names)
        )
        assert total + len(runs) * len('{"kind":"run"}\n') == sum(map(len, json_lines(runs)))


@pytest.mark.skipif(shutil.which("zstd") is None, reason="there is no zstd. Run: apt-get install zstd")
def test_zstd_is_what_the_program_makes_of_the_lines():
    runs = model_records("AWP", 16)
    lines = b"".join(json_lines(runs))
    made = subprocess.run(["zstd", "-19", "-c"], input=lines, capture_output=True, check=True).stdout
    assert json_sizes(runs) == (len(lines), len(made))


def test_without_zstd_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="apt-get install zstd"):
        json_sizes(table(LINES))


def test_parquet_holds_the_records(monkeypatch):
    written = []
    put = pq.write_table

    def kept(runs, path, **options):
        put(runs, path, **options)
        written.append((path.stat().st_size, pq.read_table(path)))

    monkeypatch.setattr(_sizes.pq, "write_table", kept)
    runs = model_records("APT", 16)
    size = parquet_size(runs)
    assert size == min(size for size, _ in written) and len(written) == 4
    key = [("node", "ascending"), ("seq", "ascending")]
    expected = pa.table([_sizes._plain(column) for column in runs.columns], names=runs.schema.names).sort_by(key)
    assert all(found.sort_by(key).equals(expected) for _, found in written)


@pytest.mark.skipif(shutil.which("zstd") is None, reason="there is no zstd. Run: apt-get install zstd")
def test_others_are_told_in_bytes():
    sizes = others(model_records("APT", 64))
    assert sizes["json"] == sizes["beacon_first"] > sizes["beacon"] > sizes["zstd"] > sizes["parquet"] > 0
    assert sizes["beacon"] > sizes["beacon_published"] > 0
