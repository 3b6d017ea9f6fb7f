"""Which Java is taken: one that is new enough and whole; else it is said which there are and what to install."""

import pytest

from bellrock.stack import Missing, java

WHOLE = "java.base jdk.jdi jdk.incubator.vector"


@pytest.fixture
def homes(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "jvm")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def make(name: str, version: str, modules: str = WHOLE):
        home = tmp_path / "jvm" / name
        (home / "bin").mkdir(parents=True)
        (home / "bin/java").write_text("#!/bin/sh\n")
        (home / "bin/java").chmod(0o755)
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
        return home

    return make


def test_the_newest_is_taken_and_java_home_before_it(homes, monkeypatch):
    homes("17", "17.0.15")
    old, new = homes("21", "21.0.2"), homes("25", "25")
    assert java.java_home() == new
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java.java_home() == old


def test_a_java_home_that_is_too_old_does_not_hide_a_newer_one(homes, monkeypatch):
    new = homes("21", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(homes("17", "17.0.15")))
    assert java.java_home() == new


def test_one_that_was_cut_down_is_none(homes):
    homes("25", "25.0.2", "java.base")
    with pytest.raises(Missing, match="there is none at all"):
        java.java_home()


def test_where_all_are_too_old_they_are_named(homes):
    home = homes("17", "17.0.15")
    with pytest.raises(Missing, match=f"{home} is 17.*openjdk-21-jre-headless"):
        java.java_home()
