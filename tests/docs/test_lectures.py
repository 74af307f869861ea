"""docs/lectures.md is what docs/lectures.py writes."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_lectures_page_is_up_to_date():
    page = subprocess.run(
        [sys.executable, str(DOCS / "lectures.py")], capture_output=True, check=True
    ).stdout.decode("utf-8")
    assert page == (DOCS / "lectures.md").read_text(encoding="utf-8")
