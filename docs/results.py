"""Writes the table of results in docs/classifiers.md and the README from results/*.json.

`python docs/results.py --write`; without it, says whether they are true. So that no figure is ever
copied by hand.
"""

import re
import sys
from pathlib import Path

from workings.storage import read_json

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/classifiers.md")
MARKS = ("<!-- results: begin -->\n", "<!-- results: end -->")


def table() -> str:
    """A line for each trained classifier, the best first."""
    found = [(path, read_json(path)) for path in sorted((ROOT / "results").glob("imdb-*.json"))]
    found.sort(key=lambda item: -item[1]["test_accuracy"])
    lines = [
        "| recipe | parameters | epochs | minutes (threads) | test accuracy | without shared |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for path, result in found:
        without = result.get("test_accuracy_without_shared")
        lines.append(
            f"| [{path.stem}](recipes/{path.stem}.toml) | {result['parameters']:,} "
            f"| {len(result['curves'])} | {result['minutes']:.1f} ({result['threads']}) "
            f"| **{100 * result['test_accuracy']:.2f} %** "
            f"| {'–' if without is None else f'{100 * without:.2f} %'} |"
        )
    return "\n".join(lines) + "\n"


def renewed(page: str, inside: str) -> str:
    """A page with the table as it is now; links are relative to the page."""
    begin, end = MARKS
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    return re.sub(pattern, lambda _: begin + inside + end, page, flags=re.DOTALL)


def main() -> int:
    """Write the pages, or compare."""
    stale = []
    for name in PAGES:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        new = renewed(
            page, table().replace("](recipes/", "](../recipes/") if "/" in name else table()
        )
        if new != page:
            stale.append(name)
            if "--write" in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--write" not in sys.argv:
        sys.stderr.write(f"not up to date: {', '.join(stale)}: python docs/results.py --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
