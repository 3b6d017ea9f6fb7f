import os
from pathlib import Path

import pytest

from bellrock import paths
from bellrock.errors import BellrockError


def test_the_state_follows_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BELLROCK_STATE", "/s"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")):
        monkeypatch.setenv(name, value)
    assert paths.state_dir() == Path("/s")
    monkeypatch.delenv("BELLROCK_STATE")
    assert paths.state_dir() == Path("/x/bellrock")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert paths.state_dir() == Path("/h/.local/share/bellrock")


def test_each_state_has_rings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELLROCK_RINGS", raising=False)
    found = set()
    for state in (None, "/a", "/b"):
        monkeypatch.delenv("BELLROCK_STATE", raising=False)
        if state:
            monkeypatch.setenv("BELLROCK_STATE", state)
        found.add(paths.rings_dir())
    assert len(found) == 3 and Path(f"/dev/shm/bellrock-{os.getuid()}") in found


def test_directories_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = tmp_path / "wide"
    wide.mkdir(mode=0o755)
    assert paths.private_dir(wide).stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("BELLROCK_RINGS", str(tmp_path / "rings"))
    user = paths.user_rings()
    assert user == tmp_path / "rings" / str(os.getuid()) and user.stat().st_mode & 0o777 == 0o700


def test_what_is_not_a_directory_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(BellrockError):
            paths.private_dir(tmp_path / name)


def owned_by(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """As another user sees it: nothing in the file system changes."""
    monkeypatch.setattr(paths.os, "getuid", lambda: uid)


def test_the_default_rings_are_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELLROCK_RINGS", raising=False)
    theirs = tmp_path / "bellrock-7"
    theirs.mkdir()
    monkeypatch.setattr(paths, "rings_dir", lambda: theirs)
    # Even sticky: who made it can make the name lead elsewhere at any time.
    for mode in (0o777, 0o1777, 0o755):
        theirs.chmod(mode)
        with monkeypatch.context() as patch:
            owned_by(patch, 12345)
            with pytest.raises(BellrockError, match="not a directory of yours") as error:
                paths.user_rings()
        assert str(theirs) in error.value.what and "BELLROCK_RINGS" in error.value.hint
        assert theirs.stat().st_mode & 0o7777 == mode and os.listdir(theirs) == []
    theirs.chmod(0o777)
    paths.user_rings()
    assert theirs.stat().st_mode & 0o7777 == 0o700


def test_named_rings_may_be_shared_where_nobody_can_take_ours_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rings = tmp_path / "rings"
    monkeypatch.setenv("BELLROCK_RINGS", str(rings))
    rings.mkdir()
    for mode, fine in ((0o755, True), (0o700, True), (0o1777, True), (0o777, False), (0o775, False)):
        rings.chmod(mode)
        if fine:
            assert paths.user_rings() == rings / str(os.getuid())
        else:
            with pytest.raises(BellrockError, match="BELLROCK_RINGS"):
                paths.user_rings()
        assert rings.stat().st_mode & 0o7777 == mode, "a place of the user's own choice is left as it is"
    rings.rename(tmp_path / "elsewhere")
    rings.symlink_to("elsewhere")
    with pytest.raises(BellrockError, match="BELLROCK_RINGS"):
        paths.user_rings()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make directories of several owners")
def test_named_rings_of_others_are_roots_and_sticky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rings = tmp_path / "rings"
    monkeypatch.setenv("BELLROCK_RINGS", str(rings))
    rings.mkdir()
    (rings / "12345").mkdir(mode=0o700)
    os.chown(rings / "12345", 12345, 12345)
    owned_by(monkeypatch, 12345)
    for owner, mode, fine in ((0, 0o1777, True), (0, 0o777, False), (54321, 0o1777, False), (54321, 0o755, False)):
        os.chown(rings, owner, owner)
        rings.chmod(mode)
        if fine:
            assert paths.user_rings() == rings / "12345"
        else:
            with pytest.raises(BellrockError, match="BELLROCK_RINGS"):
                paths.user_rings()


def test_a_missing_artefact_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLROCK_BUILD", str(tmp_path))
    with pytest.raises(BellrockError) as error:
        paths.artefact(paths.PRELOAD)
    assert str(tmp_path / "libbellrock.so") in error.value.what and "make build" in error.value.hint


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.json"
    paths.write_atomically(path, "old")
    assert path.stat().st_mode & 0o777 == 0o600

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(paths.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        paths.write_atomically(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["server.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_damaged_state_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert paths.read_json(tmp_path / "x.json") is None
    assert paths.read_json(tmp_path / "missing.json") is None
