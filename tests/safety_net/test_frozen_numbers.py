"""The numbers and the structure that users see are what they were, whatever things are called.

typed_names.py has every name that is typed here; recipes are its table RECIPES. What is expected
lies in frozen/, written by freeze.py. Names in answers are compared up to a one-to-one renaming.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numbers_seen as seen
import numpy as np
import pytest
import typed_names as names

FROZEN = Path(__file__).parent / "frozen"
MOST_TOLD = 12


class Renaming:
    """Old names and new ones: in each place, one for one."""

    def __init__(self) -> None:
        self._new: dict[tuple[str, str], str] = {}
        self._old: dict[tuple[str, str], str] = {}

    def fits(self, place: str, old: str, new: str) -> bool:
        """Say whether this name may have become that one."""
        known = self._new.setdefault((place, old), new), self._old.setdefault((place, new), old)
        return known == (new, old)


def differences(
    old: Any, new: Any, near: Any, renaming: Renaming, path: str = "", place: str = ""
) -> Iterator[str]:
    """Tell where two structures differ: in kind, in length, in a number, in what is named alike."""
    if isinstance(old, dict) and isinstance(new, dict):
        if len(old) != len(new):
            yield f"{path}: {list(old)} became {list(new)}"
            return
        for (key, one), other in zip(old.items(), new.values(), strict=True):
            yield from differences(one, other, near, renaming, f"{path}/{key}", key)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} things became {len(new)}"
            return
        for k, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, near, renaming, f"{path}/{k}", place)
    elif isinstance(old, str) and isinstance(new, str):
        pattern, other = (seen.NUMBER.sub("#", text) for text in (old, new))
        if seen.printed_numbers(old) != seen.printed_numbers(new):
            yield f"{path}: {old!r} became {new!r}"
        elif not renaming.fits(place, pattern, other):
            yield f"{path}: {old!r} became {new!r}, which is another's name"
    elif isinstance(old, bool) or isinstance(new, bool) or old is None or new is None:
        if old is not new:
            yield f"{path}: {old} became {new}"
    elif isinstance(old, int | float) and isinstance(new, int | float):
        if not near(old, new):
            yield f"{path}: {old} became {new}"
    else:
        yield f"{path}: {type(old).__name__} became {type(new).__name__}"


def within(relative: float, absolute: float) -> Any:
    return lambda old, new: math.isclose(old, new, rel_tol=relative, abs_tol=absolute)


def exact(old: float, new: float) -> bool:
    """Twelve digits; where there was nothing, what rounding leaves."""
    return math.isclose(old, new, rel_tol=1e-11, abs_tol=0.0 if old else 1e-14)


def expect_frozen(subject: str, current: Any, near: Any) -> None:
    frozen = json.loads((FROZEN / f"{subject}.json").read_text(encoding="utf-8"))
    message = [*differences(frozen, seen.rounded(current, 15), near, Renaming())]
    more = f"\n… and {len(message) - MOST_TOLD} more" if len(message) > MOST_TOLD else ""
    assert not message, f"{subject}:\n" + "\n".join(message[:MOST_TOLD]) + more


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return seen.trained(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(runs: dict[str, Path]) -> Iterator[Any]:
    with seen.client(runs) as client:
        yield client


def test_every_step_of_the_lectures() -> None:
    expect_frozen("solve", seen.solved(), exact)


def test_what_is_wrong_in_the_lectures() -> None:
    expect_frozen("check", seen.checked(), exact)


def test_sheets_keys_and_marks(tmp_path: Path) -> None:
    expect_frozen("make", seen.made(tmp_path), exact)


def test_what_trainings_measure(runs: dict[str, Path]) -> None:
    expect_frozen("train", seen.logged(runs), within(1e-4, 1e-9))


def test_what_verbs_print_about_runs(runs: dict[str, Path], tmp_path: Path) -> None:
    expect_frozen("printed", seen.printed(runs, tmp_path), within(1e-4, 1e-6))


def test_exported_models(runs: dict[str, Path], page: Any, tmp_path: Path) -> None:
    current = seen.exported(runs, page, tmp_path)
    expect_frozen("export", current, within(1e-4, 1e-4))
    shares = sorted(seen.softmax(np.array(current["gpt2"]))[-1], reverse=True)
    own = seen.next_token(page)
    assert shares[: len(own)] == pytest.approx(own, abs=1e-4)
    assert sum(current["ctranslate2, of its own"]) == pytest.approx(
        seen.log_probability(page), abs=1e-3
    )


def test_the_pages_answers(page: Any) -> None:
    expect_frozen("page", seen.answered(page), within(1e-4, 1e-6))


def test_the_net_has_no_holes() -> None:
    """A number, a name or a length that differs is seen."""
    old = {"step": "Q", "cells": [["right", "wrong"], ["right", "1.50"]], "x": [1.0, 2]}

    def message(new: Any) -> list[str]:
        return [*differences(old, new, exact, Renaming())]

    assert not message({"stage": "queries", "marks": [["ok", "no"], ["ok", "1.5"]], "y": [1.0, 2]})
    for cells, numbers in (
        ([["ok", "no"], ["ok", "1.51"]], [1.0, 2]),
        ([["ok", "no"], ["no", "1.50"]], [1.0, 2]),
        ([["ok", "ok"], ["ok", "1.50"]], [1.0, 2]),
        ([["ok", "no"], ["ok", "1.50"]], [1.0, 2.0000001]),
        ([["ok", "no"], ["ok", "1.50"]], [1.0]),
    ):
        assert message({"step": "Q", "cells": cells, "x": numbers})


def test_every_kind_of_sheet_and_every_task_is_in_the_net() -> None:
    tasks = {recipe["task"] for recipe in names.RECIPES.values()}
    assert len(tasks) == 4
    assert len(names.KINDS) == 11
