"""Numbers and structure of all outputs equal those in frozen/, which freeze.py wrote.

Names in outputs may change: they are compared up to a one-to-one renaming. public_names.py has the
names of commands, keys and requests.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import collected_numbers as collected
import numpy as np
import public_names as names
import pytest

FROZEN = Path(__file__).parent / "frozen"
MAX_DIFFERENCES = 12


class Renaming:
    """A one-to-one mapping of old to new names for each key."""

    def __init__(self) -> None:
        self._new: dict[tuple[str, str], str] = {}
        self._old: dict[tuple[str, str], str] = {}

    def is_consistent(self, key: str, old: str, new: str) -> bool:
        """Return True if `old` can have been renamed to `new`."""
        known = self._new.setdefault((key, old), new), self._old.setdefault((key, new), old)
        return known == (new, old)


def list_differences(
    old: Any, new: Any, is_close: Any, renaming: Renaming, path: str = "", key: str = ""
) -> Iterator[str]:
    """Yield the differences of two JSON values: in type, length, number, or which names agree."""
    if isinstance(old, dict) and isinstance(new, dict):
        if len(old) != len(new):
            yield f"{path}: {list(old)} became {list(new)}"
            return
        for (name, one), other in zip(old.items(), new.values(), strict=True):
            yield from list_differences(one, other, is_close, renaming, f"{path}/{name}", name)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} items became {len(new)}"
            return
        for k, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from list_differences(one, other, is_close, renaming, f"{path}/{k}", key)
    elif isinstance(old, str) and isinstance(new, str):
        pattern, other = (collected.NUMBER.sub("#", text) for text in (old, new))
        if collected.parse_numbers(old) != collected.parse_numbers(new):
            yield f"{path}: {old!r} became {new!r}"
        elif not renaming.is_consistent(key, pattern, other):
            yield f"{path}: {old!r} became {new!r}, which was another name"
    elif isinstance(old, bool) or isinstance(new, bool) or old is None or new is None:
        if old is not new:
            yield f"{path}: {old} became {new}"
    elif isinstance(old, int | float) and isinstance(new, int | float):
        if not is_close(old, new):
            yield f"{path}: {old} became {new}"
    else:
        yield f"{path}: {type(old).__name__} became {type(new).__name__}"


def tolerance(relative: float, absolute: float) -> Any:
    return lambda old, new: math.isclose(old, new, rel_tol=relative, abs_tol=absolute)


def is_equal(old: float, new: float) -> bool:
    """Compare eleven digits; zeros may become rounding errors."""
    return math.isclose(old, new, rel_tol=1e-11, abs_tol=0.0 if old else 1e-14)


def expect_frozen(subject: str, current: Any, is_close: Any) -> None:
    frozen = json.loads((FROZEN / f"{subject}.json").read_text(encoding="utf-8"))
    rounded = collected.round_floats(current, 15)
    found = [*list_differences(frozen, rounded, is_close, Renaming())]
    more = f"\n… and {len(found) - MAX_DIFFERENCES} more" if len(found) > MAX_DIFFERENCES else ""
    assert not found, f"{subject}:\n" + "\n".join(found[:MAX_DIFFERENCES]) + more


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return collected.train_recipes(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(runs: dict[str, Path]) -> Iterator[Any]:
    with collected.make_client(runs) as client:
        yield client


def test_every_step_of_the_lectures() -> None:
    expect_frozen("solve", collected.solve_lectures(), is_equal)


def test_verdicts_on_the_lectures() -> None:
    expect_frozen("check", collected.check_lectures(), is_equal)


def test_sheets_keys_and_grades(tmp_path: Path) -> None:
    expect_frozen("make", collected.make_sheets(tmp_path), is_equal)


def test_metrics_of_trainings(runs: dict[str, Path]) -> None:
    expect_frozen("train", collected.read_logs(runs), tolerance(1e-4, 1e-9))


def test_numbers_that_verbs_print_about_runs(runs: dict[str, Path], tmp_path: Path) -> None:
    expect_frozen(
        "printed", collected.collect_printed_numbers(runs, tmp_path), tolerance(1e-4, 1e-6)
    )


def test_exported_models(runs: dict[str, Path], page: Any, tmp_path: Path) -> None:
    current = collected.compute_exported_models(runs, page, tmp_path)
    expect_frozen("export", current, tolerance(1e-4, 1e-4))
    probabilities = sorted(collected.softmax(np.array(current["gpt2"]))[-1], reverse=True)
    own = collected.get_next_token_probabilities(page)
    assert probabilities[: len(own)] == pytest.approx(own, abs=1e-4)
    assert sum(current["ctranslate2, own translation"]) == pytest.approx(
        collected.get_log_probability(page), abs=1e-3
    )


def test_responses_of_the_page(page: Any) -> None:
    expect_frozen("page", collected.collect_responses(page), tolerance(1e-4, 1e-6))


def test_any_changed_number_length_or_name_is_a_difference() -> None:
    old = {"step": "Q", "cells": [["right", "wrong"], ["right", "1.50"]], "x": [1.0, 2]}

    def differences(new: Any) -> list[str]:
        return [*list_differences(old, new, is_equal, Renaming())]

    assert not differences(
        {"stage": "queries", "marks": [["ok", "no"], ["ok", "1.5"]], "y": [1.0, 2]}
    )
    for cells, numbers in (
        ([["ok", "no"], ["ok", "1.51"]], [1.0, 2]),
        ([["ok", "no"], ["no", "1.50"]], [1.0, 2]),
        ([["ok", "ok"], ["ok", "1.50"]], [1.0, 2]),
        ([["ok", "no"], ["ok", "1.50"]], [1.0, 2.0000001]),
        ([["ok", "no"], ["ok", "1.50"]], [1.0]),
    ):
        assert differences({"step": "Q", "cells": cells, "x": numbers})


def test_every_kind_of_sheet_and_every_task_is_covered() -> None:
    tasks = {recipe["task"] for recipe in names.RECIPES.values()}
    assert len(tasks) == 4
    assert len(names.KINDS) == 11
