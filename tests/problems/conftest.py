"""In the base install (`make test-base`), files that compare with another package are left out."""

import re
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
REFERENCES = {
    "torch": re.compile(r"^(?:import torch|from (?:torch|gradient_problems)\b)", re.MULTILINE),
    "sacrebleu": re.compile(r"^from sacrebleu\b", re.MULTILINE),
}


def needs_missing_package(path: Path) -> bool:
    """Return True if a file of tests imports a package that is not installed."""
    text = path.read_text(encoding="utf-8")
    return any(p.search(text) and find_spec(name) is None for name, p in REFERENCES.items())


collect_ignore = [
    str(path.relative_to(HERE))
    for path in sorted(HERE.rglob("test_*.py"))
    if needs_missing_package(path)
]
