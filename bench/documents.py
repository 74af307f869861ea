"""Measure the reader of documents: random problems in the styles of many authors.

    python bench/documents.py                 2,520 documents; about five minutes
    python bench/documents.py --count 10      so many per style
    python bench/documents.py --style html --show 2

Problems, solutions and mistakes are computed in plain numpy, not by the package. Half of the
documents have one mistake, which the same problem as a file shows. Writes results/documents.json.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from check import KINDS_OF_MISTAKE, MIN_UNITS, _plant_once
from document_author_styles import AUTHOR_STYLES
from document_items import tell
from document_styles import STYLES as BASE_STYLES
from planting import NAMES
from random_sheets import random_sheet
from rounding import excess, orient
from sheets import Sheet, Worked, solve, to_toml, work
from workings.problems import Problem
from workings.problems.documents.reading import read_document
from workings.problems.documents.reports import DocumentReport

Rng = np.random.Generator
RESULT = Path(__file__).parents[1] / "results" / "documents.json"
KINDS = ("attention",) * 6 + ("feed_forward", "layer_norm", "positions", "rnn", "lstm")
MIN_EXAMPLES, MIN_VERDICTS, MIN_CAUSES = 97.0, 95.0, 90.0  # percent
STYLES = BASE_STYLES | AUTHOR_STYLES
_COLUMN_STYLES = ("markdown", "latex", "beamer", "mathml", "docx", "lists")


@dataclass
class Counts:
    """What was measured in one style."""

    documents: int = 0
    examples: int = 0
    num_read: int = 0  # examples with a verdict
    right_verdicts: int = 0
    false_accusations: int = 0
    false_clean_bills: int = 0
    wrong: int = 0  # examples with a mistake that were reported as wrong
    causes: int = 0
    failures: list[str] = field(default_factory=list)


def draw_example(rng: Rng, style: str, kind: str, has_mistake: bool) -> tuple[Sheet, Worked, str]:
    """Return a sheet, its solution and the name of the mistake in it ("" if it is right)."""
    while True:
        name = ""
        if has_mistake:
            names = [n for n in NAMES if kind in KINDS_OF_MISTAKE.get(n, (kind,))]
            name = str(rng.choice(names))
        sheet, _ = random_sheet(rng, kind=kind, is_complete=True)
        sheet.columns = sheet.columns and kind == "attention" and style in _COLUMN_STYLES
        if kind == "attention" and not _is_plain_attention(sheet, style):
            continue
        if sheet.style.blank_share:
            continue
        sheet.claimed = [key for key in sheet.claimable if not _is_copy(sheet, key)]
        if rng.random() < 0.3:
            kept = [k for k in sheet.claimed if rng.random() < 0.8]
            sheet.claimed = kept or sheet.claimed
        try:
            worked = work(sheet)
        except ValueError:
            continue
        if has_mistake:
            planted = _plant_once(sheet, name, worked, rng)
            if planted is None:
                continue
            worked, key, cell = planted
            if not excess(sheet, worked, key, solve(sheet))[orient(sheet, cell)] > MIN_UNITS:
                continue
        if not _is_agreed(sheet, worked, name):
            continue
        return sheet, worked, name


def _is_plain_attention(sheet: Sheet, style: str) -> bool:
    if sheet.settings["normalizer"] != "softmax":
        return False
    if sheet.heads > 1 and (
        sheet.columns
        or style
        in ("prose", "html", "csv", "pandas", "matlab", "numpy", "torch", "data frames", "R")
    ):
        return False
    has_all = "Q" in sheet.given or all(f"W_{name}" in sheet.given for name in "QKV")
    has_rows = all(
        len(m) > 1 for role, m in sheet.given.items() if role in ("X", "Q", "K", "V", "context")
    )
    return (
        has_all
        and has_rows
        and not ("context" in sheet.given and style in ("prose", "html", "csv"))
    )


def _is_copy(sheet: Sheet, key: str) -> bool:
    """Return True for a step that equals the step before it, which nobody prints."""
    name = key.partition(".")[0]
    if sheet.kind == "attention":
        return (
            (name == "scaled" and sheet.scale in (None, 1.0))
            or (name == "masked" and sheet.mask is None)
            or (name == "output" and not {"W_O", "b_O"} & sheet.given.keys())
        )
    if sheet.kind == "layer_norm":
        return name == "output" and not {"gamma", "beta"} & sheet.given.keys()
    return name == "angles"


def _is_agreed(sheet: Sheet, worked: Worked, name: str) -> bool:
    """Return True if the problem as a file has the verdict and cause that are expected."""
    try:
        report = Problem.from_toml(to_toml(sheet, worked)).check()
    except Exception:
        return False
    if not name:
        return report.verdict == "right" and not report.assumption
    return report.first is not None and name in [cause.name for cause in report.first.causes]


def measure(style: str, count: int, seed: int, show: int = 0) -> Counts:
    """Measure one style."""
    counts, rng = Counts(), np.random.default_rng([seed, *style.encode()])
    file, render = STYLES[style]
    for number in range(count):
        has_mistake = number % 2 == 1
        kind = str(rng.choice(KINDS))
        is_double = rng.random() < 0.35
        examples = [draw_example(rng, style, kind, has_mistake)]
        if is_double:
            examples.append(draw_example(rng, style, kind, False))
        language = str(rng.choice(["en", "de", "fr", "es", "zh"]))
        content = render([tell(s, w, rng, language) for s, w, _ in examples], rng)
        try:
            report = read_document(content, file)
        except Exception as error:
            report = DocumentReport([], [], 0, 0)
            counts.failures.append(f"{type(error).__name__}: {error}")
        counts.documents += 1
        failures = compare(counts, examples, report)
        if failures and len(counts.failures) < 12:
            counts.failures += failures
        if failures and show:
            show -= 1
            text = content.decode("utf-8", "replace") if not content.startswith(b"PK") else "(zip)"
            print("\n".join(["-" * 80, text, *failures]))
            for example in report.examples:
                print(example.place, example.summarize())
            print(report.summarize_counts(), [u.why for u in report.unread])
    return counts


def compare(
    counts: Counts, examples: list[tuple[Sheet, Worked, str]], report: DocumentReport
) -> list[str]:
    """Add a document to the counts; return what is wrong with its report."""
    failures = []
    if len(report.examples) != len(examples):
        failures.append(f"{len(report.examples)} examples instead of {len(examples)}")
    for k, (sheet, worked, name) in enumerate(examples):
        counts.examples += 1
        actual = report.examples[k] if k < len(report.examples) else None
        keys = (
            {claim.key for claim in actual.report.problem.claims}
            if actual and actual.report
            else set()
        )
        is_found = actual is not None and actual.report is not None and actual.kind == sheet.kind
        counts.num_read += is_found
        verdict = "not judged" if actual is None else actual.verdict
        expected = "wrong" if name else "right"
        counts.right_verdicts += verdict == expected
        if verdict == "wrong" and not name:
            counts.false_accusations += 1
            failures.append(f"false accusation ({sheet.kind})")
        elif verdict == "right" and name:
            counts.false_clean_bills += 1
            failures.append(f"false clean bill: {name} ({sheet.kind}), claims {sorted(keys)}")
        elif verdict != expected:
            why = "" if actual is None else actual.why
            failures.append(f"{verdict} instead of {expected} ({sheet.kind}): {why}")
        if verdict == "wrong" and name and actual is not None and actual.report is not None:
            counts.wrong += 1
            first = actual.report.first
            causes = [cause.name for cause in first.causes] if first else []
            counts.causes += name in causes
            if name not in causes:
                failures.append(f"cause {causes} instead of {name} ({sheet.kind})")
        if set(worked.texts) - keys and is_found:
            failures.append(f"not claimed: {sorted(set(worked.texts) - keys)} ({sheet.kind})")
    return failures


def percent(part: int, total: int) -> float:
    return round(100 * part / max(total, 1), 2)


def summarize(rows: dict[str, Counts]) -> dict[str, object]:
    total = {
        name: sum(getattr(c, name) for c in rows.values())
        for name in ("documents", "examples", "num_read", "right_verdicts", "false_accusations",
                     "false_clean_bills", "wrong", "causes")
    }  # fmt: skip
    return {
        **total,
        "examples_found_percent": percent(total["num_read"], total["examples"]),
        "verdicts_right_percent": percent(total["right_verdicts"], total["examples"]),
        "causes_percent": percent(total["causes"], total["wrong"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120, help="documents per style")
    parser.add_argument("--style", choices=[*STYLES], action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print so many failures per style")
    parser.add_argument("--out", default=str(RESULT))
    arguments = parser.parse_args()
    rows, start = {}, time.perf_counter()
    for style in arguments.style or STYLES:
        rows[style] = counts = measure(style, arguments.count, arguments.seed, arguments.show)
        common = Counter(counts.failures).most_common(3)
        print(
            f"{style:12} {counts.documents} documents, {counts.examples} examples: read"
            f" {counts.num_read}, verdicts {counts.right_verdicts}, accusations"
            f" {counts.false_accusations}, clean bills {counts.false_clean_bills}, causes"
            f" {counts.causes}/{counts.wrong} {common}"
        )
    result = summarize(rows)
    print(json.dumps(result, indent=1))
    if not arguments.style:
        result["seconds"] = round(time.perf_counter() - start, 1)
        result["styles"] = {
            style: {k: v for k, v in vars(counts).items() if k != "failures"}
            for style, counts in rows.items()
        }
        Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        if result["false_accusations"] or result["false_clean_bills"]:
            raise SystemExit("false verdicts")


if __name__ == "__main__":
    main()
