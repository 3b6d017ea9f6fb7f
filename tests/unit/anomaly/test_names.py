"""What programs are called."""

import time

import pytest

from anomaly.names import RULE_LENGTH_MAX, BadRule, Rules, program_of
from tests.unit.jobdb.tables import job

NONE = Rules()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("mpirun -np 4 --hostfile h ./wrf_v4.5.exe in", "wrf"), ("/opt/x/vasp.5.4.4", "vasp"), ("/other/VASP-6", "vasp"), ("srun -n 16 -- /p/lmp_stable-29", "lmp_stable"),
        ("mpirun --mca btl tcp -x LD=1 -n 8 ior-3.3.0", "ior"), ("srun --mpi=pmix -n2 ./hpl", "hpl"), ("taskset -c 0-3 ./hpl", "hpl"), ("taskset 0x3 ./hpl", "hpl"),
        ("env A=b nice -n 5 timeout 30m numactl -m 0 ./cp2k.psmp", "cp2k.psmp"), ("python3.11 -u fit.py", "fit"), ("python fit-1.2.py --x", "fit"), ("mpirun -np 2 python3 /home/x/fit_v2.py", "fit"),
        ("python -m torch.distributed.run x", "torch.distributed.run"), ("bash -c 'mpirun -n 3 foo'", "foo"), ("bash /a/b/foo.sh 1", "foo"), ("java -Xmx4g -jar /x/foo-2.1.jar", "foo"),
        ("apptainer exec --bind /a /x/img.sif python3 fit.py", "fit"), ("bellrock run -- ior -w", "ior"), ("'my prog' 3", "my prog"), ("g16 < in", "g16"), ("2024", "2024"), ("'", "prog of uid 1000"),
    ],
)  # fmt: skip
def test_runs_of_one_program_have_one_name(command, name):
    assert program_of(job(command=command), NONE) == name


def test_a_name_that_anybody_uses_is_of_one_user():
    names = {program_of(job(command=command, uid=uid), NONE) for command in ("./a.out", "/x/a.out 3") for uid in (7, 8)}
    assert names == {"a of uid 7", "a of uid 8"}
    assert program_of(job(command="python -c 'print(1)'"), NONE) == "python of uid 1000" and program_of(job(command="sh run.sh"), NONE) == "run of uid 1000"


def test_where_there_is_no_command_the_batch_systems_name_holds():
    assert program_of(job(command="", program="WRF_run_0423"), NONE) == "wrf_run" and program_of(job(command="", program=""), NONE) == ""


@pytest.mark.parametrize("command", ["x" * 10_000, "'" * 5000, "-1.1a" * 2000, "A=" * 3000, "\x1b[31mfoo\0\ud800 \r", "mpirun " * 2000, "bash -c " * 1000, "\u202e/\u0000/", " " * 10_000])
def test_hostile_names_take_no_time_and_can_be_shown_and_kept(command):
    began_s = time.perf_counter()
    for rules in (NONE, Rules([r"(?P<program>(?:a+)+)$", r"(?P<program>(?:x|xx|-|1|\.)*)y"])):
        name = program_of(job(command=command, program="p"), rules)
        assert len(name) <= 255 and (name.isprintable() or not name)
    assert time.perf_counter() - began_s < 1


def test_long_names_that_differ_in_the_end_are_told_apart():
    rules = Rules(["(?P<program>x+y?)"])
    assert len({program_of(job(command="x" * 2000 + end), rules) for end in ("", "y")}) == 2


def test_the_first_rule_of_the_site_that_matches_names_the_program():
    rules = Rules([r"image@sha256:(?P<program>[0-9a-f]{12})", r"/(?P<program>WRF)-[^/]*/", "(?P<program>)nothing"])
    assert program_of(job(command="apptainer run image@sha256:0123456789abcdef x"), rules) == "0123456789ab"
    assert program_of(job(command="/opt/WRF-4.1/main/real.exe"), rules) == "wrf" and program_of(job(command="nothing -x"), rules) == "nothing"


@pytest.mark.parametrize("rule", ["(", "(?P<x>a)", "a(?=b)", "(?P<program>a{1000}){1000}", "(?P<program>a)(b)", r"(?P<program>a)\1", "(?P<program>" + "a" * RULE_LENGTH_MAX + ")", "\ud800", 1])
def test_a_rule_that_cannot_be_used_is_refused(rule):
    with pytest.raises(BadRule):
        Rules([rule])
    with pytest.raises(BadRule):
        Rules(["(?P<program>a)"] * 101)
