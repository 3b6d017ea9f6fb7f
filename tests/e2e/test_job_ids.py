"""What the library claims for a job's id, of batch systems that are not here."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HEADER_BYTES = 4096


@pytest.fixture
def rings() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bellrock-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("environ", "claim"),
    [
        ({"LSB_JOBID": "19", "LSB_JOBINDEX": "7"}, "19[7]"),
        ({"LSB_JOBID": "19", "LSB_JOBINDEX": "0"}, "19"),
        ({"LSB_JOBID": "19"}, "19"),
        ({"LSB_JOBID": "19", "LSB_JOBINDEX": "7]x"}, "19"),
        ({"LSB_JOBID": "9" * 200, "LSB_JOBINDEX": "7"}, "9" * 127),
        ({"LSB_JOBINDEX": "7", "PBS_JOBID": "18[2].head"}, "18[2].head"),
        ({"LSB_JOBID": "19", "LSB_JOBINDEX": "7", "BELLROCK_JOB": "mine"}, "mine"),
        ({"LSB_JOBINDEX": "7"}, ""),
    ],
)
def test_a_task_of_an_array_has_an_id_of_its_own(tmp_path: Path, rings: Path, build_dir: Path, environ: dict[str, str], claim: str) -> None:
    settings = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(build_dir / "libbellrock.so"), "BELLROCK_RINGS": str(rings), "BELLROCK_WATCH": str(tmp_path)}
    subprocess.run(["dd", "if=/dev/zero", f"of={tmp_path}/x", "bs=1", "count=1", "status=none"], env=settings | environ, check=True)
    (ring,) = rings.glob("*/*.ring")
    # Numbers of the header may look like text, too, though hardly like text that can be printed.
    texts = [text for text in ring.read_bytes()[:HEADER_BYTES].split(b"\0") if text.isascii() and len(text) > 1 and text.decode().isprintable()]
    claims = [text.decode() for text in texts if b"[" in text or text.isdigit() or text == b"mine"]
    assert claims == ([claim] if claim else [])
