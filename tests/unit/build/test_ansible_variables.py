"""Variables of ansible/: what several roles must know has one home, the role `common`, and each role's argument specs tell the defaults that hold."""

import re
from pathlib import Path

import pytest
import yaml

ROLES = sorted(path for path in (Path(__file__).resolve().parents[3] / "ansible/roles").iterdir())
COMMON = next(role for role in ROLES if role.name == "common")


def defaults(role: Path) -> dict:
    return yaml.safe_load((role / "defaults/main.yml").read_text())


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_argument_specs_tell_the_defaults_that_hold(role):
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    told = {name: spec["default"] for name, spec in specs.items() if "default" in spec}
    # A required one may have an empty default, which its role refuses with words of its own.
    kept = {name: value for name, value in defaults(role).items() if not specs.get(name, {}).get("required")}
    assert {name: _squeezed(value) for name, value in told.items()} == {name: _squeezed(value) for name, value in kept.items()}


def _squeezed(value):
    return re.sub(r"\s+", " ", value).strip() if isinstance(value, str) else value


def test_no_port_is_said_twice():
    ports = [(value, name) for role in ROLES for name, value in defaults(role).items() if name.endswith("_port")]
    assert len({value for value, _ in ports}) == len(ports), sorted(ports)
    for value, name in ports:
        found = [str(path) for role in ROLES for path in role.glob("t*/*") if re.search(rf"\b{value}\b", path.read_text())]
        assert not found, f"{name} is {value}, which {found} say again"
