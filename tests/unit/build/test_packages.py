"""Which folders setuptools takes for packages."""

import tomllib
from pathlib import Path

from setuptools.discovery import PackageFinder, PEP420PackageFinder

ROOT = Path(__file__).resolve().parents[3]
FIND = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
FINDER = PEP420PackageFinder if FIND.get("namespaces", True) else PackageFinder


def found(folder: Path) -> set[str]:
    return set(FINDER.find(folder, include=FIND["include"], exclude=FIND["exclude"]))


def test_each_folder_with_python_is_a_package():
    folders = {source.parent.relative_to(ROOT) for name in ("pipeline", "jobdb", "anomaly", "webapp/api", "bellrock") for source in (ROOT / name).rglob("*.py")}
    assert found(ROOT) == {".".join(folder.parts) for folder in folders} | {"webapp"}


def test_links_in_circles_hold_nobody_up(tmp_path):
    """Tests of the agent make such; left in target/ by one that was killed, each doubles the paths that there are."""
    deep = tmp_path / "target" / "tmp"
    deep.mkdir(parents=True)
    for n in range(30):
        (deep / f"link{n}").symlink_to(tmp_path)
    (tmp_path / "bellrock").mkdir()
    (tmp_path / "bellrock" / "__init__.py").touch()
    assert found(tmp_path) == {"bellrock"}
