"""Measure `workings check` on correct solutions, on planted mistakes and on a thousand files.

    python bench/check.py            10,000 correct sheets; takes about five minutes
    python bench/check.py --quick    a hundredth of that

Sheets, mistakes and the effects of rounding are computed in plain numpy, not by the package.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from planting import NAMES, Planted, plant
from random_sheets import random_sheet
from rounding import exceeds_rounding, first_difference
from sheets import Sheet, Worked, to_toml, work
from workings.problems import Problem

MIN_FOUND, MIN_NAMED = 99.5, 97.0  # percent of planted mistakes
MAX_CAUSES = 1.5  # on average
MAX_SECONDS = 20.0  # for 1,000 files
_MAX_TRIES = 400  # sheets drawn per planted mistake


@dataclass
class Row:
    """The results for one mistake that was planted many times."""

    name: str
    num_planted: int = 0
    num_within_rounding: int = 0  # skipped, since rounding could explain it
    num_found: int = 0
    num_named: int = 0  # the planted mistake is among the causes
    num_causes: int = 0

    def shares(self) -> tuple[float, float, float]:
        """Return the percentages found and named, and the mean number of causes."""
        n = max(self.num_planted, 1)
        return 100 * self.num_found / n, 100 * self.num_named / n, self.num_causes / n

    def to_dict(self) -> dict[str, object]:
        """Return the fields of the result file."""
        return {name.removeprefix("num_"): value for name, value in asdict(self).items()}


def check_correct_solutions(count: int, seed: int) -> list[str]:
    """Check correct solutions; return the files that are reported as wrong."""
    false_alarms = []
    rng = np.random.default_rng(seed)
    for _ in range(count):
        text = to_toml(*random_sheet(rng))
        if Problem.from_toml(text).check().verdict == "wrong":
            false_alarms.append(text)
    return false_alarms


def check_planted_mistakes(name: str, count: int, seed: int) -> Row:
    """Plant a mistake `count` times and check the sheets."""
    row, rng = Row(name), np.random.default_rng([seed, *name.encode()])
    for _ in range(count * _MAX_TRIES):
        if row.num_planted == count:
            break
        sheet, correct = random_sheet(rng)
        variant = _plant_once(sheet, name, correct, rng)
        if variant is None:
            continue
        worked, key, cell = variant
        if not exceeds_rounding(sheet, worked, key, cell, work(replace(sheet, claimed=[])).env):
            row.num_within_rounding += 1
            continue
        row.num_planted += 1
        first = Problem.from_toml(to_toml(sheet, worked)).check().first
        if first is not None and (first.key, first.cell) == (key, cell):
            row.num_found += 1
            row.num_named += any(cause.name == name for cause in first.causes)
            row.num_causes += len(first.causes)
    return row


def _plant_once(
    sheet: Sheet, name: str, correct: Worked, rng: np.random.Generator
) -> tuple[Worked, str, tuple[int, int]] | None:
    """Plant a mistake in a sheet; return the solution and the first number that differs."""
    planted = plant(sheet, name, correct, rng)
    if planted is None or any(np.isnan(planted.worked.env[key]).any() for key in sheet.steps):
        return None
    difference = first_difference(sheet, correct, planted.worked)
    if difference is None or _looks_correct(sheet, planted, difference[0]):
        return None
    return planted.worked, *difference


def _looks_correct(sheet: Sheet, planted: Planted, key: str) -> bool:
    """Return True if the wrong step is claimed but looks right, and a later step is wrong."""
    return key not in planted.steps and bool(planted.steps.intersection(sheet.claimed))


def time_files(count: int, seed: int) -> float:
    """Return the seconds of one `workings check` of many files, half of them with a mistake."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        paths: list[str] = []
        while len(paths) < count:
            sheet, worked = random_sheet(rng)
            if len(paths) % 2:
                planted = plant(sheet, str(rng.choice(NAMES)), worked, rng)
                if planted is None or any(np.isnan(m).any() for m in planted.worked.env.values()):
                    continue
                worked = planted.worked
            path = Path(folder) / f"{len(paths):04}.toml"
            path.write_text(to_toml(sheet, worked), encoding="utf-8")
            paths.append(str(path))
        start = time.perf_counter()
        command = [sys.executable, "-m", "workings", "check", "--json", *paths]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
    if result.returncode > 1 or len(result.stdout.splitlines()) != count:
        raise RuntimeError(f"check failed: {result.stderr[:500]}")
    return seconds


def run(sheets: int, plants: int, count: int, seed: int) -> dict[str, object]:
    """Run all measurements, print them and return them for JSON."""
    false_alarms = check_correct_solutions(sheets, seed)
    print(f"correct solutions reported as wrong: {len(false_alarms)} of {sheets:,} (allowed: 0)")
    for text in false_alarms[:3]:
        print(text)
    print(f"\n{'planted':30}{'n':>6}{'skipped':>9}{'found %':>9}{'cause %':>9}{'causes':>8}")
    rows = [check_planted_mistakes(name, plants, seed) for name in NAMES]
    total = Row("all")
    for row in rows:
        total.num_planted += row.num_planted
        total.num_within_rounding += row.num_within_rounding
        total.num_found += row.num_found
        total.num_named += row.num_named
        total.num_causes += row.num_causes
    for row in (*rows, total):
        found_percent, named_percent, causes = row.shares()
        counts = f"{row.name:30}{row.num_planted:6}{row.num_within_rounding:9}"
        print(f"{counts}{found_percent:9.1f}{named_percent:9.1f}{causes:8.2f}")
    found_percent, named_percent, causes = total.shares()
    print(f"\nfirst wrong cell found: {found_percent:.2f} % (at least {MIN_FOUND})")
    print(f"mistake named: {named_percent:.2f} % (at least {MIN_NAMED})")
    print(f"causes on average: {causes:.2f} (at most {MAX_CAUSES})")
    print(f"skipped, since rounding could explain them: {total.num_within_rounding}")
    seconds = time_files(count, seed)
    print(f"{count:,} files in one call: {seconds:.1f} s (at most {MAX_SECONDS:.0f} s for 1,000)")
    passed = not false_alarms and found_percent >= MIN_FOUND and named_percent >= MIN_NAMED
    passed = passed and causes <= MAX_CAUSES
    return {
        "honest": sheets,
        "honest_called_wrong": len(false_alarms),
        "mistakes": [row.to_dict() for row in (*rows, total)],
        "files": count,
        "files_seconds": round(seconds, 2),
        "passed": passed and seconds <= max(MAX_SECONDS * count / 1_000, 2.0),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of everything")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/check.json"))
    arguments = parser.parse_args(argv)
    counts = (100, 2, 10) if arguments.quick else (10_000, 100, 1_000)
    result = run(*counts, arguments.seed)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("all limits are met" if result["passed"] else "a limit is not met")
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
