"""docs/lectures.md is what docs/lectures.py writes."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_is_up_to_date():
    written = subprocess.run(
        [sys.executable, str(DOCS / "lectures.py")], capture_output=True, check=True
    ).stdout.decode("utf-8")
    assert written == (DOCS / "lectures.md").read_text(encoding="utf-8")
