"""Write frozen/*.json: `python tests/safety_net/freeze.py`, only after an intended change."""

import json
import sys
import tempfile
from pathlib import Path

import collected_numbers as collected

FROZEN = Path(__file__).parent / "frozen"
DIGITS = {"solve": 12, "check": 12, "make": 12, "train": 7, "printed": 7, "export": 7, "page": 7}


def main() -> None:
    """Collect all numbers and write one file per subject."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("sheets", "runs", "exports"):
            (folder / name).mkdir()
        runs = collected.train_recipes(folder / "runs")
        with collected.make_client(runs) as page:
            responses = collected.collect_responses(page)
            exported = collected.compute_exported_models(runs, page, folder / "exports")
        numbers = {
            "solve": collected.solve_lectures(),
            "check": collected.check_lectures(),
            "make": collected.make_sheets(folder / "sheets"),
            "train": collected.read_logs(runs),
            "printed": collected.collect_printed_numbers(runs, folder / "exports"),
            "export": exported,
            "page": responses,
        }
    FROZEN.mkdir(exist_ok=True)
    for subject, value in numbers.items():
        rows = collected.round_floats(value, DIGITS[subject])
        lines = (
            f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in rows.items()
        )
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (FROZEN / f"{subject}.json").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{subject}.json: {len(text.encode()):,} bytes\n")


if __name__ == "__main__":
    main()
