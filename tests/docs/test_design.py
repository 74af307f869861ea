"""The tree of packages in docs/design.md is the tree of src/workings."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_design_lists_every_package_and_module():
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    listed = re.findall(r"^  (\w+(?:\.py|/))\s", design, flags=re.MULTILINE)
    package = ROOT / "src" / "workings"
    present = {p.name + ("/" if p.is_dir() else "") for p in package.iterdir()}
    assert set(listed) == present - {"__init__.py", "__main__.py", "py.typed", "__pycache__/"}
