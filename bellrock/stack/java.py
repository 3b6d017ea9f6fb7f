"""Where a Java runtime is that Elasticsearch can use."""

import os
import re
import shutil
from pathlib import Path

from bellrock.stack import Missing

MAJOR_MIN = 21
INSTALLED = Path("/usr/lib/jvm")
# A runtime that was cut down (jlink) may lack them; Elasticsearch would say so deep within its log.
MODULES = frozenset({"jdk.jdi", "jdk.incubator.vector"})


def java_home() -> Path:
    """The folder of a runtime of Java 21 or newer: $JAVA_HOME, else the newest in /usr/lib/jvm and on $PATH. Raises Missing."""
    named = os.environ.get("JAVA_HOME")
    if named and (_major(Path(named)) or 0) >= MAJOR_MIN:
        return Path(named)
    homes = sorted(INSTALLED.iterdir()) if INSTALLED.is_dir() else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    found = [(major, home) for home in homes if (major := _major(home)) is not None]
    best = max(found, key=lambda one: one[0], default=None)
    if best is None or best[0] < MAJOR_MIN:
        seen = ", ".join(f"{home} is {major}" for major, home in found) or "there is none at all"
        raise Missing(
            f"Elasticsearch needs Java {MAJOR_MIN} or newer, and here {seen}",
            "run `apt-get install openjdk-21-jre-headless` (Debian 13, Ubuntu); on Debian 12, which has none, unpack a JDK 21 or newer and set JAVA_HOME to it",
        )
    return best[1]


def _major(home: Path) -> int | None:
    """The version of the runtime in `home`, by its `release` file; None where there is none that is whole."""
    try:
        release = (home / "release").read_text()
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', release, re.MULTILINE)
    if not version or not os.access(home / "bin/java", os.X_OK) or (modules and not set(modules[1].split()) >= MODULES):
        return None
    return int(version[1])
