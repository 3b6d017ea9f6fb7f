"""The launcher's look at a program, against the library's own (collectors/preload/unseen.c), on programs and what is left of them."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bellrock import unseen

HERE = Path(__file__).parent
LIBRARY = Path("/proc/self/exe")  # of this machine's class and architecture, which is all that is asked of it


@pytest.fixture(scope="module")
def ask_library(tmp_path_factory: pytest.TempPathFactory):
    """The library's answers for files, from its code with the address sanitizer where the compiler has it."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler. Run: apt-get install gcc libc6-dev")
    target = tmp_path_factory.mktemp("harness") / "harness"
    command = ["cc", "-std=gnu11", "-O2", "-g", "-o", target, HERE / "unseen_harness.c", "-ldl"]
    if subprocess.run([*command, "-fsanitize=address,undefined", "-fno-sanitize-recover"], capture_output=True).returncode:
        subprocess.run(command, check=True)

    def ask(paths: list[Path]) -> list[int]:
        text = "".join(f"{path}\n" for path in paths)
        done = subprocess.run([target], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [int(line) for line in done.stdout.split()]

    return ask


def answer(path: Path) -> int:
    found = unseen.look(str(path), {"PATH": "/nowhere"}, LIBRARY)
    return found.why if found else 0


def mutated(random_source: random.Random, content: bytes) -> bytes:
    """A program with some bytes of its headers changed, and perhaps cut."""
    changed = bytearray(content)
    program_headers = range(64, 64 + 56 * 14)
    for _ in range(random_source.randint(1, 6)):
        at = random_source.choice([random_source.randrange(64), random_source.choice(program_headers), random_source.randrange(len(changed))])
        changed[at % len(changed)] = random_source.choice([0, 1, 2, 3, 4, 6, 255, random_source.randrange(256)])
    return bytes(changed[: random_source.choice([len(changed), len(changed), random_source.randrange(1200)])])


def test_both_say_the_same_of_whatever_lies_there(ask_library, tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("int main(void) { return 0; }\n")
    seeds = []
    for name, compiler in {"dynamic": ["cc"], "static": ["cc", "-static"], "pie": ["cc", "-static-pie"], "musl": ["musl-gcc"]}.items():
        built = shutil.which(compiler[0]) and subprocess.run([*compiler, "-o", tmp_path / name, source], capture_output=True).returncode == 0
        if built:
            seeds.append((tmp_path / name).read_bytes())
    assert len(seeds) >= 1
    random_source = random.Random(7)
    texts = [b"#!/bin/sh\n", b"#!", b"#!\n", b"#! \t/bin/sh -x\n", b"#!/bin/sh", b"#!/bin/sh\r\n", b"#!" + b" " * 300 + b"/bin/sh\n", b"", b"\x7fELF", b"\x7fEL"]
    texts += [b"#!%s/file-%d\n" % (bytes(tmp_path), number) for number in range(8, 12)]  # of each other, and of programs below
    contents = texts + seeds + [mutated(random_source, random_source.choice(seeds)) for _ in range(400)]
    paths = []
    for number, content in enumerate(contents):
        path = tmp_path / f"file-{number}"
        path.write_bytes(content)
        path.chmod(0o755)
        paths.append(path)
    ours, theirs = [answer(path) for path in paths], ask_library(paths)
    differing = [(path.name, one, other) for path, one, other in zip(paths, ours, theirs, strict=True) if one != other]
    assert differing == []
    assert {0, unseen.FOREIGN} <= set(ours)


def test_what_is_no_program_is_left_alone(ask_library, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    paths = [tmp_path, tmp_path / "text", tmp_path / "none", Path("/dev/null"), Path(sys.executable)]
    assert [answer(path) for path in paths] == ask_library(paths) == [0] * 5
