"""Measure `workings check`: honest solutions, slips, named and nameless mistakes, a thousand files.

    python bench/check.py --jobs 2             20,000 honest solutions; about ten minutes
    python bench/check.py --quick              a hundredth of that
    python bench/check.py --only honest        one section; --out FILE puts it beside the others

Sheets, mistakes and the effects of rounding are computed in plain numpy, not by the package.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from examples.catalog import EXAMPLES
from kinds import check_kind, check_kind_slips, plant_in_kind
from mistake_pairs import plant_two
from planting import FORMULA_MISTAKES, NAMES, plant, work_with_mistake
from random_sheets import KINDS, random_sheet
from rounding import excess, first_difference, orient
from rows import Row, add_up
from sheets import Sheet, Worked, solve, to_toml
from slips import hard_argmax, slip_beyond_rounding
from styles import STYLES
from uncatalogued import KINDS_OF_DISTORTION, plant_uncatalogued
from workings.problems import Problem
from workings.problems.check import Report

Rng = np.random.Generator
MIN_UNITS = 3.0  # beyond rounding: nearer numbers may be rounded
MIN_FOUND, MIN_FIRST = 99.9, 99.8  # percent of slips
MIN_NAMED_EACH = 95.0  # percent of every mistake of the catalogue
MIN_NAMED_OVERALL = {
    "mistakes": 98.5,
    "mistakes_by_kind": 98.5,
    "mistake_and_slip": 95.0,
    "two_mistakes": 90.0,
}
MAX_CAUSES = 1.5  # on average
MAX_MISNAMED = 2.0  # percent of the mistakes without a name
MAX_SECONDS, MAX_SECONDS_ONE = 12.0, 0.35  # for 1,000 files and for one
NO_CAUSE = "unknown"
_MAX_TRIES = 400  # sheets drawn per planted mistake

_RECURRENT, _NORMS = ("rnn", "lstm"), ("layer_norm", "block")
KINDS_OF_MISTAKE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("recurrence-forgotten", "state-not-updated"), _RECURRENT),
    **dict.fromkeys(("gates-swapped", "cell-not-squashed", "old-cell-used"), ("lstm",)),
    **dict.fromkeys(("variance-over-n-minus-1", "normalized-over-batch"), _NORMS),
    **dict.fromkeys(("variance-for-deviation", "deviation-for-variance"), _NORMS),
    **dict.fromkeys(("eps-forgotten", "gamma-forgotten", "beta-forgotten"), _NORMS),
    **dict.fromkeys(("positions-from-1", "sin-and-cos-swapped"), ("positions",)),
    **dict.fromkeys(("exponent-by-column", "degrees-for-radians"), ("positions",)),
    **dict.fromkeys(("wrong-base", "wrong-width"), ("positions",)),
    "weights-in-wrong-order": ("feed_forward", "block"),
}


def _check(text: str) -> Report | None:
    """Check a file; None if it is refused."""
    try:
        return Problem.from_toml(text).check()
    except Exception:
        return None


def _names(report: Report | None) -> list[str]:
    """Return the causes of the first wrong cell."""
    return [] if report is None or report.first is None else [c.name for c in report.first.causes]


def check_honest(style: str, count: int, seed: int) -> Row:
    """Check correct solutions in one style."""
    row, rng = Row(style), np.random.default_rng([seed, *style.encode()])
    for _ in range(count):
        text = to_toml(*random_sheet(rng, style))
        report = _check(text)
        row.num_planted += 1
        if report is None or report.verdict == "wrong":
            row.num_wrong += 1
            row.add_failure(text)
    return row


def check_slips(name: str, count: int, seed: int) -> Row:
    """Change one number by more than rounding could explain and check the sheets."""
    row, rng = Row(name), np.random.default_rng([seed, *name.encode()])
    while row.num_planted < count:
        sheet, correct = random_sheet(rng, **SLIP_SHEETS[name])
        exact = solve(sheet)
        if name == "hard argmax":
            argmax = hard_argmax(sheet, correct, exact, rng)
            if argmax is None or (cell := _first_hard_cell(sheet, *argmax, exact)) is None:
                continue
            worked, key = argmax
        else:
            slip = slip_beyond_rounding(sheet, correct, exact, rng, MIN_UNITS)
            if slip is None:
                continue
            worked, key, cell = slip
            if not excess(sheet, worked, key, exact)[orient(sheet, cell)] > MIN_UNITS:
                row.num_within_rounding += 1
                continue
        row.num_planted += 1
        text = to_toml(sheet, worked)
        report = _check(text)
        first = None if report is None else report.first
        row.num_wrong += first is not None
        is_found = first is not None and (first.key, first.cell) == (key, cell)
        row.num_found += is_found
        row.given_names.update(_names(report))
        if not is_found:
            row.add_failure(text)
    return row


SLIP_SHEETS: dict[str, dict[str, Any]] = {
    "any number": {"is_complete": True},
    "after skipped steps": {"is_complete": False},
    "after exact numbers": {"style": "all digits", "kind": "attention", "decimals": 1},
    "hard argmax": {},
}


def _first_hard_cell(
    sheet: Sheet, worked: Worked, key: str, exact: dict[str, np.ndarray]
) -> tuple[int, int] | None:
    """Return the first weight that no rounding makes 0 or 1; None if one is in between.

    A whole number may stand for one decimal: 0.04 is 0, and 0.2 is not.
    """
    texts = worked.texts[key]
    is_whole = not any("." in text for row in texts for text in row)
    if is_whole:
        decimals = [[f"{text}.0" for text in row] for row in texts]
        worked = Worked(worked.env, {**worked.texts, key: decimals})
    distance = excess(sheet, worked, key, exact) * (2 if is_whole else 1)
    distance = distance.T if sheet.columns else distance
    is_wrong = distance > MIN_UNITS
    if not is_wrong.any() or ((distance > 0.6) & ~is_wrong).any():
        return None
    row, column = np.argwhere(is_wrong)[0].tolist()
    return row, column


def check_mistakes(name: str, count: int, seed: int) -> Row:
    """Plant a mistake `count` times and check the sheets."""
    row, rng = Row(name), np.random.default_rng([seed, *name.encode()])
    for _ in range(count * _MAX_TRIES):
        if row.num_planted == count:
            break
        sheet, correct = _draw_sheet(name, rng)
        planted = _plant_once(sheet, name, correct, rng)
        if planted is None:
            continue
        worked, key, cell = planted
        exact = solve(sheet)
        if not excess(sheet, worked, key, exact)[orient(sheet, cell)] > MIN_UNITS:
            row.num_within_rounding += 1
            continue
        row.num_planted += 1
        text = to_toml(sheet, worked)
        report = _check(text)
        first = None if report is None else report.first
        row.num_wrong += first is not None
        is_found = first is not None and (first.key, first.cell) == (key, cell)
        is_named = is_found and name in _names(report)
        row.num_found += is_found
        row.num_named += is_named
        row.num_causes += len(_names(report)) if is_found else 0
        if not is_named:
            row.given_names.update(_names(report))
            row.add_failure(text)
    return row


def _draw_sheet(name: str, rng: Rng) -> tuple[Sheet, Worked]:
    kinds = KINDS_OF_MISTAKE.get(name)
    return random_sheet(rng, kind=None if kinds is None else str(rng.choice(kinds)))


def _plant_once(
    sheet: Sheet, name: str, correct: Worked, rng: Rng
) -> tuple[Worked, str, tuple[int, int]] | None:
    """Plant a mistake in a sheet; return the solution and the first number that differs."""
    planted = plant(sheet, name, correct, rng)
    if planted is None or any(np.isnan(planted.worked.env[key]).any() for key in sheet.steps):
        return None
    difference = first_difference(sheet, correct, planted.worked)
    if difference is None:
        return None
    key, cell = difference
    # If a wrong step is claimed but looks right, the mistake is not visible there.
    if key not in planted.steps and planted.steps.intersection(sheet.claimed):
        return None
    return planted.worked, key, cell


def check_uncatalogued(name: str, count: int, seed: int) -> Row:
    """Plant wrong formulas without a name; count those that get one."""
    row, rng = Row(name), np.random.default_rng([seed, *name.encode()])
    for _ in range(count * _MAX_TRIES):
        if row.num_planted == count:
            break
        sheet, correct = random_sheet(rng)
        planted = plant_uncatalogued(sheet, name, correct, solve(sheet), rng)
        if planted is None:
            continue
        worked, key = planted
        row.num_planted += 1
        text = to_toml(sheet, worked)
        report = _check(text)
        first = None if report is None else report.first
        row.num_wrong += first is not None
        row.num_found += first is not None and first.key == key
        if _names(report) != [NO_CAUSE]:
            row.num_named += 1
            row.given_names.update(_names(report))
            row.add_failure(text)
    return row


def check_with_slip(name: str, count: int, seed: int) -> Row:
    """Plant a mistake in a whole step, with one more number wrong in it."""
    row, rng = Row(name), np.random.default_rng([seed, 1, *name.encode()])
    for _ in range(count * _MAX_TRIES):
        if row.num_planted == count:
            break
        sheet, correct = _draw_sheet(name, rng)
        worked = _plant_with_slip(sheet, name, correct, rng)
        if worked is None:
            continue
        row.num_planted += 1
        text = to_toml(sheet, worked)
        report = _check(text)
        row.num_wrong += report is not None and report.first is not None
        is_named = name in _names(report)
        row.num_named += is_named
        if not is_named:
            row.given_names.update(_names(report))
            row.add_failure(text)
    return row


def _plant_with_slip(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Worked | None:
    """Return the solution; None if fewer than three numbers besides the slip show the mistake."""
    variants = list(FORMULA_MISTAKES[name](sheet))
    if not variants:
        return None
    variant = variants[rng.integers(len(variants))]
    alone = work_with_mistake(sheet, variant, correct)
    difference = alone and first_difference(sheet, correct, alone)
    if alone is None or difference is None:
        return None
    key, exact = difference[0], solve(sheet)
    if key not in variant and set(variant).intersection(sheet.claimed):
        return None
    beyond = excess(sheet, alone, key, exact)
    i, j = (int(rng.integers(size)) for size in beyond.shape)
    is_visible = beyond > MIN_UNITS
    is_visible[i, j] = False
    if is_visible.sum() < 3 or ((beyond > 0) & (beyond <= MIN_UNITS)).any():
        return None
    text = alone.texts[key][i][j]
    if not np.isfinite(float(text)):
        return None
    decimals = len(text.partition(".")[2])
    size = rng.uniform(10, 100) * rng.choice([-1, 1]) * 10.0**-decimals
    wrong_text = f"{float(text) + size:.{decimals}f}"

    def spoil(step: str, before: list[list[str]]) -> list[list[str]]:
        texts = [list(row) for row in before]
        if step == key:
            texts[i][j] = wrong_text
        return texts

    worked = work_with_mistake(sheet, variant, correct, spoil)
    if worked is None or not excess(sheet, worked, key, exact)[i, j] > MIN_UNITS:
        return None
    return worked


def check_pairs(name: str, count: int, seed: int) -> Row:
    """Plant two mistakes at once in sheets of a kind."""
    row, rng = Row(name), np.random.default_rng([seed, *name.encode()])
    for _ in range(count * _MAX_TRIES):
        if row.num_planted == count:
            break
        sheet, _ = random_sheet(rng, kind=name)
        planted = plant_two(sheet, rng)
        if planted is None:
            continue
        worked, _, names = planted
        row.num_planted += 1
        text = to_toml(sheet, worked)
        report = _check(text)
        row.num_wrong += report is not None and report.first is not None
        given = _names(report)
        is_named = names <= set(given) or any(names == set(n.split(" + ")) for n in given)
        row.num_named += is_named
        if not is_named:
            row.given_names.update([f"{' + '.join(sorted(names))}: {' or '.join(given)}"])
            row.add_failure(text)
    return row


def time_files(count: int, seed: int) -> tuple[float, float]:
    """Return the seconds of one call with many files, half with a mistake, and with one file."""
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
        seconds = _time_call(paths)
        return seconds, statistics.median(_time_call(paths[1:2]) for _ in range(5))


def _time_call(paths: list[str]) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "workings", "check", "--json", *paths]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if result.returncode > 1 or len(result.stdout.splitlines()) != len(paths):
        raise RuntimeError(f"check failed: {result.stderr[:500]}")
    return seconds


@dataclass(frozen=True)
class Section:
    """Measurements of one sort: a function of a name, and how often it runs for each name."""

    measure: Callable[[str, int, int], Row]
    counts: dict[str, int]
    columns: tuple[str, ...]  # of the result


SECTIONS: dict[str, Section] = {
    "honest": Section(check_honest, dict.fromkeys(STYLES, -(-20_000 // len(STYLES))), ("wrong",)),
    "slips": Section(
        check_slips,
        {
            "any number": 3_000,
            "after skipped steps": 1_000,
            "after exact numbers": 1_000,
            "hard argmax": 1_000,
        },
        ("within_rounding", "wrong", "found"),
    ),
    "mistakes": Section(
        check_mistakes,
        dict.fromkeys(NAMES, 100),
        ("within_rounding", "wrong", "found", "named", "causes"),
    ),
    "uncatalogued": Section(
        check_uncatalogued,
        dict.fromkeys(KINDS_OF_DISTORTION, -(-1_000 // len(KINDS_OF_DISTORTION))),
        ("wrong", "found", "named"),
    ),
    "mistake_and_slip": Section(
        check_with_slip, dict.fromkeys(FORMULA_MISTAKES, 20), ("wrong", "named")
    ),
    "two_mistakes": Section(
        check_pairs,
        {**dict.fromkeys(KINDS, 70), "attention": 510},
        ("wrong", "named"),
    ),
    "honest_by_kind": Section(check_kind, dict.fromkeys(EXAMPLES, 600), ("wrong",)),
    "slips_by_kind": Section(check_kind_slips, dict.fromkeys(EXAMPLES, 200), ("found",)),
    "mistakes_by_kind": Section(plant_in_kind, dict.fromkeys(EXAMPLES, 30), ("named",)),
}


def run_section(name: str, share: float, seed: int, jobs: int) -> list[Row]:
    """Measure everything of a section, in several processes."""
    section = SECTIONS[name]
    tasks = [(name, key, ceil(n * share), seed) for key, n in section.counts.items()]
    if jobs == 1:
        return [_measure(task) for task in tasks]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(_measure, tasks))


def _measure(task: tuple[str, str, int, int]) -> Row:
    section, name, count, seed = task
    return SECTIONS[section].measure(name, count, seed)


def print_rows(title: str, rows: list[Row], columns: tuple[str, ...]) -> None:
    """Print a table with percentages and, for failures, the names that were given instead."""
    print(f"\n{title:32}{'n':>7}", *(f"{column:>16}" for column in columns))
    for row in (*rows, add_up(rows)):
        cells = (_format_cell(row, column) for column in columns)
        names = ", ".join(f"{name} {n}" for name, n in row.given_names.most_common(3))
        line = f"{row.name:32}{row.num_planted:7} " + " ".join(f"{cell:>16}" for cell in cells)
        print(f"{line}  {names}".rstrip(), flush=True)


def _format_cell(row: Row, column: str) -> str:
    count = getattr(row, f"num_{column}")
    if column == "within_rounding":
        return str(count)
    if column == "causes":
        return f"{count / max(row.num_found, 1):.2f}"
    return f"{count} {row.percent(count):6.2f} %"


def list_missed_limits(name: str, rows: list[Row]) -> Iterator[str]:
    """Yield the limits of a section that are not met."""
    total = add_up(rows)
    if name.startswith("honest") and total.num_wrong:
        yield f"{total.num_wrong} honest solutions are called wrong or refused (at most 0)"
    for row in rows:
        is_slip, is_mistake = name.startswith("slips"), name.startswith("mistakes")
        shares = {
            "found": (row.percent(row.num_wrong), MIN_FOUND if name == "slips" else 0),
            "at the cell": (row.percent(row.num_found), MIN_FIRST if is_slip else 0),
            "named": (row.percent(row.num_named), MIN_NAMED_EACH if is_mistake else 0),
        }
        for what, (percent, limit) in shares.items():
            if percent < limit:
                yield f"{name}, {row.name}: {percent:.2f} % {what} (at least {limit})"
        if not row.num_planted:
            yield f"{name}, {row.name}: not planted"
    named = total.percent(total.num_named)
    if named < MIN_NAMED_OVERALL.get(name, 0):
        yield f"{name}: {named:.2f} % named (at least {MIN_NAMED_OVERALL[name]})"
    if name == "uncatalogued" and named > MAX_MISNAMED:
        yield f"{named:.2f} % of mistakes without a name get one (at most {MAX_MISNAMED})"
    if name == "mistakes" and total.num_causes > MAX_CAUSES * total.num_found:
        yield f"{total.num_causes / total.num_found:.2f} causes on average (at most {MAX_CAUSES})"


def run(names: list[str], share: float, seed: int, jobs: int) -> tuple[dict[str, Any], list[Row]]:
    """Run sections and print them; return the figures for JSON, and all counts."""
    result: dict[str, Any] = {}
    all_rows, missed = [], {name: list[str]() for name in names}
    for name in names:
        if name == "timing":
            continue
        rows, columns = run_section(name, share, seed, jobs), SECTIONS[name].columns
        all_rows += rows
        print_rows(name.replace("_", " "), rows, columns)
        result[name] = [row.to_dict(*columns) for row in (*rows, add_up(rows))]
        missed[name] += list_missed_limits(name, rows)
    if "timing" in names:
        count = ceil(1_000 * share)
        many, one = time_files(count, seed)
        print(f"\n{count:,} files in one call: {many:.2f} s; one file: {one:.2f} s")
        result |= {"files": count, "files_seconds": round(many, 2), "file_seconds": round(one, 3)}
        limit = MAX_SECONDS * share
        if many > max(limit, 2.0):
            missed["timing"].append(f"{count:,} files take {many:.1f} s (at most {limit:.1f})")
        if one > MAX_SECONDS_ONE:
            missed["timing"].append(f"one file takes {one:.2f} s (at most {MAX_SECONDS_ONE})")
    print("\n" + ("\n".join(chain(*missed.values())) or "all limits are met"))
    return {**result, "missed_limits": missed, "passed": not any(missed.values())}, all_rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of everything")
    parser.add_argument("--only", choices=(*SECTIONS, "timing"), action="append", help="sections")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--out", type=Path, help="result file; results/check.json if all is run")
    parser.add_argument("--failures", type=Path, help="folder for files that were judged wrongly")
    arguments = parser.parse_args(argv)
    names = arguments.only or [*SECTIONS, "timing"]
    share = 0.01 if arguments.quick else 1.0
    result, rows = run(names, share, arguments.seed, arguments.jobs)
    out = arguments.out or (None if arguments.only else Path("results/check.json"))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        if arguments.only and out.exists():
            result = _merge(json.loads(out.read_text(encoding="utf-8")), result)
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if arguments.failures is not None:
        write_failures(rows, arguments.failures)
    return 0 if result["passed"] else 1


def _merge(others: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the sections of an earlier run with those of this one."""
    missed = {**others["missed_limits"], **result["missed_limits"]}
    return {**others, **result, "missed_limits": missed, "passed": not any(missed.values())}


def write_failures(rows: list[Row], folder: Path) -> None:
    """Write the files that were judged wrongly, one folder per style or mistake."""
    for row in rows:
        place = folder / row.name.replace(" ", "-")
        for number, text in enumerate(row.failures, 1):
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
