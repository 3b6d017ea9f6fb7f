import os
from pathlib import Path

import pytest

from bellrock import watch
from bellrock.errors import UsageError

MOUNTS = """proc /proc proc rw 0 0
10.0.0.1@tcp:/lustre /scratch lustre rw 0 0
10.0.0.2@tcp:/big /big\\040space lustre rw 0 0
cut"""


def test_mount_points_by_type() -> None:
    assert watch.mount_points(MOUNTS) == {"proc": ["/proc"], "lustre": ["/scratch", "/big space"]}


def test_a_file_system_becomes_its_mount_points() -> None:
    watched, warnings = watch.make_watch([], [], ["lustre"], MOUNTS)
    assert watched.watch == ("/scratch", "/big space") and warnings == []


def test_a_file_system_that_is_not_mounted_is_told_and_nothing_fails() -> None:
    watched, warnings = watch.make_watch([], [], ["gpfs"], MOUNTS)
    assert "gpfs" in warnings[0] and "lustre" in warnings[0]
    # An empty list would watch everything.
    assert watched.watch == (watch.NOWHERE,) and not Path(watch.NOWHERE).parent.is_dir() and "nothing is watched" in warnings[1]
    watched, warnings = watch.make_watch(["/a"], [], ["gpfs"], MOUNTS)
    assert watched.watch == ("/a",) and len(warnings) == 1


def test_a_mount_point_that_is_no_text_is_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mounts").write_bytes(b"fs /m\xff lustre rw 0 0\n")
    monkeypatch.setattr(watch, "Path", lambda _: tmp_path / "mounts")
    watched, _ = watch.make_watch([], [], ["lustre"])
    assert [os.fsencode(prefix) for prefix in watched.watch] == [b"/m\xff"]


def test_prefixes_become_absolute_with_and_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    watched, _ = watch.make_watch(["link", "real"], ["x*"], [])
    assert watched.watch == (f"{tmp_path}/link", f"{tmp_path}/real") and watched.ignore == (f"{tmp_path}/x*",)


def test_a_colon_cannot_be_told() -> None:
    with pytest.raises(UsageError, match="colon"):
        watch.make_watch(["/a:b"], [], [])


def test_the_environment_of_a_program() -> None:
    library = Path("/opt/b/libbellrock.so")
    base = {"LD_PRELOAD": "/x/other.so", "HOME": "/h"}
    environ = watch.environment(base, library, Path("/r"), "j", watch.Watch(("/a", "/b"), ("/c",)))
    assert environ == {
        "HOME": "/h",
        "LD_PRELOAD": "/opt/b/libbellrock.so:/x/other.so",
        "ASAN_OPTIONS": "verify_asan_link_order=0",
        "BELLROCK_JOB": "j",
        "BELLROCK_RINGS": "/r",
        "BELLROCK_WATCH": "/a:/b",
        "BELLROCK_IGNORE": "/c",
    }
    assert base == {"LD_PRELOAD": "/x/other.so", "HOME": "/h"}
    again = watch.environment(environ, library, Path("/r"), "j", watch.Watch())
    assert (again["LD_PRELOAD"], again["ASAN_OPTIONS"]) == (environ["LD_PRELOAD"], environ["ASAN_OPTIONS"])
    own = watch.environment({"ASAN_OPTIONS": "detect_leaks=0"}, library, Path("/r"), "j", watch.Watch())
    assert own["ASAN_OPTIONS"] == "detect_leaks=0:verify_asan_link_order=0"


def test_a_library_that_cannot_be_named_in_ld_preload() -> None:
    with pytest.raises(UsageError, match="preloaded"):
        watch.environment({}, Path("/a b/l.so"), Path("/r"), "j", watch.Watch())


def test_more_prefixes_than_the_library_holds_are_told() -> None:
    assert watch.make_watch([f"/a{i}" for i in range(128)], [], [])[1] == []
    assert "128" in watch.make_watch([f"/a{i}" for i in range(129)], [], [])[1][0]
    assert watch.make_watch(["/" + "x" * 9000], [], [])[1]
