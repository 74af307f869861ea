"""Write frozen/*.json anew: `python tests/safety_net/freeze.py`. Only when numbers shall change."""

import json
import sys
import tempfile
from pathlib import Path

import numbers_seen as seen

FROZEN = Path(__file__).parent / "frozen"
DIGITS = {"solve": 12, "check": 12, "make": 12, "train": 7, "printed": 7, "export": 7, "page": 7}


def main() -> None:
    """Gather everything and write a file a subject."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("sheets", "runs", "exports"):
            (folder / name).mkdir()
        runs = seen.trained(folder / "runs")
        with seen.client(runs) as page:
            answered = seen.answered(page)
            exported = seen.exported(runs, page, folder / "exports")
        found = {
            "solve": seen.solved(),
            "check": seen.checked(),
            "make": seen.made(folder / "sheets"),
            "train": seen.logged(runs),
            "printed": seen.printed(runs, folder / "exports"),
            "export": exported,
            "page": answered,
        }
    FROZEN.mkdir(exist_ok=True)
    for name, value in found.items():
        lines = (
            f"{json.dumps(key)}: {json.dumps(seen.rounded(one, DIGITS[name]), ensure_ascii=False)}"
            for key, one in value.items()
        )
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (FROZEN / f"{name}.json").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}.json: {len(text.encode()):,} bytes\n")


if __name__ == "__main__":
    main()
