"""Without torch (`make test-base`), the files that compare with it are not collected."""

import re
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
_NEEDS_TORCH = re.compile(r"^(?:import torch|from (?:torch|gradient_problems)\b)", re.MULTILINE)

collect_ignore = [
    str(path.relative_to(HERE))
    for path in sorted(HERE.rglob("test_*.py"))
    if find_spec("torch") is None and _NEEDS_TORCH.search(path.read_text(encoding="utf-8"))
]
