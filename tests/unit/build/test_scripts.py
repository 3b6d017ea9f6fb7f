"""The shell scripts behind `make`: what a step prints, and that a missing or old toolchain is noticed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(folder: Path, *command: str, path: str | None = None, **env: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, **env, **({"PATH": path} if path is not None else {})}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path):
    """A folder with the scripts, and with what they read."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Cargo.toml", tmp_path)
    return tmp_path


def tools(folder: Path, **stubs: str) -> str:
    """A PATH with the everyday tools, and `stubs` (name → shell text) in front of what they stand for."""
    bin_dir = folder / "bin"
    bin_dir.mkdir()
    for name in ("bash", "cut", "sort", "head", "tail", "sed", "mkdir", "printf", "dirname", "grep", "cat"):
        (bin_dir / name).symlink_to(shutil.which(name))
    for name, text in stubs.items():
        (bin_dir / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_dir / name).chmod(0o755)
    return str(bin_dir)


def test_a_step_is_one_line_and_its_output_goes_to_the_log(copy):
    done = run(copy, "scripts/step.sh", "some", "Doing it", "echo", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Doing it ... 0 s\n", "")
    assert (copy / "build/log/some.log").read_text() == "hello\n"


def test_a_failed_step_shows_the_last_40_lines_and_how_to_retry(copy):
    done = run(copy, "scripts/step.sh", "some", "Doing it", "bash", "-c", "seq 100; exit 7", STEP_RETRY="make demo")
    assert done.returncode == 7
    assert [line for line in done.stderr.splitlines() if line.startswith("    ")] == [f"    {n}" for n in range(61, 101)]
    assert done.stderr.endswith("to retry: make demo\n")


@pytest.mark.parametrize(("version", "status"), [("1.85.0", 0), ("1.100.1", 0), ("1.63.0", 1)])
def test_cargo_must_be_new_enough(copy, version, status):
    path = tools(copy, cargo=f"echo cargo {version}", rustup="exit 0")
    done = run(copy, "bash", "scripts/rust.sh", path=path)
    assert done.returncode == status
    assert ("rustup update stable" in done.stderr) == bool(status)


def test_a_rustup_without_a_toolchain_gets_one(copy):
    path = tools(copy, cargo=f"[ -e {copy}/stable ] && echo cargo 1.90.0", rustup=f'[ "$*" = "default stable" ] && : > {copy}/stable; exit 0')
    done = run(copy, "bash", "scripts/rust.sh", path=path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("Installing Rust ... ")


def test_without_cargo_and_curl_the_way_to_get_them_is_told(copy):
    done = run(copy, "bash", "scripts/rust.sh", path=tools(copy))
    assert done.returncode == 1
    assert "apt-get install -y curl" in done.stderr


@pytest.mark.parametrize(
    ("cargo", "cargo_web", "wanted"),
    [
        ("1.85.0+dfsg3-1", "(none)", "cargo"),  # Debian 13
        ("0.66.0+ds1-1", "1:1.96.0+dfsg1-1~deb12u2", "cargo-web"),  # Debian 12
        ("1.84.1-1", "(none)", "curl ca-certificates"),
        ("(none)", "(none)", "curl ca-certificates"),
    ],
)
def test_a_distributions_rust_is_taken_where_it_is_new_enough(copy, cargo, cargo_web, wanted):
    python = copy / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("")
    python.chmod(0o755)
    policy = f'case $2 in cargo) v="{cargo}";; cargo-web) v="{cargo_web}";; esac; echo "$2:"; echo "  Candidate: $v"'
    stubs = {"cc": "exit 0", "make": "exit 0", "apt-get": 'echo "$@" >> apt.log', "apt-cache": policy}
    run(copy, "bash", "scripts/system.sh", "build", path=tools(copy, **stubs))
    assert (copy / "apt.log").read_text().splitlines()[-1].endswith(f" {wanted}")


@pytest.mark.parametrize(
    ("stubs", "fetched"),
    [
        ({}, True),
        ({"cargo": "echo cargo 1.63.0"}, True),  # Debian 12's
        ({"cargo": "echo cargo 1.85.0"}, False),
        ({"cargo": "echo cargo 1.63.0", "rustup": "exit 0"}, False),
        ({"cargo": "echo cargo 1.63.0", "curl": "exit 0"}, False),
    ],
)
def test_curl_is_brought_where_rust_must_be_fetched(copy, stubs, fetched):
    python = copy / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("")
    python.chmod(0o755)
    present = {name: "exit 0" for name in ("cc", "make", "apt-get", "apt-cache")}
    done = run(copy, "bash", "scripts/system.sh", "build", path=tools(copy, **present, **stubs))
    assert ("curl ca-certificates" in done.stdout + done.stderr) == fetched


@pytest.mark.parametrize(("pip", "remade"), [("{here}/.venv/bin/python3", False), ("/elsewhere/.venv/bin/python3", True)])
def test_an_environment_that_came_from_elsewhere_is_made_anew(copy, pip, remade):
    bin_dir = copy / ".venv/bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "python").write_text("#!/bin/sh\nexit 0\n")
    (bin_dir / "pip").write_text(f"#!{pip.format(here=copy)}\n")
    (bin_dir / "python").chmod(0o755)
    path = tools(copy, python3='[ "$1" = -m ] || echo python3')
    done = run(copy, "bash", "scripts/python.sh", "requirements.lock", path=path)
    assert done.returncode == 0 and ("Making a Python environment" in done.stdout) == remade


def make(folder: Path, *words: str) -> subprocess.CompletedProcess:
    """`make` as a person calls it, also where these tests are run by another one."""
    unset = ["env", *(word for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "STEP_RETRY") for word in ("-u", name))]
    return run(folder, *unset, "make", *words)


def test_the_python_step_runs_again_where_its_environment_is_gone_or_moved(tmp_path):
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "scripts/python.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    stamp, command = tmp_path / "build/stamp/python", tmp_path / ".venv/bin/bellrock"
    for path in (stamp, command):
        path.parent.mkdir(parents=True)
    stamp.write_text("")
    for text, again in ((f"#!{tmp_path}/.venv/bin/python\n", False), ("#!/elsewhere/.venv/bin/python\n", True), (None, True)):
        if text is None:
            command.unlink()
        else:
            command.write_text(text)
        asked = make(tmp_path, "-n", "build/stamp/python")
        assert asked.returncode == 0 and ("scripts/python.sh" in asked.stdout) == again, text


@pytest.mark.parametrize("name", ["a b", "a:b"])
def test_a_folder_that_ld_preload_cannot_name_is_refused_at_once(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    asked = make(folder, "-n", "build")
    assert asked.returncode == 2 and "LD_PRELOAD" in asked.stderr and str(folder) in asked.stderr
    assert make(folder).returncode == 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_warnings_of_a_users_compiler_fail_no_build_but_lint(tmp_path):
    for name in ("Makefile", "exports.map"):
        shutil.copy(ROOT / "collectors/preload" / name, tmp_path)
    library = tmp_path / "target/release/libtracepack.a"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"!<arch>\n")
    (tmp_path / "warns.c").write_text("int warns(void); int warns(void) { int unused; return 0; }\n")
    words = ["SOURCES=warns.c", "HEADERS=", f"BUILD={tmp_path}", f"TARGET={tmp_path}/target"]
    built = make(tmp_path, *words)
    assert built.returncode == 0 and (tmp_path / "libbellrock.so").exists(), built.stderr
    linted = make(tmp_path, "lint", *words)
    assert linted.returncode == 2 and "unused" in linted.stderr


def test_rustup_installs_where_cargo_is_missing(copy):
    """With a stand-in for the download, whose script makes a cargo."""
    bin_dir = copy / "bin"
    made = f"{bin_dir}/cargo"
    script = f"printf '#!/bin/sh\\necho cargo 1.90.0\\n' > {made}; chmod +x {made}"
    path = tools(copy, curl=f'echo "{script}"', chmod=f'exec {shutil.which("chmod")} "$@"', sh='exec /bin/sh "$@"')
    done = run(copy, "bash", "scripts/rust.sh", path=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Rust is missing, 1.85 or newer is needed: installing it")


@pytest.mark.parametrize(("version", "fits"), [("v20.19.0", True), ("v22.1.0", True), ("v20.9.0", False), ("v18.20.0", False)])
def test_node_must_be_new_enough(copy, version, fits):
    python = copy / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho install $*; exit 1\n")
    python.chmod(0o755)
    done = run(copy, "bash", "scripts/node.sh", path=tools(copy, node=f"echo {version}", npm="exit 0"))
    assert (done.returncode == 0) == fits
    assert ("Installing Node.js into .venv" in done.stdout) == (not fits)


def test_the_locks_name_no_index_and_hash_everything():
    for lock in ROOT.glob("requirements*.lock"):
        text = lock.read_text()
        assert "://" not in text and "--index-url" not in text and "--find-links" not in text, lock.name
        lines = text.splitlines()
        pinned = [n for n, line in enumerate(lines) if line[:1].isalnum()]
        assert pinned, lock.name
        for n in pinned:
            assert "==" in lines[n] and lines[n + 1].startswith("    --hash=sha256:"), f"{lock.name}: {lines[n]}"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl. Run: apt-get install openssl")
def test_certificates_are_made_with_openssl_alone_and_keys_stay_private(tmp_path):
    def script(*words: str) -> subprocess.CompletedProcess:
        return run(tmp_path, str(ROOT / "scripts/certificates.sh"), *words)

    site = tmp_path / "site"
    assert script("node", str(site), "cn1").stderr.strip().endswith(f"certificates.sh ca {site}")
    assert script("ca", str(site)).returncode == 0
    authority = (site / "ca.key").read_bytes()
    assert "is kept" in script("ca", str(site)).stderr and (site / "ca.key").read_bytes() == authority
    assert script("server", str(site), "io.example", "10.0.0.5", "fe80::1").returncode == 0
    text = run(site, "openssl", "x509", "-noout", "-ext", "subjectAltName,extendedKeyUsage", "-in", "io.example.crt").stdout
    assert "DNS:io.example, IP Address:10.0.0.5, IP Address:FE80:0:0:0:0:0:0:1" in text and "Server Authentication" in text
    first = (site / "io.example.crt").read_bytes()
    assert script("server", str(site), "io.example").returncode == 0 and (site / "io.example.crt").read_bytes() != first
    assert run(site, "openssl", "verify", "-CAfile", "ca.crt", "io.example.crt").returncode == 0
    for bad in ("ca", "*.site", "a b", "../x", "", "-days", "a,DNS:b"):
        refused = script("node", str(site), bad)
        assert refused.returncode == 2 and "not a name" in refused.stderr, bad
    assert [script(*words).returncode for words in ((), ("node", str(site)), ("nothing", str(site), "x"))] == [2, 2, 2]
    assert {(path.name, oct(path.stat().st_mode & 0o777)) for path in site.iterdir()} == {
        ("ca.crt", "0o644"),
        ("ca.key", "0o600"),
        ("io.example.crt", "0o644"),
        ("io.example.key", "0o600"),
    }
