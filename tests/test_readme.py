"""The README's map of the house is right; what it tells people to type is in tests/docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_room_map_names_what_is_there():
    rooms = re.findall(r"^  (\w+(?:\.py|/))\s", README, flags=re.MULTILINE)
    package = ROOT / "src" / "workings"
    there = {p.name + ("/" if p.is_dir() else "") for p in package.iterdir()}
    there -= {"__init__.py", "__main__.py", "py.typed", "__pycache__/"}
    assert set(rooms) == there
