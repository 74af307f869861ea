"""What the README says can be typed works as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


COMMANDS = [
    line.split("#")[0].strip()
    for block in blocks("sh")
    for line in block.splitlines()
    # Training takes a minute, marking needs answers, and a server goes on: all are tested where
    # they are at home.
    if line.startswith("workings ") and not re.search(r"train |runs/|grade |serve", line)
]


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, tmp_path):
    command = command.replace("workings ", f"{sys.executable} -m workings ", 1)
    # What it writes, it writes to a folder of its own.
    command = re.sub(r"--out (\S+)", rf"--out {tmp_path}/\1", command)
    done = subprocess.run(
        command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr  # 1: a check that found something wrong
    assert done.stdout or any(tmp_path.iterdir())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", blocks("python"))
def test_program(program):
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, check=True)


def test_there_is_something_to_test():
    assert len(COMMANDS) >= 4
    assert len(blocks("python")) >= 2


def test_the_room_map_names_what_is_there():
    rooms = re.findall(r"^  (\w+(?:\.py|/))\s", README, flags=re.MULTILINE)
    package = ROOT / "src" / "workings"
    there = {p.name + ("/" if p.is_dir() else "") for p in package.iterdir()}
    there -= {"__init__.py", "__main__.py", "py.typed", "__pycache__/"}
    assert set(rooms) == there
