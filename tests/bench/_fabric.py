"""A fabric of switches that a stand-in for `perfquery` answers for, and this host's own port in it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.bench._watch import ROOT, compiled

SWITCHES, PORTS = 80, 36
TEXTS = ROOT / "tests/fixtures/switch_port/ibsim-0.10/1"
OWN_PORT = ROOT / "tests/fixtures/fabric_port/made-mlx5/1/sys/class/infiniband"
_LEAD = re.compile(r"(?=^# Port)", re.MULTILINE)


def host(number: int) -> str:
    """A port's line of what `ibnetdiscover` prints, with a host behind it."""
    guid = 0x100000 + 2 * number
    return f'[{number % PORTS + 1}]\t"H-{guid:016x}"[1]({guid + 1:x}) \t\t# "node{number}" lid {number + 1000} 4xFDR\n'


def switch(number: int) -> str:
    guid = 0x200000 + number
    head = f'vendid=0x0\ndevid=0x0\nsysimgguid={guid:#x}\nswitchguid={guid:#x}({guid:x})\nSwitch\t{PORTS} "S-{guid:016x}"\t\t# "leaf{number:02d}" base port 0 lid {number + 1} lmc 0\n'
    return head + "".join(host(number * PORTS + port) for port in range(PORTS)) + "\n"


def programs(place: Path) -> str:
    """Puts the stand-ins into a folder; answers the agent's settings that name them."""
    command = compiled("perfquery", place)
    for name, source in (("wide", "perfquery-x-2"), ("narrow", "perfquery-2")):
        (place / name).write_text(_LEAD.split((TEXTS / source).read_text())[1])
    (place / "map").write_text("".join(switch(number) for number in range(SWITCHES)))
    discover = place / "ibnetdiscover"
    discover.write_text(f'#!/bin/sh\nexec cat "{place}/map"\n')
    discover.chmod(0o755)
    return f'switch_port_period_s = 1\nswitch_port_perfquery = "{command}"\nswitch_port_ibnetdiscover = "{discover}"\n'


def classes(place: Path) -> Path:
    """What is to be seen in place of /sys/class: all that is there, and a host channel adapter."""
    place.mkdir()
    for folder in Path("/sys/class").iterdir():
        (place / folder.name).mkdir()
        for device in folder.iterdir():
            (place / folder.name / device.name).symlink_to(device.resolve())
    shutil.rmtree(place / "infiniband", ignore_errors=True)
    shutil.copytree(OWN_PORT, place / "infiniband")
    return place
